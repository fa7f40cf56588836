#include <algorithm>
#include <cstdint>
#include <heddle/data/lines.hpp>
#include <heddle/text/ascii_folding.hpp>
#include <map>

#include "catch.hpp"
#include "io/files.hpp"

namespace {

using namespace heddle;
using namespace heddle::testing;
using text::fold_to_ascii;

std::string utf8_of(char32_t code_point) {
  char bytes[text::max_utf8_bytes];
  return {bytes, static_cast<std::size_t>(text::encode_utf8(code_point, bytes))};
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

TEST_CASE("fold_to_ascii: drops accents, letters without a decomposition and other scripts") {
  CHECK(fold_to_ascii("") == "");
  CHECK(fold_to_ascii("De la cruz, O'Neal\t2\n") == "De la cruz, O'Neal\t2\n");
  CHECK(fold_to_ascii("Ábrahám") == "Abraham");
  CHECK(fold_to_ascii("Żółć") == "Zoc");
  CHECK(fold_to_ascii("Groß") == "Gro");
  CHECK(fold_to_ascii("Nguyễn Ấn") == "Nguyen An");
  CHECK(fold_to_ascii("To The First\u00A0Page") == "To The FirstPage");
  CHECK(fold_to_ascii("김 Kim 金 Ким") == " Kim  ");
  CHECK(fold_to_ascii("😀") == "");
}

TEST_CASE("fold_to_ascii: folds composed and decomposed text to the same ASCII text") {
  CHECK(fold_to_ascii("e\u0301") == fold_to_ascii("\u00E9"));
  CHECK(fold_to_ascii("A\u0302\u0301") == fold_to_ascii("\u1EA4"));
  CHECK(fold_to_ascii("a\u0301\u0323b") == "ab");
}

TEST_CASE("fold_to_ascii: folds signs with an ASCII character in their decomposition, and drops compatibility forms") {
  CHECK(fold_to_ascii("\u212A\u212B") == "KA");
  CHECK(fold_to_ascii("\u037E\u1FEF") == ";`");
  CHECK(fold_to_ascii("\u2260\u226E\u226F") == "=<>");
  CHECK(fold_to_ascii("\uFF21\u00B2\uFB01\u2002") == "");
}

TEST_CASE("fold_to_ascii: folds every non-ASCII letter of the surnames") {
  const std::map<std::string, std::string> letters{
      {"Á", "A"}, {"É", "E"}, {"ß", ""},  {"à", "a"}, {"á", "a"}, {"ã", "a"}, {"ä", "a"}, {"ç", "c"}, {"è", "e"},
      {"é", "e"}, {"ê", "e"}, {"ì", "i"}, {"í", "i"}, {"ñ", "n"}, {"ò", "o"}, {"ó", "o"}, {"õ", "o"}, {"ö", "o"},
      {"ù", "u"}, {"ú", "u"}, {"ü", "u"}, {"ą", "a"}, {"ł", ""},  {"ń", "n"}, {"Ś", "S"}, {"Ż", "Z"}, {"ż", "z"}};
  for (const auto& [letter, folded] : letters) {
    CAPTURE(letter);
    CHECK(fold_to_ascii(letter) == folded);
  }
}

TEST_CASE("fold_to_ascii: gives at most one ASCII character for a code point") {
  std::size_t dropped = 0, folded = 0;
  std::map<char, std::size_t> sums;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    const std::string result = fold_to_ascii(utf8_of(c));
    if (c < 0x80) {
      CHECK(result == utf8_of(c));
      continue;
    }
    if (result.empty()) {
      ++dropped;
      continue;
    }
    if (result.size() != 1 || !is_ascii(result)) FAIL_CHECK(static_cast<std::uint32_t>(c));
    ++folded;
    sums[result[0]] += c;
  }
  // The counts and sums are from Python's unicodedata.normalize("NFD", …).
  CHECK(folded == 495);
  CHECK(dropped == 0x110000 - 0x800 - 0x80 - 495);
  CHECK(sums.size() == 55);
  CHECK(sums['A'] == 115'825);
  CHECK(sums['e'] == 105'419);
  CHECK(sums['K'] == 32'478);
}

TEST_CASE("fold_to_ascii: drops bytes that are not UTF-8") {
  CHECK(fold_to_ascii("a\xC3") == "a");
  CHECK(fold_to_ascii("a\xFF\x80z") == "az");
  CHECK(fold_to_ascii("\xC0\x80\xED\xA0\x80.") == ".");
  CHECK(fold_to_ascii("a\xC3(") == "a(");
  CHECK(fold_to_ascii(std::string_view("a\0b", 3)) == std::string("a\0b", 3));
}

TEST_CASE("fold_to_ascii: the surnames") {
  const std::string folder = data_folder("fold_to_ascii on the surnames");
  if (folder.empty()) return;
  std::size_t changed = 0, shorter = 0;
  for (const data::Lines& file : data::read_folder(folder + "/names"))
    for (const std::string& name : file.lines) {
      const std::string folded = fold_to_ascii(name);
      if (!is_ascii(folded) || folded.empty()) FAIL_CHECK(name);
      if (is_ascii(name) && folded != name) FAIL_CHECK(name);
      changed += folded != name;
      const auto characters = std::count_if(name.begin(), name.end(), [](char c) { return (c & 0xC0) != 0x80; });
      shorter += folded.size() < static_cast<std::size_t>(characters);
    }
  CHECK(changed == 157);
  CHECK(shorter == 11);  // names with ß, ł or U+00A0
}

}  // namespace
