// BasicTokenizer: cleans text and cuts it into words and punctuation, as BERT's tokenizer does before WordPiece.
// Cleaning, cutting, lower-casing and decomposing are one pass over the bytes; no string is made. Offsets are kept by
// a second, slower path, for which Aligned takes the place of Word.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <heddle/base/utf8.hpp>
#include <heddle/text/alignment.hpp>
#include <heddle/text/characters.hpp>

namespace heddle::text {

/// The current word: its first hundred characters in UTF-8. WordPiece maps longer words to [UNK].
class Word {
 public:
  static constexpr std::size_t max_characters = 100;  ///< characters that are kept

  /// Returns the characters kept, in UTF-8.
  std::string_view text() const { return {bytes_.data(), size_}; }
  std::size_t characters() const { return characters_; }  ///< number of characters of the whole word

  /// Begins the next word.
  void clear() {
    size_ = 0;
    characters_ = 0;
    end_run();
  }

  /// Appends an ASCII character. Characters after the hundredth are counted, but not kept.
  void append_ascii(char c) {
    if (characters_++ < max_characters) bytes_[size_++] = c;
  }

  /// Appends any code point.
  void append(char32_t code_point) {
    if (characters_++ < max_characters)
      size_ += static_cast<std::size_t>(encode_utf8(code_point, bytes_.data() + size_));
  }

  /// Appends a combining mark in canonical order: marks of a run are sorted by combining class, and marks of one class
  /// stay in order.
  void append_mark(char32_t code_point, char32_t combining_class) {
    if (characters_ >= max_characters) {
      ++characters_;
      return;
    }
    if (size_ != run_end_) end_run();
    std::size_t place = run_length_;
    while (place > 0 && run_[place - 1].combining_class > combining_class) --place;
    char encoded[max_utf8_bytes];
    const auto added = static_cast<std::size_t>(encode_utf8(code_point, encoded));
    const std::size_t offset = place == run_length_ ? size_ : run_[place].offset;
    std::memmove(&bytes_[offset] + added, &bytes_[offset], size_ - offset);
    std::memcpy(&bytes_[offset], encoded, added);
    for (std::size_t i = run_length_++; i > place; --i)
      run_[i] = {run_[i - 1].combining_class, run_[i - 1].offset + added};
    run_[place] = {combining_class, offset};
    run_end_ = size_ += added;
    ++characters_;
  }

  /// Ignores a dropped mark, which matters to the sources of other characters only (see Aligned).
  void drop_mark(char32_t) {}

  /// Ends a run of marks: later marks are not sorted into it.
  void end_run() { run_length_ = 0; }

 private:
  struct Mark {
    char32_t combining_class;
    std::size_t offset;
  };

  std::array<char, max_characters * max_utf8_bytes> bytes_;
  std::array<Mark, max_characters> run_;  // the marks at the word's end, sorted
  std::size_t size_ = 0, characters_ = 0, run_length_ = 0, run_end_ = 0;
};

namespace detail {

// A text of any length. It takes characters as Word does.
class NormalizedText {
 public:
  std::string_view text() const { return text_; }
  void append(char32_t code_point) {
    end_run();
    put(code_point);
  }
  void append_mark(char32_t code_point, char32_t combining_class) { run_.append(code_point, combining_class); }
  void drop_mark(char32_t) {}
  // Appends the marks in canonical order.
  void end_run() {
    if (!run_.empty()) run_.take({}, [this](char32_t code_point, TextRange) { put(code_point); });
  }
  std::string take() {
    end_run();
    return std::move(text_);
  }

 private:
  void put(char32_t code_point) { append_utf8(text_, code_point); }

  std::string text_;
  MarkRun run_;
};

// The ideographs around which BertNormalizer puts blanks.
inline bool is_ideograph(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

}  // namespace detail

/// A tokenizer of text into words and punctuation marks. Several threads may call const functions at once.
class BasicTokenizer {
 public:
  /// Creates a tokenizer. If `lowercase`, words become lower case. They lose their accents if `strip_accents`, by
  /// default if `lowercase`.
  explicit BasicTokenizer(bool lowercase, std::optional<bool> strip_accents = {})
      : characters_(lowercase, strip_accents.value_or(lowercase)) {
    for (char32_t c = 0; c < ascii_.size(); ++c) {
      const Character character = characters_[c];
      if (c < 0x80 && character.kind() == unicode::word)
        ascii_[c] = static_cast<char>(character.value() ? character.value() : c);
    }
  }

