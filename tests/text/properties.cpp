#include <heddle/text/properties.hpp>

#include <cstdio>
#include <map>
#include <thread>

#include <heddle/text/normal_forms.hpp>

#include "catch.hpp"
#include "golden_text.hpp"

namespace {

using namespace heddle::text;
using namespace heddle::testing;

// Returns "COUNT CRC" for the ranges of neighboring code points with equal values other than 0, as in properties.txt.
// `value` returns an int, and `name` its text.
template <class Value, class Name>
std::string ranges_of(const Value& value, const Name& name) {
  std::size_t count = 0;
  Crc32 crc;
  int last_value = 0;
  unsigned first = 0, last = 0;
  const auto end_range = [&] {
    if (last_value == 0) return;
    char text[32];
    std::snprintf(text, sizeof text, "%x %x ", first, last);
    crc.add(text + std::string(name(last_value)) + "\n");
    ++count;
  };
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c == 0xD800) c = 0xE000;
    if (const int here = value(c); here != last_value) {
      end_range();
      last_value = here;
      first = c;
    }
    last = c;
  }
  end_range();
  char text[32];
  std::snprintf(text, sizeof text, "%zu %08x", count, static_cast<unsigned>(crc.value()));
  return text;
}

const std::map<std::string, std::uint32_t> sets = {
    {"Lu", property::upper},
    {"Ll", property::lower},
    {"Lt", property::title},
    {"Lm", property::modifier_letter},
    {"Lo", property::other_letter},
    {"Mn", property::nonspacing_mark},
    {"Mc", property::spacing_mark},
    {"Me", property::enclosing_mark},
    {"Nd", property::regex_digit},
    {"Nl", property::letter_number},
    {"No", property::other_number},
    {"P", property::regex_punctuation},
    {"S", property::regex_symbol},
    {"Z", property::regex_separator},
    {"L", property::letter},
    {"M", property::mark},
    {"N", property::number},
    {"white_space", property::white_space},
    {"word", property::word},
    {"regex_word", property::regex_word},
    {"bracket_word", property::bracket_word},
    {"numeric", property::numeric},
    {"punctuation", property::punctuation},
    {"clean_dropped", property::clean_dropped},
    {"clean_blank", property::clean_blank},
    {"accent", property::accent},
    {"bert_accent", property::bert_accent},
    {"han", property::han},
};

constexpr const char* grapheme_names[] = {"other",
                                          "cr",
                                          "lf",
                                          "control",
                                          "extend",
                                          "conjunct_extend",
                                          "linker",
                                          "zwj",
                                          "regional_indicator",
                                          "prepend",
                                          "spacing_mark",
                                          "l",
                                          "v",
                                          "t",
                                          "lv",
                                          "lvt",
                                          "pictographic",
                                          "consonant"};

TEST_CASE("Properties: has the code points of the Rust library") {
  std::size_t checked = 0;
  for (const std::string& line : lines_of(text_golden("properties.txt"))) {
    const std::size_t blank = line.find(' ');
    const std::string name = line.substr(0, blank), expected = line.substr(blank + 1);
    INFO(name);
    ++checked;
    const auto word_of = [](int value) { return std::to_string(value); };
    if (name == "grapheme_class") {
      const Properties& properties = Properties::get();
      CHECK(ranges_of([&](char32_t c) { return static_cast<int>(properties.grapheme_class(c)); },
                      [](int value) { return grapheme_names[value]; }) == expected);
    } else if (name == "combining_class") {
      CHECK(ranges_of(combining_class, word_of) == expected);
    } else {
      CHECK(ranges_of([bits = sets.at(name)](char32_t c) { return has_property(c, bits) ? 1 : 0; }, word_of) ==
            expected);
    }
  }
  CHECK(checked == sets.size() + 2);
}

TEST_CASE("Properties: worked cases") {
  using namespace property;
  CHECK(has_property('A', upper));
  CHECK(has_property('A', letter | number));
  CHECK_FALSE(has_property('A', lower | number));
  CHECK(has_property(0x01C5, title));              // a digraph with a capital first letter
  CHECK(has_property(0x0663, regex_digit));        // an Arabic digit
  CHECK(has_property(0x2167, number));             // a Roman numeral
  CHECK_FALSE(has_property(0x2167, regex_digit));  // but no decimal digit
  CHECK(has_property('_', word));
  CHECK(has_property(0x0301, word));
  CHECK(has_property(0x0301, accent & ~bert_accent));
  // \w has three forms: a zero-width joiner and a superscript two tell them apart.
  CHECK(has_property(0x200D, word));
  CHECK_FALSE(has_property(0x200D, regex_word | bracket_word));
  CHECK(has_property(0xB2, regex_word));
  CHECK_FALSE(has_property(0xB2, word | bracket_word));
  CHECK(has_property('$', punctuation));  // ASCII symbols are punctuation to the pre-tokenizers
  CHECK(has_property('$', regex_symbol));
  CHECK_FALSE(has_property('$', regex_punctuation));
  CHECK(has_property(0x4E2D, han));
  CHECK(has_property(0x3000, white_space));
  CHECK(has_property('\t', clean_blank));
  CHECK(has_property('\v', clean_dropped));  // white space, but first of all a control character
  CHECK(has_property(0xFFFD, clean_dropped));
}

TEST_CASE("Properties: has nothing behind the last code point") {
  CHECK_FALSE(has_property(0x110000, 0xFFFFFFFF));
  CHECK(Properties::get().grapheme_class(0x110000) == GraphemeClass::other);
  CHECK(Properties::get().grapheme_class(0xD800) == GraphemeClass::other);
}

TEST_CASE("Properties: is made once by several threads") {
  const Properties* found[4] = {};
  std::vector<std::thread> threads;
  for (const Properties*& properties : found) threads.emplace_back([&properties] { properties = &Properties::get(); });
  for (std::thread& thread : threads) thread.join();
  for (const Properties* const properties : found) CHECK(properties == &Properties::get());
}

}  // namespace
