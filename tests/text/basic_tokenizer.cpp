#include <heddle/text/basic_tokenizer.hpp>

#include "catch.hpp"
#include "golden_text.hpp"
#include "harness/devices.hpp"

namespace {

using namespace heddle::text;
using namespace heddle::testing;

std::string words(const BasicTokenizer& tokenizer, std::string_view text) {
  std::string joined;
  tokenizer(text, [&](const Word& word) { joined.append(joined.empty() ? "" : " ").append(word.text()); });
  return joined;
}

TEST_CASE("BasicTokenizer: treats every code point as the Rust library does") {
  const BasicTokenizer cased(false), uncased(true), lowered(true, false), stripped(false, true);
  const auto digest = [](const BasicTokenizer& tokenizer, char32_t first, char32_t last, std::string_view before,
                         std::string_view after) {
    Crc32 crc;
    for (char32_t c = first; c <= last; ++c) {
      if (c >= 0xD800 && c < 0xE000) continue;
      char bytes[max_utf8_bytes];
      std::string text(before);
      text.append(bytes, static_cast<std::size_t>(encode_utf8(c, bytes))).append(after);
      crc.add(words(tokenizer, text) + '\n');
    }
    return crc.value();
  };
  const auto number = [](const std::string& digits) {
    return static_cast<std::uint32_t>(std::stoul(digits, nullptr, 16));
  };
  std::size_t covered = 0, skipped = 0;
  for (const std::string& line : lines_of(text_golden("code_points.txt"))) {
    INFO(line);
    const auto fields = fields_of(line);
    REQUIRE(fields.size() == 9);
    const char32_t first = number(fields[0]), last = number(fields[1]);
    covered += last - first + 1;
    // Few code points of plane 2 and above have special properties, so only every 16th range is checked under
    // sanitizers.
    if (!heddle::testing::is_exhaustive() && first >= 0x20000 && ++skipped % 16 != 0) continue;
    CHECK(digest(cased, first, last, "a", "b") == number(fields[2]));
    std::size_t field = 3;
    for (const BasicTokenizer* const tokenizer : {&uncased, &lowered, &stripped}) {
      CHECK(digest(*tokenizer, first, last, "a", "b") == number(fields[field++]));
      // The code point stands between two marks that would be sorted in the other order without it.
      CHECK(digest(*tokenizer, first, last, "a\xF0\x9D\x85\xAD", "\xF0\x9D\x85\xA5") == number(fields[field++]));
    }
  }
  CHECK(covered == 0x110000);
}

TEST_CASE("BasicTokenizer: lower-cases, strips accents and isolates punctuation and ideographs") {
  const BasicTokenizer cased(false), uncased(true);
  CHECK(words(cased, "It's \xC3\x89t\xC3\xA9, (OK)!") == "It ' s \xC3\x89t\xC3\xA9 , ( OK ) !");
  CHECK(words(uncased, "It's \xC3\x89t\xC3\xA9, (OK)!") == "it ' s ete , ( ok ) !");
  CHECK(words(cased, "a\xE4\xB8\xAD\xE6\x96\x87z") == "a \xE4\xB8\xAD \xE6\x96\x87 z");
  CHECK(words(uncased, "a\xE2\x89\xA0z") ==
        "a = z");  // U+2260 is no punctuation, but the character without its stroke is
  CHECK(words(cased, "a\xE2\x89\xA0z") == "a\xE2\x89\xA0z");
  CHECK(words(uncased, "\xED\x95\x9C") == "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB");  // a Hangul syllable, its three jamo
  CHECK(words(cased, "") == "");
  CHECK(words(cased, " \t\r\n") == "");
}

TEST_CASE("BasicTokenizer: sorts the marks of an uncased word by combining class") {
  const BasicTokenizer uncased(true);
  const std::string class_216 = "\xF0\x9D\x85\xA5", class_226 = "\xF0\x9D\x85\xAD", class_224 = "\xE3\x80\xAE";
  const std::string dropped = "\xCC\x81", dropped_starter = "\xE0\xA4\xBA";  // U+0301, and U+093A of class 0
  CHECK(words(uncased, class_226 + class_216 + class_224) == class_216 + class_224 + class_226);
  CHECK(words(uncased, "a" + class_226 + dropped + class_216) == "a" + class_216 + class_226);
  CHECK(words(uncased, "a" + class_226 + dropped_starter + class_216) == "a" + class_226 + class_216);
  CHECK(words(uncased, class_226 + "a" + class_216) == class_226 + "a" + class_216);
  CHECK(words(uncased, class_226 + "," + class_216) == class_226 + " , " + class_216);
  CHECK(words(uncased, class_224 + "\xE3\x80\xAF" + class_224) == class_224 + "\xE3\x80\xAF" + class_224);  // stable
}

TEST_CASE("BasicTokenizer: counts the characters of words of any length") {
  const BasicTokenizer uncased(true);
  for (const std::size_t n : {1u, 99u, 100u, 101u, 100000u}) {
    std::vector<std::size_t> counts;
    std::string mixed;
    for (std::size_t i = 0; i < n; ++i) mixed += i % 2 ? "x" : "\xF0\x9D\x85\xA5";
    uncased("before " + mixed + " after", [&](const Word& word) { counts.push_back(word.characters()); });
    CHECK(counts == std::vector<std::size_t>{6, n, 5});
  }
}

}  // namespace