  /// Calls f(const Word&) for each word of the text, in order. The text may hold any bytes.
  template <class F>
  void operator()(std::string_view text, F&& f) const {
    Word word;
    const auto finish = [&] {
      if (word.characters() > 0) {
        f(static_cast<const Word&>(word));
        word.clear();
      }
    };
    for (const char *at = text.data(), *end = at + text.size(); at != end;) {
      if (const char c = ascii_[static_cast<unsigned char>(*at)]) {
        word.append_ascii(c);
        ++at;
      } else {
        take(decode_utf8(at, end), word, finish);
      }
    }
    finish();
  }

  /// Calls f(const Aligned<Word>&) for each word of the text, in order. The words are those of operator().
  template <class F>
  void aligned(std::string_view text, F&& f) const {
    Aligned<Word> word;
    const auto finish = [&] {
      word.end_run();
      if (word.characters() > 0) {
        f(static_cast<const Aligned<Word>&>(word));
        word.clear();
      }
    };
    for_each_character(text, [&](char32_t code_point, TextRange source) {
      word.begin_character(source);
      if (const char c = code_point < ascii_.size() ? ascii_[code_point] : '\0')
        word.append_ascii(c);
      else
        take(code_point, word, finish);
    });
    finish();
  }

  /// Returns the text cleaned, lower-cased and without accents as its words are, with blanks around each ideograph.
  std::string normalized(std::string_view text) const {
    detail::NormalizedText out;
    for_each_character(text, [&](char32_t code_point, TextRange) { normalize(code_point, out); });
    return out.take();
  }

  /// Returns the text of normalized() with the sources of its characters.
  Aligned<detail::NormalizedText> aligned_normalized(std::string_view text) const {
    Aligned<detail::NormalizedText> out;
    for_each_character(text, [&](char32_t code_point, TextRange source) {
      out.begin_character(source);
      normalize(code_point, out);
    });
    out.end_run();
    return out;
  }

 private:
  // Calls f(code point, its range) for each character of the text.
  template <class F>
  static void for_each_character(std::string_view text, const F& f) {
    for (const char *at = text.data(), *end = at + text.size(); at != end;) {
      const auto begin = static_cast<std::size_t>(at - text.data());
      const char32_t code_point = decode_utf8(at, end);
      f(code_point, TextRange{begin, static_cast<std::size_t>(at - text.data())});
    }
  }

  // Appends what a code point becomes, with blanks around an ideograph.
  template <class Text>
  void normalize(char32_t code_point, Text& out) const {
    const bool is_apart = detail::is_ideograph(code_point);
    if (is_apart || characters_[code_point].kind() == unicode::space) out.append(' ');
    take(code_point, out, [] {});
    if (is_apart) out.append(' ');
  }

  // Appends what a code point becomes to a Word or a NormalizedText, or to an Aligned one.
  template <class Text, class Finish>
  void take(char32_t code_point, Text& word, const Finish& finish) const {
    const Character character = characters_[code_point];
    const char32_t becomes = character.value() ? character.value() : code_point;
    switch (character.kind()) {
      case unicode::word: return word.append(becomes);
      case unicode::isolated:
        finish();
        word.append(becomes);
        return finish();
      case unicode::space: return finish();
      case unicode::drop: return word.drop_mark(character.value());
      case unicode::drop_starter: return word.end_run();
      case unicode::mark: return word.append_mark(code_point, character.value());
      case unicode::sequence:
        for (const char32_t target : unicode::sequences[character.value()].targets)
          if (target) take(target, word, finish);
        return;
      case unicode::hangul: return append_jamo(code_point - 0xAC00, word);
    }
  }

  // Appends the jamo of a Hangul syllable, by the arithmetic of the Unicode Standard, section 3.12: 19 leading
  // consonants, 21 vowels, 28 trailing consonants (the first is none).
  template <class Text>
  static void append_jamo(char32_t syllable, Text& word) {
    constexpr char32_t vowels = 21, endings = 28;
    word.append(0x1100 + syllable / (vowels * endings));
    word.append(0x1161 + syllable / endings % vowels);
    if (syllable % endings) word.append(0x11A7 + syllable % endings);
  }

  Characters characters_;
  std::array<char, 256> ascii_{};  // the byte to append for an ASCII character of a word, otherwise 0
};

}  // namespace heddle::text
