#include <heddle/heddle.hpp>
#include <heddle/view/attention_files.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "../harness/compare.hpp"
#include "catch.hpp"
#include "io/files.hpp"
#include "view/example_map.hpp"

using namespace heddle;
using namespace heddle::testing;
using pictures::AttentionMap;

namespace {

nlohmann::json json_of(const AttentionMap& map, const pictures::PageOptions& options = {}) {
  std::string text;
  pictures::write_attention_json(
      map, [&](std::string_view part) { text += part; }, options);
  return nlohmann::json::parse(text);
}

std::vector<std::string> csv_of(const AttentionMap& map) {
  std::string text;
  pictures::write_attention_csv(map, [&](std::string_view part) { text += part; });
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("write_attention_json: one text has bertviz's structure and the floats themselves") {
  const AttentionMap map = example_map(2, 3, 4, 2);
  const nlohmann::json json = json_of(map, {.layer = 1, .head = 2});
  REQUIRE(json["attention"].size() == 1);
  const nlohmann::json& entry = json["attention"][0];
  CHECK(entry["name"].is_null());
  CHECK(entry["left_text"] == map.tokens);
  CHECK(entry["right_text"] == map.tokens);
  CHECK(json["default_filter"] == "0");
  CHECK(json["root_div_id"].is_string());
  CHECK(json["layer"] == 1);
  CHECK(json["heads"] == std::vector<int>{2});
  CHECK(json["include_layers"] == std::vector<int>{0, 1});
  CHECK(json_of(map)["heads"].is_null());
  for (std::size_t l = 0; l < 2; ++l) {
    const std::vector<float> weights = map.layers[l].weights.host();
    std::size_t n = 0;
    for (const auto& head : entry["attn"][l])
      for (const auto& row : head)
        for (const auto& w : row) CHECK(w.get<float>() == weights[n++]);
    CHECK(n == weights.size());
  }
}

TEST_CASE("write_attention_json: a pair has bertviz's five entries") {
  AttentionMap map = example_map(1, 2, 5, 2);
  map.second = 3;
  const nlohmann::json list = json_of(map)["attention"];
  REQUIRE(list.size() == 5);
  const char* const names[] = {"All", "Sentence A -> Sentence A", "Sentence B -> Sentence B",
                               "Sentence A -> Sentence B", "Sentence B -> Sentence A"};
  const std::size_t rows[] = {5, 3, 2, 3, 2}, columns[] = {5, 3, 2, 2, 3};
  for (std::size_t n = 0; n < 5; ++n) {
    CHECK(list[n]["name"] == names[n]);
    CHECK(list[n]["left_text"].size() == rows[n]);
    CHECK(list[n]["right_text"].size() == columns[n]);
    CHECK(list[n]["attn"][0][1].size() == rows[n]);
    CHECK(list[n]["attn"][0][1][0].size() == columns[n]);
  }
  // The weight from the second text's first token to the first text's second one.
  CHECK(list[4]["attn"][0][1][0][1].get<float>() == map.layers[0].weights.host()[(5 + 3) * 5 + 1]);
}

TEST_CASE("write_attention_csv: a line for each weight, and fields that are quoted") {
  AttentionMap map = example_map(2, 2, 3, 2);
  map.tokens[1] = "a,\"b\"";
  const std::vector<std::string> lines = csv_of(map);
  REQUIRE(lines.size() == 1 + 2 * 2 * 9);
  CHECK(lines[0] == "layer,head,query,key,query_token,key_token,weight");
  CHECK(lines[1].starts_with("0,0,0,0,[CLS],[CLS],"));
  CHECK(lines[2].starts_with("0,0,0,1,[CLS],\"a,\"\"b\"\"\","));
  const std::vector<float> weights = map.layers[1].weights.host();
  CHECK(std::stof(lines.back().substr(lines.back().rfind(',') + 1)) == weights.back());
}

TEST_CASE("attention_heat_map: a rectangle for each cell that is not the lightest, with labels") {
  const Tensor<float> weights({1, 2, 2}, {1, 0, 0.25f, 0.75f});
  const AttentionMap map{.tokens = {"<a>", "b"}, .layers = {{weights}}, .title = "Title"};
  const std::string svg = pictures::attention_heat_map(map, 0, 0);
  CHECK(count_of(svg, "class=\"cell\"") == 3);
  CHECK(count_of(svg, "&lt;a&gt;") == 2);
  CHECK(count_of(svg, "Title, layer 0, head 0") == 2);
  CHECK(svg.find("darkest: 1<") != svg.npos);
  CHECK(error_of<Error>([&] { pictures::attention_heat_map(map, 1, 0); }) ==
        "AttentionMap: layer 1 is out of range [0, 1)");
  const std::string large = pictures::attention_heat_map(example_map(1, 1, 257, 1), 0, 0);
  CHECK(large.ends_with("</svg>\n"));
}

TEST_CASE("attention_overview: a picture of each head") {
  const std::string svg = pictures::attention_overview(example_map(3, 4, 33, 1));
  CHECK(count_of(svg, "class=\"cells\"") == 12);
  CHECK(pictures::attention_overview(example_map(1, 1, 1, 1)).ends_with("</svg>\n"));
}
