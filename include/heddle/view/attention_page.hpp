// One HTML page that shows the attention of a model on a text: lines, heat maps, neurons, rollout and statistics. It
// needs no network, and no framework.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include <heddle/base/svg.hpp>
#include <heddle/io/json_string.hpp>
#include <heddle/view/attention_statistics.hpp>

namespace heddle::pictures {

/// The options of a page: what it shows at first.
struct PageOptions {
  Index layer = 0;                 ///< the layer that is shown
  std::optional<Index> head = {};  ///< the head that is shown; if empty, all heads of the layer
};

namespace detail {

// Returns the text as UTF-8: U+FFFD replaces invalid bytes.
inline std::string valid_utf8(std::string_view text) {
  std::string valid;
  for (const char *at = text.data(), *end = at + text.size(); at != end;) {
    char bytes[text::max_utf8_bytes];
    const int length = text::encode_utf8(text::decode_utf8(at, end), bytes);
    valid.append(bytes, static_cast<std::size_t>(length));
  }
  return valid;
}

// Returns a text as JSON that may stand in a script element: no byte of it ends the element or begins a comment.
inline std::string script_json(std::string_view text) {
  std::string json;
  for (const char c : io::json_string(valid_utf8(text)))
    if (c == '<' || c == '>' || c == '&') {
      constexpr char digits[] = "0123456789abcdef";
      json += {'\\', 'u', '0', '0', digits[c >> 4], digits[c & 15]};
    } else {
      json += c;
    }
  return json;
}

// Appends bytes in base64 (RFC 4648).
inline void append_base64(std::string& out, std::span<const unsigned char> bytes) {
  constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::size_t at = out.size();
  out.resize(at + (bytes.size() + 2) / 3 * 4, '=');
  for (std::size_t n = 0; n < bytes.size(); n += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - n);
    unsigned group = 0;
    for (std::size_t i = 0; i < 3; ++i) group = group << 8 | (i < count ? bytes[n + i] : 0u);
    for (std::size_t i = 0; i <= count; ++i) out[at + i] = digits[group >> (18 - 6 * i) & 63];
    at += 4;
  }
}

// A matrix with its values quantized to integers of type Q. The factors of all rows come first, then the values of all
// rows. The factor of a row is its largest magnitude divided by the largest Q. Weights are bytes, with an error of at
// most 1/510.
template <class Q>
class QuantizedRows {
 public:
  QuantizedRows(Index rows, Index width)
      : width_(width),
        bytes_(static_cast<std::size_t>(rows) * (sizeof(float) + static_cast<std::size_t>(width) * sizeof(Q))) {
    static_assert(std::endian::native == std::endian::little, "the page reads little-endian numbers");
    values_ = static_cast<std::size_t>(rows) * sizeof(float);
  }
  void add(const float* row) {
    constexpr long most = std::numeric_limits<Q>::max();
    float largest = 0;
    for (Index n = 0; n < width_; ++n) largest = std::max(largest, std::abs(row[n]));
    const float factor = largest / static_cast<float>(most);
    std::memcpy(bytes_.data() + row_++ * sizeof factor, &factor, sizeof factor);
    for (Index n = 0; n < width_; ++n) {
      const auto value = static_cast<Q>(factor > 0 ? std::clamp(std::lround(row[n] / factor), -most, most) : 0);
      std::memcpy(bytes_.data() + values_, &value, sizeof value);
      values_ += sizeof value;
    }
  }
  const std::vector<unsigned char>& bytes() const { return bytes_; }

