// The attention of a model on a text as JSON, CSV and SVG.
#pragma once
#include <charconv>

#include <heddle/view/attention_page.hpp>

namespace heddle::pictures {

namespace detail {

// Appends the shortest decimal that parses to the same float.
inline void append_number(std::string& out, float value) {
  char digits[32];
  out.append(digits, std::to_chars(std::begin(digits), std::end(digits), value).ptr);
}

// Returns the text as a field of CSV (RFC 4180), quoted if necessary.
inline std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

// The tokens [first, last).
struct TokenRange {
  Index first, last;
};

// Writes one entry of bertviz's list: the weights from the queries of `left` to the keys of `right`.
template <class Write>
void write_entry(const CheckedMap& map, const char* name, TokenRange left, TokenRange right, Write& write) {
  const auto texts = [&](TokenRange range) {
    const auto& tokens = map.map().tokens;
    return json_list(std::span(tokens).subspan(static_cast<std::size_t>(range.first),
                                               static_cast<std::size_t>(range.last - range.first)),
                     [](const std::string& token) { return io::json_string(valid_utf8(token)); });
  };
  write(std::string("{\"name\":") + (name ? io::json_string(name) : "null") + ",\"attn\":[");
  for (Index l = 0; l < map.L(); ++l) {
    write(l ? ",[" : "[");
    for (Index h = 0; h < map.H(); ++h) {
      std::string head = h ? ",[" : "[";
      for (Index i = left.first; i < left.last; ++i) {
        head += i > left.first ? ",[" : "[";
        for (Index j = right.first; j < right.last; ++j) {
          if (j > right.first) head += ',';
          append_number(head, map.weight(l, h, i, j));
        }
        head += ']';
      }
      write(head + ']');
    }
    write("]");
  }
  write("],\"left_text\":" + texts(left) + ",\"right_text\":" + texts(right) + '}');
}

}  // namespace detail

/// Writes the weights as the JSON object of bertviz's head view, through calls of write(std::string_view). A single
/// text has one entry without a name; a pair has the entries All, Sentence A -> Sentence A, and so on. Numbers parse to
/// exactly the floats of the map. @throws IndexError, ShapeError and Error as attention_page() does.
template <class Write>
void write_attention_json(const AttentionMap& map, Write&& write, const PageOptions& options = {}) {
  using namespace detail;
  const CheckedMap checked(map);
  checked.require_head(options.layer, options.head.value_or(0));
  const TokenRange all{0, checked.T()}, a{0, map.second}, b{map.second, checked.T()};
  write("{\"attention\":[");
  if (map.second == 0) {
    write_entry(checked, nullptr, all, all, write);
  } else {
    write_entry(checked, "All", all, all, write);
    write(",");
    write_entry(checked, "Sentence A -> Sentence A", a, a, write);
    write(",");
    write_entry(checked, "Sentence B -> Sentence B", b, b, write);
    write(",");
    write_entry(checked, "Sentence A -> Sentence B", a, b, write);
    write(",");
    write_entry(checked, "Sentence B -> Sentence A", b, a, write);
  }
  std::vector<Index> layers;
  for (Index l = 0; l < checked.L(); ++l) layers.push_back(l);
  const auto whole = [](Index n) { return std::to_string(n); };
  write("],\"default_filter\":\"0\",\"root_div_id\":\"heddle\",\"layer\":" + whole(options.layer) +
        ",\"heads\":" + (options.head ? '[' + whole(*options.head) + ']' : "null") +
        ",\"include_layers\":" + json_list(layers, whole) + "}\n");
}

/// Writes the weights as CSV with a header, through calls of write(std::string_view): a line for each layer, head,
/// query and key. @throws ShapeError and Error as attention_statistics() does.
template <class Write>
void write_attention_csv(const AttentionMap& map, Write&& write) {
  using namespace detail;
  const CheckedMap checked(map);
  std::vector<std::string> tokens;
  for (const std::string& token : map.tokens) tokens.push_back(csv_field(valid_utf8(token)));
  write("layer,head,query,key,query_token,key_token,weight\n");
  for (Index l = 0; l < checked.L(); ++l)
    for (Index h = 0; h < checked.H(); ++h)
      for (Index i = 0; i < checked.T(); ++i) {
        std::string lines;
        for (Index j = 0; j < checked.T(); ++j) {
          for (const Index n : {l, h, i, j}) lines += std::to_string(n) + ',';
          lines += tokens[static_cast<std::size_t>(i)] + ',' + tokens[static_cast<std::size_t>(j)] + ',';
          append_number(lines, checked.weight(l, h, i, j));
          lines += '\n';
        }
        write(lines);
      }
}

namespace detail {

// Draws a matrix of cells; adjacent cells of one color in a row are drawn as one rectangle. value(row, column) is in
// [0, 1].
template <class Value>
void draw_cells(Svg& svg, double left, double top, double cell, Index side, Value value) {
  constexpr int shades = 64;
  const auto length = cell * static_cast<double>(side);
  svg.rectangle(left, top, length, length, "cells", to_hex(sequential_color(0)));
  for (Index i = 0; i < side; ++i)
    for (Index j = 0, end = 0; j < side; j = end) {
      const auto shade = [&](Index column) { return std::lround(value(i, column) * (shades - 1)); };
      const long of = shade(j);
      for (end = j + 1; end < side && shade(end) == of;) ++end;
      if (of > 0)
        svg.rectangle(left + cell * static_cast<double>(j), top + cell * static_cast<double>(i),
                      cell * static_cast<double>(end - j), cell, "cell",
                      to_hex(sequential_color(static_cast<double>(of) / (shades - 1))));
    }
}

}  // namespace detail

/// Returns an SVG file with the weights of one head as a heat map: a row per query, a column per key. Colors are
/// between pale yellow for 0 and dark blue for the largest weight of the head, which is written below. @throws
/// IndexError, ShapeError and Error as attention_page() does.
inline std::string attention_heat_map(const AttentionMap& map, Index layer, Index head) {
  using namespace detail;
  const CheckedMap checked(map);
  checked.require_head(layer, head);
  const Index T = checked.T();
  constexpr double largest_cell = 22, least_cell = 3, side = 900, label_space = 130, title_space = 40, margin = 16;
  constexpr int longest_label = 16;
  const double cell = std::clamp(side / static_cast<double>(T), least_cell, largest_cell);
  const double left = label_space, top = title_space + label_space, length = cell * static_cast<double>(T);
  float largest = 0;
  for (Index i = 0; i < T; ++i)
    largest = std::max(largest, *std::max_element(checked.row(layer, head, i), checked.row(layer, head, i) + T));
  constexpr double least_width = 320;  // for the title
  Svg svg(left + std::max(length, least_width) + margin, top + length + 2 * margin + 8,
          map.title + ", layer " + std::to_string(layer) + ", head " + std::to_string(head));
  draw_cells(svg, left, top, cell, T, [&](Index i, Index j) {
    return static_cast<double>(largest > 0 ? checked.weight(layer, head, i, j) / largest : 0);
  });
  constexpr double line = 12;  // height of a label's line
  const auto step = static_cast<Index>(std::ceil(line / cell));
  for (Index n = 0; n < T; n += step) {
    const std::string label = shorten(map.tokens[static_cast<std::size_t>(n)], longest_label);
    const double middle = cell * (static_cast<double>(n) + 0.5) + 4;
    svg.text(left - 6, top + middle, label, "end");
    svg.text(left + middle, top - 6, label, "legend", true);
  }
  svg.text(left, top + length + margin + 4,
           "rows: queries, columns: keys; darkest: " + number(largest, std::chars_format::general, 3), "legend");
  return svg.finish();
}

/// Returns an SVG file with a heat map of each head: a row per layer, a column per head. @throws ShapeError and Error
/// as attention_statistics() does.
inline std::string attention_overview(const AttentionMap& map) {
  using namespace detail;
  const CheckedMap checked(map);
  constexpr Index most_cells = 32;
  constexpr double picture = 64, gap = 6, left = 40, top = 62, margin = 12, least_width = 320;
  const Index side = std::min(checked.T(), most_cells), cells = side * side;
  const std::vector<unsigned char> bytes = thumbnails(checked, side);
  const double step = picture + gap, width = left + step * static_cast<double>(checked.H());
  Svg svg(std::max(width, least_width) + margin, top + step * static_cast<double>(checked.L()) + margin, map.title);
  for (Index h = 0; h < checked.H(); ++h)
    svg.text(left + step * static_cast<double>(h) + picture / 2, top - 8, (h ? "" : "head ") + std::to_string(h),
             "middle");
  for (Index l = 0; l < checked.L(); ++l) {
    const double y = top + step * static_cast<double>(l);
    svg.text(left - 8, y + picture / 2 + 4, std::to_string(l), "end");
    for (Index h = 0; h < checked.H(); ++h)
      draw_cells(svg, left + step * static_cast<double>(h), y, picture / static_cast<double>(side), side,
                 [&](Index i, Index j) {
                   return bytes[static_cast<std::size_t>((l * checked.H() + h) * cells + i * side + j)] / 255.0;
                 });
  }
  return svg.finish();
}

}  // namespace heddle::pictures
