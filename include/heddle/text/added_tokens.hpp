// AddedToken: a token that is recognized in a text before the text is cut into words, as in the Rust tokenizers
// library.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <heddle/base/utf8.hpp>
#include <heddle/text/properties.hpp>
#include <heddle/text/unicode_tables.hpp>

namespace heddle::text {

/// A token that is recognized anywhere in a text.
struct AddedToken {
  std::string content;       ///< the text to recognize
  std::int32_t id = 0;       ///< its id
  bool single_word = false;  ///< only where no letter, digit, mark or underscore stands before or after it
  bool normalized =
      false;  ///< compared after normalization, of the content and of the text: in any casing if the text is uncased
  bool special = false;  ///< left out by WordPiece::decode() and Tokenizer::decode()
  bool lstrip = false;   ///< takes the white space before it; WordPiece, which drops that, ignores both options
  bool rstrip = false;   ///< takes the white space after it

  /// Compares all members.
  bool operator==(const AddedToken&) const = default;
};

/// Returns whether a code point is part of a word, as the class w of Rust's regular expressions tells it.
inline bool is_word_character(char32_t code_point) {
  const auto* const after =
      std::upper_bound(std::begin(unicode::word_characters), std::end(unicode::word_characters), code_point,
                       [](char32_t value, const unicode::Interval& interval) { return value < interval.first; });
  return after != std::begin(unicode::word_characters) && code_point <= (after - 1)->last;
}

namespace detail {

// Finds some tokens in texts: at each place the longest one, and nothing within a token.
class TokenFinder {
 public:
  // The options of a token that matter here.
  struct Options {
    bool single_word = false, lstrip = false, rstrip = false;
  };

  void add(std::string text, std::int32_t id, Options options) {
    if (text.empty()) return;
    if (first_bytes_.find(text.front()) == first_bytes_.npos) first_bytes_ += text.front();
    auto& tokens = by_first_byte_[static_cast<unsigned char>(text.front())];
    const auto shorter =
        std::find_if(tokens.begin(), tokens.end(), [&](const Token& t) { return t.text.size() < text.size(); });
    tokens.insert(shorter, Token{std::move(text), id, options});
  }
  bool empty() const { return first_bytes_.empty(); }

  // Calls between(part) for the parts of the text before, between and behind the tokens (the last may be empty), and
  // found(id, part) for each token. Its part includes the white space that it takes.
  template <class Between, class Found>
  void split(std::string_view text, const Between& between, const Found& found) const {
    std::size_t begin = 0;
    for (std::size_t at = next(text, 0); at < text.size(); at = next(text, at)) {
      const Token* const token = longest_at(text.substr(at));
      if (!token) {
        ++at;
        continue;
      }
      const std::size_t end = at + token->text.size();
      const auto& [single_word, lstrip, rstrip] = token->options;
      if (!single_word || !(ends_with_word(text.substr(0, at)) || begins_with_word(text.substr(end)))) {
        // The white space that a token takes may hold the next token.
        std::size_t first = at;
        if (lstrip) first = begin < at ? begin + without_space_at_end(text.substr(begin, at - begin)) : begin;
        const std::size_t last = rstrip ? end + space_at_beginning(text.substr(end)) : end;
        if (begin < first) between(text.substr(begin, first - begin));
        if (first < last) found(token->id, text.substr(first, last - first));
        begin = last;
      }
      at = end;
    }
    between(text.substr(std::min(begin, text.size())));
  }

 private:
  struct Token {
    std::string text;
    std::int32_t id;
    Options options;
  };

  // Returns the next place at or after `at` whose byte begins a token. BERT's tokens all begin with one byte, and
  // memchr finds it fast.
  std::size_t next(std::string_view text, std::size_t at) const {
    if (first_bytes_.size() <= 1)
      return first_bytes_.empty() ? text.size() : std::min(text.find(first_bytes_[0], at), text.size());
    while (at < text.size() && by_first_byte_[static_cast<unsigned char>(text[at])].empty()) ++at;
    return at;
  }
  const Token* longest_at(std::string_view text) const {
    for (const Token& token : by_first_byte_[static_cast<unsigned char>(text.front())])
      if (text.starts_with(token.text)) return &token;
    return nullptr;
  }
  static bool is_space(char32_t c) { return has_property(c, property::white_space); }
  // Returns the size of the text without the white space at its end.
  static std::size_t without_space_at_end(std::string_view text) {
    std::size_t size = 0;
    for (const char *at = text.data(), *const end = at + text.size(); at != end;)
      if (!is_space(decode_utf8(at, end))) size = static_cast<std::size_t>(at - text.data());
    return size;
  }
  static std::size_t space_at_beginning(std::string_view text) {
    std::size_t size = 0;
    for (const char *at = text.data(), *const end = at + text.size(); at != end && is_space(decode_utf8(at, end));)
      size = static_cast<std::size_t>(at - text.data());
    return size;
  }
  static bool begins_with_word(std::string_view text) {
    const char *at = text.data(), *const end = at + text.size();
    return at != end && is_word_character(decode_utf8(at, end));
  }
  static bool ends_with_word(std::string_view text) {
    const char *const begin = text.data(), *const end = begin + text.size(), *at = end;
    while (at != begin && (static_cast<unsigned char>(*--at) & 0xC0) == 0x80) {
    }
    return at != end && is_word_character(decode_utf8(at, end)) && at == end;  // bytes behind it would not be UTF-8
  }

  std::array<std::vector<Token>, 256> by_first_byte_;  // longer tokens first
  std::string first_bytes_;
};

}  // namespace detail

}  // namespace heddle::text