 private:
  Index width_;
  std::vector<unsigned char> bytes_;
  std::size_t row_ = 0, values_;
};

inline void append_data(std::string& page, const std::string& id, const std::vector<unsigned char>& bytes) {
  page += "<script type=\"text/plain\" id=\"" + id + "\">";
  append_base64(page, bytes);
  page += "</script>\n";
}

// Returns pictures of all heads, each of `side` x `side` bytes. A byte is the largest weight of its part of the matrix,
// divided by the largest weight of the head and scaled to 0 to 255.
inline std::vector<unsigned char> thumbnails(const CheckedMap& map, Index side) {
  const Index T = map.T(), cells = side * side;
  std::vector<unsigned char> bytes;
  std::vector<float> largest(static_cast<std::size_t>(cells));
  for (Index l = 0; l < map.L(); ++l)
    for (Index h = 0; h < map.H(); ++h) {
      std::fill(largest.begin(), largest.end(), 0.f);
      for (Index i = 0; i < T; ++i)
        for (Index j = 0; j < T; ++j) {
          float& cell = largest[static_cast<std::size_t>(i * side / T * side + j * side / T)];
          cell = std::max(cell, map.weight(l, h, i, j));
        }
      const float most = *std::max_element(largest.begin(), largest.end());
      for (const float w : largest)
        bytes.push_back(static_cast<unsigned char>(most > 0 ? std::lround(255 * w / most) : 0));
    }
  return bytes;
}

// Returns the logarithm of the sum of the exponentials of a query's scores, with which the page computes exact weights,
// or NaN if the weights do not follow from the scores alone (a bias or a mask was added): then the page shows the
// rounded weights.
inline float log_sum_exp(const CheckedMap& map, Index l, Index h, Index i) {
  constexpr float tolerance = 1e-3f;
  constexpr Index most_checks = 16;  // keys
  const Index T = map.T();
  const float* const weights = map.row(l, h, i);
  const auto score = [&](Index j) {
    double product = 0;
    for (Index d = 0; d < map.K(); ++d) product += static_cast<double>(map.query(l, h, i)[d]) * map.key(l, h, j)[d];
    return product * map.scale();
  };
  const Index best = std::max_element(weights, weights + T) - weights;
  const double sum = score(best) - std::log(static_cast<double>(weights[best]));
  for (Index j = 0; j < T; j += (T + most_checks - 1) / most_checks)
    if (!(std::abs(std::exp(score(j) - sum) - weights[j]) <= tolerance)) return std::numeric_limits<float>::quiet_NaN();
  return static_cast<float>(sum);
}

template <class List, class Write>
std::string json_list(const List& list, Write write) {
  std::string json = "[";
  for (const auto& item : list) {
    if (json.size() > 1) json += ',';
    json += write(item);
  }
  return json + ']';
}

// Returns the object that describes the page: tokens, sizes, statistics, colors and the first view.
inline std::string page_data(const CheckedMap& map, const PageOptions& options, Index thumbnail) {
  using Statistic = double HeadStatistics::*;
  struct Measure {
    const char *name, *unit, *text;
    Statistic value;
  };
  static constexpr Measure measures[] = {
      {"entropy", "bits",
       "Entropy of the weights, mean over the queries: 0 bits if one key has all the weight, log2(T) if all T "
       "keys have equal weights.",
       &HeadStatistics::entropy},
      {"distance", "tokens", "Mean distance between query and key, in tokens.", &HeadStatistics::distance},
      {"on [CLS]", "", "Share of the weight on [CLS].", &HeadStatistics::cls},
      {"on [SEP]", "", "Share of the weight on [SEP].", &HeadStatistics::sep},
      {"on itself", "", "Share of the weight on the query's own token.", &HeadStatistics::self},
      {"on neighbors", "", "Share of the weight on the tokens before and after the query.",
       &HeadStatistics::neighbors}};
  std::vector<HeadStatistics> heads;
  for (Index l = 0; l < map.L(); ++l)
    for (Index h = 0; h < map.H(); ++h) heads.push_back(head_statistics(map, l, h));
  constexpr int shades = 64;
  std::vector<Color> palette;
  for (int n = 0; n < shades; ++n) palette.push_back(sequential_color(static_cast<double>(n) / (shades - 1)));
  const auto fixed = [](double x) { return number(x, std::chars_format::fixed, 4); };
  const auto whole = [](Index n) { return std::to_string(n); };
  const AttentionMap& shown = map.map();
  return "{\"title\":" + script_json(shown.title) + ",\"texts\":" + json_list(shown.texts, script_json) +
         ",\"tokens\":" + json_list(shown.tokens, script_json) + ",\"second\":" + whole(shown.second) +
         ",\"layers\":" + whole(map.L()) + ",\"heads\":" + whole(map.H()) + ",\"width\":" + whole(map.K()) +
         ",\"scale\":" + number(map.scale(), std::chars_format::scientific, 7) + ",\"layer\":" + whole(options.layer) +
         ",\"head\":" + (options.head ? whole(*options.head) : "null") + ",\"thumbnail\":" + whole(thumbnail) +
         ",\"palette\":" + json_list(palette, [](Color c) { return '"' + to_hex(c) + '"'; }) + ",\"measures\":" +
         json_list(measures,
                   [](const Measure& m) {
                     return "{\"name\":" + script_json(m.name) + ",\"unit\":" + script_json(m.unit) +
                            ",\"text\":" + script_json(m.text) + '}';
                   }) +
         ",\"statistics\":" +
         json_list(measures,
                   [&](const Measure& m) {
                     return json_list(heads, [&](const HeadStatistics& s) { return fixed(s.*m.value); });
                   }) +
         '}';
}

// clang-format off
inline constexpr std::string_view page_style =
#include <heddle/view/page/page.css.inc>
;
inline constexpr std::string_view page_body =
#include <heddle/view/page/page.html.inc>
;
inline constexpr std::string_view page_script =
#include <heddle/view/page/data.js.inc>
#include <heddle/view/page/heads.js.inc>
#include <heddle/view/page/neurons.js.inc>
#include <heddle/view/page/maps.js.inc>
#include <heddle/view/page/controls.js.inc>
;
// clang-format on

}  // namespace detail

