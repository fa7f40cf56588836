#include <heddle/text/normal_forms.hpp>

#include <utility>

#include "catch.hpp"
#include "golden_text.hpp"
#include "harness/devices.hpp"

namespace {

using namespace heddle::text;
using namespace heddle::testing;
using enum NormalForm;

constexpr NormalForm all_forms[] = {nfc, nfd, nfkc, nfkd};

void append(std::string& text, char32_t c) {
  char bytes[max_utf8_bytes];
  text.append(bytes, static_cast<std::size_t>(encode_utf8(c, bytes)));
}

std::string utf8(std::u32string_view code_points) {
  std::string text;
  for (const char32_t c : code_points) append(text, c);
  return text;
}

std::string normalized(NormalForm form, std::string_view text) {
  std::string out;
  normalize(form, text, [&](char32_t c, int) { append(out, c); });
  return out;
}

// Returns the changes, each with a blank before it.
std::string changes_of(NormalForm form, std::string_view text) {
  std::string out;
  normalize(form, text, [&](char32_t, int change) { out += " " + std::to_string(change); });
  return out;
}

// Returns the indices of the characters that the characters of the result come from, as NormalizedString of the Rust
// library finds them; each with a blank before it.
std::string sources_of(NormalForm form, std::string_view text) {
  std::string out;
  int next = 0;
  normalize(form, text, [&](char32_t, int change) {
    out += " " + std::to_string(change > 0 ? next - 1 : next);
    if (change <= 0) next += 1 - change;
  });
  return out;
}

std::string lowered(char32_t c) {
  std::string out;
  int expected_change = 0;
  lower_case(c, [&](char32_t lower, int change) {
    append(out, lower);
    CHECK(change == std::exchange(expected_change, 1));
  });
  return out;
}

std::uint32_t crc_of(std::string_view text) {
  Crc32 crc;
  crc.add(text);
  return crc.value();
}

std::uint32_t hexadecimal(const std::string& digits) {
  return static_cast<std::uint32_t>(std::stoul(digits, nullptr, 16));
}

TEST_CASE("normalize: yields the texts and sources of the Rust library") {
  std::size_t planes = 0, texts = 0;
  for (const std::string& line : lines_of(text_golden("normal_forms.txt"))) {
    INFO(line);
    const auto fields = fields_of(line);
    if (fields[0] == "plane") {
      REQUIRE(fields.size() == 7);
      const auto plane = static_cast<char32_t>(std::stoi(fields[1]));
      // Characters of planes 3 to 13 and 15 to 17 are all their own normal forms, so sanitizers may skip them.
      ++planes;
      if (!heddle::testing::is_exhaustive() && plane > 2 && plane != 14) continue;
      Crc32 crcs[5];
      std::size_t missed = 0;
      for (char32_t c = plane << 16; c < (plane + 1) << 16; ++c) {
        if (c >= 0xD800 && c < 0xE000) continue;
        std::string text, lower;
        append(text, c);
        for (std::size_t i = 0; i < 4; ++i) {
          const std::string result = normalized(all_forms[i], text);
          missed += result != text && !changes(all_forms[i], text);
          crcs[i].add(result + "\n");
        }
        lower_case(c, [&](char32_t x, int) { append(lower, x); });
        crcs[4].add(lower + "\n");
      }
      for (std::size_t i = 0; i < 5; ++i) CHECK(crcs[i].value() == hexadecimal(fields[2 + i]));
      CHECK(missed == 0);
    } else {
      REQUIRE(fields.size() == 5);
      ++texts;
      const std::string text = from_hex(fields[0].substr(1));
      for (std::size_t i = 0; i < 4; ++i) {
        const std::string result = normalized(all_forms[i], text);
        CHECK(crc_of(result + sources_of(all_forms[i], text)) == hexadecimal(fields[1 + i]));
        CHECK((changes(all_forms[i], text) || result == text));
        CHECK(normalized(all_forms[i], result) == result);
      }
    }
  }
  CHECK(planes == 17);
  CHECK(texts == 2000);
}

TEST_CASE("normalize: worked cases") {
  // The Ohm sign is another code point for omega, and U+FB01 a ligature that only compatibility forms divide.
  CHECK(normalized(nfc, utf8(U"\u2126\uFB01")) == utf8(U"\u03A9\uFB01"));
  CHECK(normalized(nfkc, utf8(U"\u2126\uFB01")) == utf8(U"\u03A9fi"));
  CHECK(changes_of(nfkc, utf8(U"\u2126\uFB01")) == " 0 0 1");
  CHECK(normalized(nfd, utf8(U"\u1E69")) == utf8(U"s\u0323\u0307"));  // two steps
  CHECK(changes_of(nfd, utf8(U"\u1E69")) == " 0 1 1");
  CHECK(normalized(nfc, utf8(U"s\u0307\u0323")) == utf8(U"\u1E69"));
  CHECK(changes_of(nfc, utf8(U"s\u0307\u0323")) == " -2");
  CHECK(normalized(nfc, utf8(U"\u1E69")) == utf8(U"\u1E69"));
  CHECK(changes_of(nfc, utf8(U"\u1E69")) == " 0");
  CHECK(normalized(nfc, utf8(U"\u0958")) == utf8(U"\u0915\u093C"));  // is excluded from composition
  CHECK(changes_of(nfc, utf8(U"\u0958")) == " 0 1");
  CHECK(normalized(nfkc, utf8(U"\uFDFA")).size() == 33);  // the longest decomposition, of 18 characters
  CHECK(normalized(nfc, "").empty());
}

TEST_CASE("normalize: composes Hangul by arithmetic") {
  const std::string syllables = utf8(U"\uD55C\uAC00"), jamo = utf8(U"\u1112\u1161\u11AB\u1100\u1161");
  CHECK(normalized(nfd, syllables) == jamo);
  CHECK(changes_of(nfd, syllables) == " 0 1 1 0 1");
  CHECK(normalized(nfc, jamo) == syllables);
  CHECK(changes_of(nfc, jamo) == " -2 -1");
  CHECK(normalized(nfc, utf8(U"\uAC00\u11A8")) == utf8(U"\uAC01"));
  CHECK(normalized(nfc, utf8(U"\uAC00\u11A7")) == utf8(U"\uAC00\u11A7"));  // U+11A7 stands for no consonant
  CHECK(normalized(nfc, utf8(U"\uAC01\u11A8")) == utf8(U"\uAC01\u11A8"));  // has a trailing consonant already
  CHECK(normalized(nfc, utf8(U"\u1100\u0301\u1161")) == utf8(U"\u1100\u0301\u1161"));
}

TEST_CASE("normalize: sorts marks with their changes") {
  // U+0344 is U+0308 and U+0301, of class 230; U+0316 has class 220.
  const std::string text = utf8(U"a\u0344\u0316");
  CHECK(normalized(nfd, text) == utf8(U"a\u0316\u0308\u0301"));
  CHECK(changes_of(nfd, text) == " 0 0 0 1");
  CHECK(sources_of(nfd, text) == " 0 1 2 2");
  // The mark that composes is not the next one, but the sum of the changes removes the next one.
  CHECK(normalized(nfc, utf8(U"a\u0316\u0301")) == utf8(U"\u00E1\u0316"));
  CHECK(changes_of(nfc, utf8(U"a\u0316\u0301")) == " -1 0");
  CHECK(normalized(nfc, utf8(U"a\u0308\u0301")) == utf8(U"\u00E4\u0301"));
  CHECK(normalized(nfc, utf8(U"a\u0305\u0301")) == utf8(U"a\u0305\u0301"));  // blocked by a mark of the same class
  CHECK(normalized(nfc, utf8(U"\u0301a")) == utf8(U"\u0301a"));
  CHECK(normalized(nfc, utf8(U"\u0316\u0301")) == utf8(U"\u0316\u0301"));
  CHECK(normalized(nfd, utf8(U"\u0301\u0316")) == utf8(U"\u0316\u0301"));
  std::string marks, sorted;
  for (int i = 0; i < 1000; ++i) marks += utf8(U"\u0301\u0316");
  for (int i = 0; i < 1000; ++i) sorted += utf8(U"\u0316");
  for (int i = 0; i < 1000; ++i) sorted += utf8(U"\u0301");
  CHECK(normalized(nfd, "a" + marks) == "a" + sorted);
  CHECK(normalized(nfc, "a" + marks) == utf8(U"\u00E1") + sorted.substr(0, sorted.size() - 2));
}

TEST_CASE("changes: is false only for a text that stays") {
  for (const NormalForm form : all_forms) {
    CHECK_FALSE(changes(form, ""));
    CHECK_FALSE(changes(form, "Plain text\t\n\x7F"));
    CHECK_FALSE(changes(form, utf8(U"\u4E2D\u0416\U0001F600a\u0316")));
    CHECK(changes(form, utf8(U"a\u0301\u0316")));  // in the wrong order
    CHECK(changes(form, utf8(U"\u212B")));
  }
  const std::string composed = utf8(U"\u00E9\uD55C");
  CHECK_FALSE(changes(nfc, composed));
  CHECK_FALSE(changes(nfkc, composed));
  CHECK(changes(nfd, composed));
  CHECK(changes(nfkd, composed));
  CHECK_FALSE(changes(nfc, utf8(U"\uFB01")));
  CHECK(changes(nfkc, utf8(U"\uFB01")));
}

TEST_CASE("combining_class: is the class of marks that do not decompose") {
  CHECK(combining_class('a') == 0);
  CHECK(combining_class(0x0301) == 230);
  CHECK(combining_class(0x0334) == 1);
  CHECK(combining_class(0x0345) == 240);
  CHECK(combining_class(0x110000) == 0);
}

TEST_CASE("lower_case: is that of Rust") {
  CHECK(lowered('A') == "a");
  CHECK(lowered('[') == "[");
  CHECK(lowered('z') == "z");
  CHECK(lowered(0x00C9) == utf8(U"\u00E9"));
  CHECK(lowered(0x03A3) == utf8(U"\u03C3"));
  CHECK(lowered(0x0130) == utf8(U"i\u0307"));  // the only one that becomes two
  CHECK(lowered(0x1E9E) == utf8(U"\u00DF"));
  CHECK(lowered(0x10400) == utf8(U"\U00010428"));
  CHECK(lowered(0x4E2D) == utf8(U"\u4E2D"));
}

}  // namespace
