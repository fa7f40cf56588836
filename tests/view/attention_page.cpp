#include <cstring>
#include <heddle/heddle.hpp>
#include <heddle/view/attention_page.hpp>
#include <nlohmann/json.hpp>

#include "../harness/compare.hpp"
#include "catch.hpp"
#include "io/files.hpp"
#include "view/example_map.hpp"

using namespace heddle;
using namespace heddle::testing;
using pictures::AttentionMap;

namespace {

// Returns the data in the script element with this id.
std::string data_of(const std::string& page, const std::string& id) {
  const std::size_t at = page.find("id=\"" + id + "\">"), begin = page.find('>', at) + 1;
  require(at != page.npos, "tests: the page has no ", id);
  return page.substr(begin, page.find("</script>", begin) - begin);
}

std::vector<unsigned char> decode_base64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<unsigned char> bytes;
  unsigned group = 0;
  int bits = 0;
  for (const char c : text) {
    if (c == '=') break;
    group = group << 6 | static_cast<unsigned>(digits.find(c));
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes.push_back(static_cast<unsigned char>(group >> bits & 255));
  }
  return bytes;
}

// Returns the values of rows quantized to Q, as the page's script reads them.
template <class Q>
std::vector<double> rows_of(const std::string& page, const std::string& id, std::size_t rows, std::size_t width) {
  const std::vector<unsigned char> bytes = decode_base64(data_of(page, id));
  REQUIRE(bytes.size() == rows * (4 + width * sizeof(Q)));
  std::vector<double> values;
  for (std::size_t row = 0; row < rows; ++row) {
    float factor = 0;
    std::memcpy(&factor, bytes.data() + 4 * row, 4);
    for (std::size_t n = 0; n < width; ++n) {
      Q value = 0;
      std::memcpy(&value, bytes.data() + 4 * rows + (row * width + n) * sizeof value, sizeof value);
      values.push_back(static_cast<double>(factor) * value);
    }
  }
  return values;
}

}  // namespace

TEST_CASE(
    "attention_page: rounds weights by at most 1/510, and queries by at most 1/65534 of the largest of their row") {
  const AttentionMap map = example_map(2, 3, 5, 4);
  const std::string page = pictures::attention_page(map, {.layer = 1, .head = 2});
  for (std::size_t l = 0; l < 2; ++l) {
    const std::string of = std::to_string(l);
    expect_close(rows_of<std::uint8_t>(page, "weights-" + of, 15, 5), joined(map.layers[l].weights.host()),
                 [](double) { return 1. / 510; });
    // The page stores the rows by head; a map stores them by token.
    const std::vector<float> queries = map.layers[l].queries.host();
    const std::vector<double> shown = rows_of<std::int16_t>(page, "queries-" + of, 15, 4);
    for (std::size_t h = 0; h < 3; ++h)
      for (std::size_t i = 0; i < 5; ++i)
        for (std::size_t d = 0; d < 4; ++d)
          CHECK(shown[(h * 5 + i) * 4 + d] == Approx(queries[(i * 3 + h) * 4 + d]).margin(4. / 65534));
    CHECK(rows_of<std::int16_t>(page, "keys-" + of, 15, 4).size() == 60);
  }
  const auto data = nlohmann::json::parse(data_of(page, "page-data"));
  CHECK(data["layer"] == 1);
  CHECK(data["head"] == 2);
  CHECK(data["tokens"].size() == 5);
  CHECK(data["width"] == 4);
  CHECK(data["scale"].get<double>() == Approx(0.5));
  CHECK(data["statistics"].size() == 6);
  CHECK(data["statistics"][0].size() == 6);
  CHECK(decode_base64(data_of(page, "thumbnails")).size() == 6 * 25);
}

TEST_CASE(
    "attention_page: keeps what the neuron view needs for exact weights, unless they do not follow from the scores") {
  AttentionMap map = example_map(2, 3, 5, 4);
  const auto sums_of = [&](const char* layer) {
    const std::vector<unsigned char> bytes =
        decode_base64(data_of(pictures::attention_page(map), std::string("sums-") + layer));
    std::vector<float> sums(bytes.size() / sizeof(float));
    std::memcpy(sums.data(), bytes.data(), bytes.size());
    return sums;
  };
  for (const float sum : sums_of("0")) CHECK(std::isnan(sum));  // its weights are random
  const std::vector<float> q = map.layers[1].queries.host(), k = map.layers[1].keys.host();
  std::vector<double> expected;
  for (std::size_t h = 0; h < 3; ++h)
    for (std::size_t i = 0; i < 5; ++i) {
      double scores[5], sum = 0;
      for (std::size_t j = 0; j < 5; ++j) {
        scores[j] = 0;
        for (std::size_t d = 0; d < 4; ++d) scores[j] += 0.5 * q[(i * 3 + h) * 4 + d] * k[(j * 3 + h) * 4 + d];
        sum += std::exp(scores[j]);
      }
      for (std::size_t j = 0; j < 5; ++j)
        map.layers[1].weights.data()[(h * 5 + i) * 5 + j] = static_cast<float>(std::exp(scores[j]) / sum);
      expected.push_back(std::log(sum));
    }
  expect_close(joined(sums_of("1")), expected, [](double) { return 1e-5; });
  for (int j = 1; j < 5; ++j) map.layers[1].weights.data()[j] = 0;  // the first query sees one key
  map.layers[1].weights.data()[0] = 1;
  const std::vector<float> masked = sums_of("1");
  CHECK(std::isnan(masked[0]));
  CHECK(!std::isnan(masked[1]));
}