/// Returns a page in HTML with views of heads, model, neurons (if the map has queries and keys), heat map, rollout and
/// statistics. Weights are rounded to 1/255 of the largest of their row; the neuron view computes them from queries and
/// keys, which have 16 bits, unless a bias or a mask was added to the scores. The page works by keyboard, in light and
/// dark mode and on paper, and loads nothing. @throws IndexError for a layer or head that the map does not have;
/// ShapeError and Error as attention_statistics() does.
inline std::string attention_page(const AttentionMap& map, const PageOptions& options = {}) {
  using namespace detail;
  const CheckedMap checked(map);
  checked.require_head(options.layer, options.head.value_or(0));
  const Index T = checked.T(), H = checked.H(), K = checked.K();
  constexpr Index most_thumbnail = 32;
  std::string page =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src "
      "'unsafe-inline'\">\n<title>" +
      escape_xml(map.title) + "</title>\n<style>" + std::string(page_style) + "</style>\n</head>\n<body>" +
      std::string(page_body);
  const auto add = [&](const std::string& name, Index layer, const std::vector<unsigned char>& bytes) {
    append_data(page, name + '-' + std::to_string(layer), bytes);
  };
  const std::vector<std::vector<float>> rolled = rollout(checked);
  for (Index l = 0; l < checked.L(); ++l) {
    QuantizedRows<std::uint8_t> weights(H * T, T), flow(T, T);
    QuantizedRows<std::int16_t> queries(H * T, K), keys(H * T, K);
    std::vector<float> sums;  // the logarithms of the sums of exponentials
    for (Index h = 0; h < H; ++h)
      for (Index i = 0; i < T; ++i) {
        weights.add(checked.row(l, h, i));
        if (K == 0) continue;
        queries.add(checked.query(l, h, i));
        keys.add(checked.key(l, h, i));
        sums.push_back(log_sum_exp(checked, l, h, i));
      }
    for (Index i = 0; i < T; ++i) flow.add(rolled[static_cast<std::size_t>(l)].data() + i * T);
    add("weights", l, weights.bytes());
    add("rollout", l, flow.bytes());
    if (K == 0) continue;
    add("queries", l, queries.bytes());
    add("keys", l, keys.bytes());
    const auto* const bytes = reinterpret_cast<const unsigned char*>(sums.data());
    add("sums", l, {bytes, bytes + sums.size() * sizeof(float)});
  }
  const Index side = std::min(T, most_thumbnail);
  append_data(page, "thumbnails", thumbnails(checked, side));
  page += "<script type=\"application/json\" id=\"page-data\">" + page_data(checked, options, side) + "</script>\n";
  page += "<script>" + std::string(page_script) + "</script>\n</body>\n</html>\n";
  return page;
}

}  // namespace heddle::pictures
