// Properties: the properties of each code point that tokenizers ask for, in a two-level table that is filled from
// property_tables.hpp at the first use. A look-up is two loads.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include <heddle/text/property_tables.hpp>

namespace heddle::text {

using unicode::GraphemeClass;

/// Sets of code points, one bit each, and unions of them. The categories and the classes d, s and w are those of the
/// regular expressions of the Rust library (onig), as in the pre-tokenizers Split and ByteLevel.
namespace property {
inline constexpr std::uint32_t upper = 1u << 0;               ///< the category Lu
inline constexpr std::uint32_t lower = 1u << 1;               ///< the category Ll
inline constexpr std::uint32_t title = 1u << 2;               ///< the category Lt
inline constexpr std::uint32_t modifier_letter = 1u << 3;     ///< the category Lm
inline constexpr std::uint32_t other_letter = 1u << 4;        ///< the category Lo
inline constexpr std::uint32_t nonspacing_mark = 1u << 5;     ///< the category Mn
inline constexpr std::uint32_t spacing_mark = 1u << 6;        ///< the category Mc
inline constexpr std::uint32_t enclosing_mark = 1u << 7;      ///< the category Me
inline constexpr std::uint32_t regex_digit = 1u << 8;         ///< the category Nd, the class d
inline constexpr std::uint32_t letter_number = 1u << 9;       ///< the category Nl
inline constexpr std::uint32_t other_number = 1u << 10;       ///< the category No
inline constexpr std::uint32_t regex_punctuation = 1u << 11;  ///< the category P
inline constexpr std::uint32_t regex_symbol = 1u << 12;       ///< the category S
inline constexpr std::uint32_t regex_separator = 1u << 13;    ///< the category Z
inline constexpr std::uint32_t white_space = 1u << 14;        ///< Rust's char::is_whitespace
inline constexpr std::uint32_t word = 1u << 15;         ///< the class w of the pre-tokenizer Whitespace and single_word
inline constexpr std::uint32_t regex_word = 1u << 16;   ///< the class w outside of brackets
inline constexpr std::uint32_t numeric = 1u << 17;      ///< Rust's char::is_numeric, as in Digits
inline constexpr std::uint32_t punctuation = 1u << 18;  ///< as in Punctuation and BertPreTokenizer
inline constexpr std::uint32_t clean_dropped = 1u << 19;   ///< dropped by clean_text of BertNormalizer
inline constexpr std::uint32_t clean_blank = 1u << 20;     ///< replaced by a blank by clean_text of BertNormalizer
inline constexpr std::uint32_t accent = 1u << 21;          ///< dropped by the normalizer StripAccents
inline constexpr std::uint32_t bert_accent = 1u << 22;     ///< dropped after NFD by strip_accents of BertNormalizer
inline constexpr std::uint32_t han = 1u << 23;             ///< the script Han
inline constexpr std::uint32_t bracket_word = 1u << 24;    ///< the class w within brackets, which is another set
inline constexpr std::uint32_t regex_space = white_space;  ///< the class s, the same code points
inline constexpr std::uint32_t letter = upper | lower | title | modifier_letter | other_letter;  ///< the category L
inline constexpr std::uint32_t mark = nonspacing_mark | spacing_mark | enclosing_mark;           ///< the category M
inline constexpr std::uint32_t number = regex_digit | letter_number | other_number;              ///< the category N
}  // namespace property

namespace detail {

// A value for each code point, and one for U+110000, which is no code point.
template <class T>
class CodePointTable {
 public:
  // Takes the values of all code points. Blocks of equal values are kept once.
  explicit CodePointTable(const std::vector<T>& values) {
    std::map<Block, std::uint16_t> known;
    for (std::size_t first = 0; first < 0x110000; first += block_size) {
      // Most blocks are equal to the one before.
      if (first > 0 && std::equal(&values[first], &values[first] + block_size, &values[first - block_size]))
        block_of_.push_back(block_of_.back());
      else
        block_of_.push_back(add(&values[first], known));
    }
    block_of_.push_back(add(Block{}.data(), known));
  }

  T operator[](char32_t code_point) const {
    return blocks_[block_of_[code_point / block_size]][code_point % block_size];
  }

 private:
  static constexpr std::size_t block_size = 256;
  using Block = std::array<T, block_size>;

  std::uint16_t add(const T* values, std::map<Block, std::uint16_t>& known) {
    Block block;
    std::copy_n(values, block_size, block.begin());
    const auto [entry, is_new] = known.emplace(block, static_cast<std::uint16_t>(blocks_.size()));
    if (is_new) blocks_.push_back(block);
    return entry->second;
  }