TEST_CASE("attention_page: has no neuron view without queries and keys") {
  AttentionMap map = example_map(1, 2, 3, 4);
  map.layers[0].queries = map.layers[0].keys = {};
  const std::string page = pictures::attention_page(map);
  CHECK(page.find("id=\"queries-0\"") == page.npos);
  CHECK(nlohmann::json::parse(data_of(page, "page-data"))["head"].is_null());
}

TEST_CASE("attention_page: no text ends a script, a comment or the title, and nothing is loaded") {
  AttentionMap map = example_map(1, 1, 3, 1);
  const std::string evil = "</script><img src=x onerror=alert(1)><!-- </title> \" ' & \xff \u2028";
  map.tokens[1] = map.title = evil;
  map.texts = {evil};
  const std::string page = pictures::attention_page(map);
  CHECK(page.find("<img") == page.npos);
  CHECK(page.find("<!-- ") == page.npos);
  const auto data = nlohmann::json::parse(data_of(page, "page-data"));
  CHECK(data["tokens"][1] == "</script><img src=x onerror=alert(1)><!-- </title> \" ' & \uFFFD \u2028");
  CHECK(page.find("http") == page.find("http-equiv"));
  CHECK(page.find("http", page.find("http-equiv") + 1) == page.npos);
  CHECK(page.find("default-src 'none'") != page.npos);
}

TEST_CASE("attention_page: stays below 6 MB for 12 layers of 12 heads at 64 tokens") {
  CHECK(pictures::attention_page(example_map(12, 12, 64, 64)).size() < 6'000'000);
}

TEST_CASE("AttentionMap: parts that do not fit together and values out of range are refused") {
  const auto error_for = [](auto change) {
    AttentionMap map = example_map(2, 2, 3, 4);
    change(map);
    return error_of<Error>([&] { pictures::attention_page(map); });
  };
  CHECK(error_for([](AttentionMap& m) { m.layers.clear(); }) ==
        "AttentionMap: has 0 layers and 3 tokens; it needs at least one of each");
  CHECK(error_for([](AttentionMap& m) { m.tokens.clear(); }).find("has 2 layers and 0 tokens") != std::string::npos);
  CHECK(error_for([](AttentionMap& m) { m.tokens.pop_back(); }) ==
        "AttentionMap: the weights of layer 0 have the shape [2, 3, 3]; they must be [2, 2, 2] for 2 tokens");
  CHECK(error_for([](AttentionMap& m) {
          m.layers[1].weights = zeros<float>({1, 3, 3});
        }).find("of layer 1 have the shape [1, 3, 3]") != std::string::npos);
  CHECK(error_for([](AttentionMap& m) { m.layers[0].weights = zeros<float>({9}); }).find("have the shape [9]") !=
        std::string::npos);
  CHECK(error_for([](AttentionMap& m) { m.layers[1].keys = {}; }) ==
        "AttentionMap: all layers must have queries and keys, or none; layer 1 differs");
  CHECK(error_for([](AttentionMap& m) {
          m.layers[1].keys = zeros<float>({3, 7});
        }) ==
        "AttentionMap: layer 1 has queries [3, 8] and keys [3, 7]; both must be [T, H * K] with T = 3 and H = 2, the "
        "same "
        "in all layers");
  CHECK(error_for([](AttentionMap& m) { m.layers[0].keys.data()[0] = std::nanf(""); }) ==
        "AttentionMap: a query or key of layer 0 is not finite");
  CHECK(error_for([](AttentionMap& m) { m.scale = std::numeric_limits<double>::infinity(); }) ==
        "AttentionMap: 'scale' is inf but must be at least 0 and finite");
  CHECK(error_for([](AttentionMap& m) {
          m.layers[1].weights.data()[4] = std::nanf("");
        }).find("a weight of layer 1 is nan but must be from 0 to 1") != std::string::npos);
  CHECK(error_for([](AttentionMap& m) { m.layers[0].weights.data()[0] = -0.5f; }).find("is -0.5") != std::string::npos);
  CHECK(error_for([](AttentionMap& m) { m.second = 3; }) ==
        "AttentionMap: 'second' is 3 but must be from 0 to 2 for 3 tokens");
  const AttentionMap map = example_map(2, 2, 3, 4);
  CHECK(error_of<Error>([&] { pictures::attention_page(map, {.layer = 2}); }) ==
        "AttentionMap: layer 2 is out of range [0, 2)");
  CHECK(error_of<Error>([&] { pictures::attention_page(map, {.layer = 0, .head = -1}); }) ==
        "AttentionMap: head -1 is out of range [0, 2)");
}
