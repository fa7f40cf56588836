// Characters: the class of each code point, in a two-level table that is filled from unicode_tables.hpp when a
// tokenizer is made. A look-up is two loads for any script.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <unordered_map>
#include <vector>

#include <heddle/text/unicode_tables.hpp>

namespace heddle::text {

using unicode::Kind;

/// The class of a code point, and a value. For the classes word and isolated, the value is the code point that replaces
/// this one, or 0 if it stays the same. The value of a sequence is its index in unicode::sequences. The value of a mark
/// is its combining class, and so is that of a mark that is dropped; for any other character that is dropped it is 0.
class Character {
 public:
  Character() = default;
  /// Packs class and value into 32 bits.
  Character(Kind kind, char32_t value) : bits_(value << 8 | static_cast<std::uint32_t>(kind)) {}

  /// Returns the class of the code point.
  Kind kind() const { return static_cast<Kind>(bits_ & 0xFF); }
  /// Returns the value, whose meaning depends on the class.
  char32_t value() const { return bits_ >> 8; }

 private:
  std::uint32_t bits_ = 0;
};

/// The table of the classes of all code points.
class Characters {
 public:
  /// Fills the table. If `strip_accents`, characters are decomposed (NFD) and nonspacing marks dropped. If `lowercase`,
  /// characters become lower case, after that.
  Characters(bool lowercase, bool strip_accents)
      : blocks_(1), block_of_(0x110000 / block_size), own_(block_of_.size()) {
    for (const auto& range : unicode::cased) fill(range.first, range.last, {range.kind, 0});
    if (strip_accents) decompose();
    if (lowercase) lower();
    const std::size_t all = std::size(unicode::sequences), decomposed = unicode::decomposed_sequences;
    for (std::size_t i = strip_accents ? 0 : decomposed; i < (lowercase && !strip_accents ? all : decomposed); ++i)
      writable(unicode::sequences[i].source) = {unicode::sequence, static_cast<char32_t>(i)};
  }

  /// Returns the class of a code point, which must be at most U+10FFFF.
  Character operator[](char32_t code_point) const {
    return blocks_[block_of_[code_point / block_size]][code_point % block_size];
  }

 private:
  static constexpr char32_t block_size = 256;
  using Block = std::array<Character, block_size>;

  void become(char32_t code_point, char32_t target) {
    Character& c = writable(code_point);
    c = {c.kind(), target};
  }

  // Calls f(code point, what it becomes) for a table of runs.
  template <std::size_t n, class F>
  static void for_each(const unicode::Run (&runs)[n], const F& f) {
    for (const unicode::Run& run : runs)
      for (char32_t i = 0; i < run.count; ++i) f(run.first + i * run.step, run.target + i * run.target_step);
  }

  void decompose() {
    for (const auto& range : unicode::stripped) fill(range.first, range.last, {range.kind, 0});
    for (const auto& range : unicode::marks) fill(range.first, range.last, {unicode::mark, range.combining_class});
    for (const auto& range : unicode::dropped) fill(range.first, range.last, {unicode::drop, range.combining_class});
    for_each(unicode::decompositions, [&](char32_t from, char32_t to) { become(from, to); });
    for (std::size_t i = 0; i < std::size(unicode::ideographs_f900); ++i)
      become(0xF900 + static_cast<char32_t>(i), unicode::ideographs_f900[i]);
    for (std::size_t i = 0; i < std::size(unicode::ideographs_2f800); ++i)
      become(0x2F800 + static_cast<char32_t>(i), unicode::ideographs_2f800[i]);
  }

  // Lower-cases what the decompositions have left or made. The tokenizer looks up each part of a sequence itself.
  void lower() {
    std::unordered_map<char32_t, char32_t> letters;
    for_each(unicode::lower_case, [&](char32_t from, char32_t to) { letters.emplace(from, to); });
    for_each(unicode::decompositions, [&](char32_t from, char32_t to) {
      const auto letter = letters.find(to);
      if ((*this)[from].value() == to && letter != letters.end()) become(from, letter->second);
    });
    for (const auto& [from, to] : letters)
      if (const Character c = (*this)[from]; (c.kind() == unicode::word || c.kind() == unicode::isolated) && !c.value())
        become(from, to);
  }

  // Sets the class of a range. Entirely covered blocks share one memory block, because ideographs and private use are
  // most of Unicode.
  void fill(char32_t first, char32_t last, Character c) {
    std::size_t uniform = 0;
    for (char32_t code_point = first; code_point <= last;) {
      if (code_point % block_size == 0 && last - code_point >= block_size - 1) {
        if (!uniform) {
          uniform = blocks_.size();
          blocks_.emplace_back().fill(c);
        }
        block_of_[code_point / block_size] = static_cast<std::uint16_t>(uniform);
        own_[code_point / block_size] = false;
        code_point += block_size;
      } else {
        writable(code_point++) = c;
      }
    }
  }

  Character& writable(char32_t code_point) {
    const std::size_t i = code_point / block_size;
    if (!own_[i]) {
      const Block shared = blocks_[block_of_[i]];
      block_of_[i] = static_cast<std::uint16_t>(blocks_.size());
      blocks_.push_back(shared);
      own_[i] = true;
    }
    return blocks_[block_of_[i]][code_point % block_size];
  }

  std::vector<Block> blocks_;            // the first is all Kind::word
  std::vector<std::uint16_t> block_of_;  // for each 256 code points, the index of their block
  std::vector<bool> own_;                // whether that block is not shared
};

}  // namespace heddle::text
