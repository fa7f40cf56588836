#include <heddle/text/graphemes.hpp>

#include <algorithm>

#include "catch.hpp"
#include "golden_text.hpp"

namespace {

using namespace heddle::text;
using namespace heddle::testing;

// Returns the sizes of all clusters, each with a blank before it.
std::string sizes(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t size = grapheme_size(text);
    REQUIRE(size > 0);
    REQUIRE(size <= text.size());
    out += " " + std::to_string(size);
    text.remove_prefix(size);
  }
  return out;
}

TEST_CASE("grapheme_size: divides texts as the Rust library does") {
  for (const std::string& line : lines_of(text_golden("graphemes.txt"))) {
    INFO(line);
    const auto fields = fields_of(line);
    REQUIRE(fields.size() == 2);
    const std::string bytes = from_hex(fields[0].substr(1));
    // Precompiled replaces clusters of fewer than 6 bytes, and single characters of longer ones.
    std::size_t replacements = 0;
    for (std::string_view text = bytes; !text.empty();) {
      const std::string_view cluster = text.substr(0, grapheme_size(text));
      const auto begins_character = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
      replacements += cluster.size() < 6
                          ? 1
                          : static_cast<std::size_t>(std::count_if(cluster.begin(), cluster.end(), begins_character));
      text.remove_prefix(cluster.size());
    }
    CHECK(std::to_string(replacements) == fields[1]);
  }
}

TEST_CASE("grapheme_size: worked cases of the rules") {
  CHECK(grapheme_size("") == 0);
  CHECK(sizes("ab") == " 1 1");
  CHECK(sizes("\r\n\n\r\r") == " 2 1 1 1");  // GB3
  CHECK(sizes("a\xCC\x81\xCC\x81"
              "b") == " 5 1");                       // GB9: marks
  CHECK(sizes("\n\xCC\x81") == " 1 2");              // GB4: not behind a control character
  CHECK(sizes("\xE0\xA4\x95\xE0\xA4\xBF") == " 6");  // GB9a: a spacing mark
  CHECK(sizes("\xD8\x80"
              "1\xD8\x80\n") == " 3 2 1");                                     // GB9b: U+0600 begins a number
  CHECK(sizes("\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8\xE1\x84\x80") == " 9 3");  // GB6 to GB8: jamo
  CHECK(sizes("\xEA\xB0\x80\xE1\x86\xA8\xEA\xB0\x81\xE1\x85\xA1") == " 6 3 3");
  // GB9c: a linker joins two consonants, and a vowel sign between them does not.
  CHECK(sizes("\xE0\xA4\x95\xE0\xA5\x8D\xE0\xA4\xB7") == " 9");
  CHECK(sizes("\xE0\xA4\x95\xE0\xA4\xBF\xE0\xA4\xB7") == " 6 3");
  CHECK(sizes("\xE0\xA4\x95\xE0\xA5\x8D\xE2\x80\x8D\xE0\xA4\xB7") == " 12");
  // GB11: two joined emoji, one with a modifier of the skin's color, and a joiner without an emoji before it.
  CHECK(sizes("\xF0\x9F\x91\xA9\xF0\x9F\x8F\xBD\xE2\x80\x8D\xF0\x9F\x9A\x80") == " 15");
  CHECK(sizes("a\xE2\x80\x8D\xF0\x9F\x9A\x80") == " 4 4");
  CHECK(sizes("\xC2\xA9\xE2\x80\x8D\xE2\x80\x8D\xC2\xA9") == " 8 2");
  // GB12: flags are pairs of regional indicators.
  const std::string indicator = "\xF0\x9F\x87\xA9";
  CHECK(sizes(indicator + indicator + indicator) == " 8 4");
  CHECK(sizes("a" + indicator + indicator + indicator + indicator) == " 1 8 8");
}

TEST_CASE("grapheme_size: reads invalid UTF-8 as replacement characters") {
  CHECK(sizes("\xFF\xFF") == " 1 1");
  CHECK(sizes("a\xCC") == " 1 1");
  CHECK(sizes("\xE2\x82\xCC\x81") == " 4");
}

}  // namespace