  std::vector<Block> blocks_;
  std::vector<std::uint16_t> block_of_;  // for each 256 code points, the index of their block
};

// The first code point of the Hangul syllables, and their numbers (Unicode Standard, section 3.12). The first trailing
// consonant is none.
struct Hangul {
  static constexpr char32_t syllables = 0xAC00, leads = 0x1100, vowels = 0x1161, trails = 0x11A7;
  static constexpr char32_t lead_count = 19, vowel_count = 21, trail_count = 28;
  static constexpr char32_t syllable_count = lead_count * vowel_count * trail_count;

  static bool is_syllable(char32_t c) { return c >= syllables && c < syllables + syllable_count; }
  static bool has_trail(char32_t syllable) { return (syllable - syllables) % trail_count != 0; }
};

}  // namespace detail

/// The table of the properties of all code points.
class Properties {
 public:
  /// Returns the table, which is made by the first call. Several threads may call it at once.
  static const Properties& get() {
    static const Properties made;
    return made;
  }

  /// Returns the union of the sets of `property` that hold a code point, which must be at most U+110000. The latter is
  /// in none. Bits above those of `property` are not 0.
  std::uint32_t operator[](char32_t code_point) const { return table_[code_point]; }
  /// Returns the class of a code point, which must be at most U+110000, in grapheme clusters.
  GraphemeClass grapheme_class(char32_t code_point) const {
    return static_cast<GraphemeClass>(table_[code_point] >> grapheme_shift);
  }

 private:
  static constexpr int grapheme_shift = 27;  // the class takes the 5 highest bits

  Properties() : table_(values()) {}

  // Inverts a bit in all ranges.
  template <std::size_t n>
  static void flip(std::vector<std::uint32_t>& values, const unicode::Interval (&ranges)[n], std::uint32_t bit) {
    for (const auto& [first, last] : ranges)
      for (char32_t c = first; c <= last; ++c) values[c] ^= bit;
  }

  static std::vector<std::uint32_t> values() {
    std::vector<std::uint32_t> values(0x110000);
    std::size_t at = 0;
    for (const auto& [count, category] : unicode::categories::runs) {
      for (std::uint32_t i = 0; i < count && category != unicode::Category::C; ++i)
        values[at + i] = category_bits(category, i);
      at += count;
    }
    flip(values, unicode::numeric_differences, property::numeric);
    flip(values, unicode::word_characters, property::word | property::regex_word | property::bracket_word);
    flip(values, unicode::regex_word_differences, property::regex_word);
    flip(values, unicode::bracket_word_differences, property::bracket_word);
    flip(values, unicode::white_space, property::white_space);
    flip(values, unicode::punctuation, property::punctuation);
    flip(values, unicode::clean_dropped, property::clean_dropped);
    flip(values, unicode::clean_blank, property::clean_blank);
    flip(values, unicode::accents, property::accent);
    flip(values, unicode::bert_accents, property::bert_accent);
    flip(values, unicode::han, property::han);
    for (const auto& [first, last, grapheme_class] : unicode::grapheme_classes::ranges)
      for (char32_t c = first; c <= last; ++c) values[c] |= grapheme_bits(grapheme_class);
    using detail::Hangul;
    for (char32_t c = Hangul::syllables; Hangul::is_syllable(c); ++c)
      values[c] |= grapheme_bits(Hangul::has_trail(c) ? GraphemeClass::lvt : GraphemeClass::lv);
    return values;
  }

  // Returns the bits of the code point with an index in a run.
  static std::uint32_t category_bits(unicode::Category category, std::uint32_t index) {
    using enum unicode::Category;
    if (category == pairs) return index % 2 == 0 ? property::upper : property::lower;
    const std::uint32_t bit = 1u << static_cast<int>(category);
    return bit & property::number ? bit | property::numeric : bit;
  }
  static std::uint32_t grapheme_bits(GraphemeClass grapheme_class) {
    return static_cast<std::uint32_t>(grapheme_class) << grapheme_shift;
  }

  detail::CodePointTable<std::uint32_t> table_;
};

/// Returns whether a code point, which must be at most U+110000, is in one of some sets of `property`.
inline bool has_property(char32_t code_point, std::uint32_t properties) {
  return (Properties::get()[code_point] & properties) != 0;
}

}  // namespace heddle::text
