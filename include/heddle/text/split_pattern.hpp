// SplitPattern: the patterns by which tokenizers split a text or replace parts of it. Regular expressions are those
// that occur in published tokenizer files; there is no general engine.
#pragma once
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <heddle/base/error.hpp>
#include <heddle/base/printable.hpp>
#include <heddle/base/utf8.hpp>
#include <heddle/text/alignment.hpp>
#include <heddle/text/properties.hpp>

namespace heddle::text {

/// A set of characters: those with one of some properties, or within one of some ranges, or all others.
class CharacterSet {
 public:
  /// Makes the set of the characters with one of some properties.
  explicit CharacterSet(std::uint32_t properties = 0) : properties_(properties) {}

  /// Adds the characters with one of some properties.
  void add(std::uint32_t properties) { properties_ |= properties; }
  /// Adds a range of characters.
  void add(char32_t first, char32_t last) { ranges_.emplace_back(first, last); }
  /// Replaces the set by that of all other characters.
  void invert() { is_inverted_ = !is_inverted_; }

  /// Returns whether the set has a character.
  bool operator()(char32_t c) const {
    const bool is_listed = has_property(c, properties_) ||
                           std::any_of(ranges_.begin(), ranges_.end(),
                                       [&](const auto& range) { return c >= range.first && c <= range.second; });
    return is_listed != is_inverted_;
  }

 private:
  std::uint32_t properties_;
  std::vector<std::pair<char32_t, char32_t>> ranges_;
  bool is_inverted_ = false;
};

namespace detail {

// Reads characters of a text, which is valid UTF-8.
class Reader {
 public:
  Reader(std::string_view text, std::size_t at)
      : at_(text.data() + at), begin_(text.data()), end_(begin_ + text.size()) {}

  bool at_end() const { return at_ == end_; }
  std::size_t position() const { return static_cast<std::size_t>(at_ - begin_); }
  // Returns the next character, or a character that is none at the end.
  char32_t peek() const {
    const char* at = at_;
    return at_end() ? no_character : decode_utf8(at, end_);
  }
  void skip() { decode_utf8(at_, end_); }
  bool skip_if(char32_t c) {
    const bool is_next = peek() == c;
    if (is_next) skip();
    return is_next;
  }
  // Skips at most `most` characters of a set. Returns how many.
  template <class Set>
  std::size_t skip_all(const Set& set, std::size_t most = std::numeric_limits<std::size_t>::max()) {
    std::size_t count = 0;
    for (; count < most && !at_end() && set(peek()); ++count) skip();
    return count;
  }

 private:
  static constexpr char32_t no_character = 0x10FFFF;  // is in no set of a pattern
  const char *at_, *begin_, *end_;
};

inline bool is_letter(char32_t c) { return has_property(c, property::letter); }
inline bool is_number(char32_t c) { return has_property(c, property::number); }
inline bool is_regex_space(char32_t c) { return has_property(c, property::regex_space); }
inline bool is_line_break(char32_t c) { return c == '\r' || c == '\n'; }
// Returns whether a character is [^\s\p{L}\p{N}].
inline bool is_symbol(char32_t c) {
  return !has_property(c, property::regex_space | property::letter | property::number);
}

// Returns the end of 's, 't, 're, 've, 'm, 'll or 'd at `at`, or `at` itself. With `any_case`, U+017F is an s, too.
inline std::size_t contraction_end(std::string_view text, std::size_t at, bool any_case) {
  if (text[at] != '\'') return at;
  const auto letter = [&](std::size_t i) {
    const char c = i < text.size() ? text[i] : '\0';
    return any_case ? lower_ascii(c) : c;
  };
  const char first = letter(at + 1), second = letter(at + 2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l'))
    return at + 3;
  return any_case && text.substr(at + 1, 2) == "\u017F" ? at + 3 : at;
}

// Returns the end of \s+(?!\S)|\s+ at `at`: a run of white space without its last character, unless the text ends there
// or the run is one character long.
inline std::size_t space_end(std::string_view text, std::size_t at) {
  Reader reader(text, at);
  std::size_t last = at;
  while (is_regex_space(reader.peek())) {
    last = reader.position();
    reader.skip();
  }
  return reader.at_end() || last == at ? reader.position() : last;
}

}  // namespace detail

/// A pattern that finds parts of a text.
class SplitPattern {
 public:
  /// Makes the pattern of single characters of a set.
  static SplitPattern characters(CharacterSet set) { return SplitPattern(Run{std::move(set), 1, 1}); }
  /// Makes the pattern of a text. @throws Error for an empty one.
  static SplitPattern literal(std::string text) {
    require(!text.empty(), "SplitPattern: the text to find is empty");
    return SplitPattern(Literal{std::move(text)});
  }
  /// Makes the pattern of the pre-tokenizer ByteLevel.
  static SplitPattern gpt2() { return SplitPattern(Gpt2()); }
  /// Makes the pattern of the pre-tokenizer Whitespace: runs of word characters, and runs of other characters but white
  /// space.
  static SplitPattern words() { return SplitPattern(Words()); }

  /// Makes the pattern of a regular expression: GPT-2's, GPT-4's (also with single digits, as Qwen has it), or
  /// alternatives of characters and sets with quantifiers, such as " {2,}" or 's|'t. Of such a sequence
  /// only the last item may be of any length. @throws Error for any other.
  static SplitPattern regex(const std::string& expression) {
    if (expression == gpt2_expression) return gpt2();
    for (const auto& [digits, count] : {std::pair{"\\p{N}{1,3}", std::size_t{3}}, {"\\p{N}", std::size_t{1}}})
      if (expression == std::string(gpt4_begin) + digits + gpt4_end) return SplitPattern(Gpt4{count});
    std::optional<Alternatives> read = RegexReader(expression).alternatives();
    require(read.has_value(), "SplitPattern: the regular expression ", io::quoted_name(expression),
            " is not one of those that heddle knows");
    if (read->all.size() == 1 && read->all[0].size() == 1) return SplitPattern(std::move(read->all[0][0]));
    return SplitPattern(std::move(*read));
  }

  /// Returns the first match at or after `from`, or no range. The text is valid UTF-8; a match is not empty.
  std::optional<TextRange> find(std::string_view text, std::size_t from) const {
    if (from >= text.size()) return std::nullopt;
    return std::visit([&](const auto& pattern) { return pattern.find(text, from); }, pattern_);
  }

 private:
  static constexpr const char* gpt2_expression =
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
  static constexpr const char* gpt4_begin = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)";
  static constexpr const char* gpt4_end = R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

  struct Literal {
    std::string text;
    std::optional<TextRange> find(std::string_view all, std::size_t from) const {
      const std::size_t at = all.find(text, from);
      return at == all.npos ? std::nullopt : std::optional(TextRange{at, at + text.size()});
    }
  };

  // Between `least` and `most` characters of a set.
  struct Run {
    CharacterSet set;
    std::size_t least, most;
    std::optional<TextRange> find(std::string_view text, std::size_t from) const {
      for (detail::Reader reader(text, from); !reader.at_end();) {
        const std::size_t begin = reader.position();
        const std::size_t count = reader.skip_all(set, most);
        if (count >= least) return TextRange{begin, reader.position()};
        if (count == 0) reader.skip();
      }
      return std::nullopt;
    }
  };

  // The first of some sequences of runs that matches.
  struct Alternatives {
    std::vector<std::vector<Run>> all;
    std::optional<TextRange> find(std::string_view text, std::size_t from) const {
      for (detail::Reader reader(text, from); !reader.at_end(); reader.skip())
        for (const std::vector<Run>& runs : all)
          if (const std::size_t end = end_of(runs, 0, reader); end > reader.position())
            return TextRange{reader.position(), end};
      return std::nullopt;
    }

   private:
    // Returns the end of the runs from the one of number `i` on, or 0 if they do not match.
    static std::size_t end_of(const std::vector<Run>& runs, std::size_t i, const detail::Reader& begin) {
      if (i == runs.size()) return begin.position();
      const Run& run = runs[i];
      detail::Reader reader = begin;
      const std::size_t count = reader.skip_all(run.set, run.most);
      if (count < run.least) return 0;
      if (const std::size_t end = end_of(runs, i + 1, reader); end > 0 || run.least == run.most) return end;
      return i + 1 < runs.size() && run.least == 0 ? end_of(runs, i + 1, begin) : 0;  // without an optional character
    }
  };

  struct Words {
    std::optional<TextRange> find(std::string_view text, std::size_t from) const {
      const auto is_word = [](char32_t c) { return has_property(c, property::word); };
      const auto is_other = [](char32_t c) { return !has_property(c, property::word | property::white_space); };
      for (detail::Reader reader(text, from); !reader.at_end(); reader.skip()) {
        const std::size_t begin = reader.position();
        if (reader.skip_all(is_word) > 0 || reader.skip_all(is_other) > 0) return TextRange{begin, reader.position()};
      }
      return std::nullopt;
    }
  };

  struct Gpt2 {
    std::optional<TextRange> find(std::string_view text, std::size_t from) const {
      if (const std::size_t end = detail::contraction_end(text, from, false); end > from) return TextRange{from, end};
      detail::Reader reader(text, from);
      reader.skip_if(' ');
      if (reader.skip_all(detail::is_letter) > 0 || reader.skip_all(detail::is_number) > 0 ||
          reader.skip_all(detail::is_symbol) > 0)
        return TextRange{from, reader.position()};
      return TextRange{from, detail::space_end(text, from)};
    }
  };

  struct Gpt4 {
    std::size_t most_digits;
    std::optional<TextRange> find(std::string_view text, std::size_t from) const {
      using namespace detail;
      if (const std::size_t end = contraction_end(text, from, true); end > from) return TextRange{from, end};
      Reader reader(text, from);
      const char32_t first = reader.peek();
      if (!is_line_break(first) && !is_letter(first) && !is_number(first)) reader.skip();
      if (reader.skip_all(is_letter) > 0) return TextRange{from, reader.position()};
      reader = Reader(text, from);
      if (reader.skip_all(is_number, most_digits) > 0) return TextRange{from, reader.position()};
      reader.skip_if(' ');
      if (reader.skip_all(is_symbol) > 0) {
        reader.skip_all(is_line_break);
        return TextRange{from, reader.position()};
      }
      std::size_t after_break = from;
      for (reader = Reader(text, from); is_regex_space(reader.peek());) {
        const bool is_break = is_line_break(reader.peek());
        reader.skip();
        if (is_break) after_break = reader.position();
      }
      return TextRange{from, after_break > from ? after_break : space_end(text, from)};
    }
  };

  // Reads a regular expression of alternatives.
  class RegexReader {
   public:
    explicit RegexReader(std::string_view expression) : reader_(expression, 0) {}

    std::optional<Alternatives> alternatives() {
      constexpr std::size_t most_optional = 4;  // each one may double the time
      Alternatives found;
      do {
        std::vector<Run>& runs = found.all.emplace_back();
        std::size_t optional = 0;
        while (!reader_.at_end() && reader_.peek() != '|') {
          // Before the last item, only an optional character has no fixed length.
          if (!runs.empty() && runs.back().least < runs.back().most &&
              (runs.back().most > 1 || ++optional > most_optional))
            return std::nullopt;
          std::optional<Run> run = item();
          if (!run) return std::nullopt;
          runs.push_back(std::move(*run));
        }
        if (std::all_of(runs.begin(), runs.end(), [](const Run& run) { return run.least == 0; })) return std::nullopt;
      } while (reader_.skip_if('|'));
      return found;
    }

   private:
    // Reads a character or a set, and its quantifier.
    std::optional<Run> item() {
      CharacterSet set;
      bool is_valid = true;
      if (reader_.skip_if('[')) {
        const bool is_inverted = reader_.skip_if('^');
        bool is_empty = true;
        while (is_valid && !reader_.at_end() && reader_.peek() != ']') {
          is_valid = add_item(set, true);
          is_empty = false;
        }
        is_valid = is_valid && !is_empty && reader_.skip_if(']');
        if (is_inverted) set.invert();
      } else {
        is_valid = add_item(set, false);
      }
      Run found{std::move(set), 1, 1};
      constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();
      if (reader_.skip_if('+')) {
        found.most = unlimited;
      } else if (reader_.skip_if('*')) {
        found.least = 0;
        found.most = unlimited;
      } else if (reader_.skip_if('?')) {
        found.least = 0;
      } else if (reader_.skip_if('{')) {
        found.least = found.most = number();
        if (reader_.skip_if(',')) found.most = reader_.peek() == '}' ? unlimited : number();
        is_valid = is_valid && reader_.skip_if('}') && found.least > 0 && found.least <= found.most;
      }
      constexpr std::u32string_view more = U"?+*{";  // possessive and lazy quantifiers
      if (!is_valid || (!reader_.at_end() && more.find(reader_.peek()) != more.npos)) return std::nullopt;
      return found;
    }

    bool add_item(CharacterSet& set, bool in_set) {
      const char32_t c = reader_.peek();
      if (reader_.at_end()) return false;
      reader_.skip();
      if (c == '\\') return add_escape(set, in_set);
      constexpr std::u32string_view special = U".^$*+?()[]{}|";
      if (special.find(c) != special.npos) return false;
      char32_t last = c;
      if (in_set && reader_.skip_if('-')) {
        last = reader_.peek();
        if (reader_.at_end() || last == ']' || last == '\\' || last < c) return false;
        reader_.skip();
      }
      set.add(c, last);
      return true;
    }

    bool add_escape(CharacterSet& set, bool in_set) {
      const char32_t c = reader_.peek();
      if (reader_.at_end()) return false;
      reader_.skip();
      switch (c) {
        case 's': return add(set, property::regex_space);
        case 'S': return !in_set && (add(set, property::regex_space), set.invert(), true);
        case 'd': return add(set, property::regex_digit);
        case 'w': return add(set, in_set ? property::bracket_word : property::regex_word);
        case 'n': return set.add('\n', '\n'), true;
        case 'r': return set.add('\r', '\r'), true;
        case 't': return set.add('\t', '\t'), true;
        case 'p': return add_property(set);
        default: break;
      }
      const bool is_letter_or_digit = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
      if (!is_letter_or_digit) set.add(c, c);
      return !is_letter_or_digit;
    }

    bool add_property(CharacterSet& set) {
      std::string name;
      if (!reader_.skip_if('{')) return false;
      for (; !reader_.at_end() && reader_.peek() != '}'; reader_.skip()) {
        if (reader_.peek() >= 0x80) return false;
        name += static_cast<char>(reader_.peek());
      }
      if (!reader_.skip_if('}')) return false;
      const std::pair<const char*, std::uint32_t> names[] = {
          {"L", property::letter}, {"N", property::number}, {"P", property::regex_punctuation}};
      for (const auto& [known, bits] : names)
        if (name == known) return add(set, bits);
      return false;
    }

    static bool add(CharacterSet& set, std::uint32_t properties) { return set.add(properties), true; }

    std::size_t number() {
      std::size_t value = 0;
      while (reader_.peek() >= '0' && reader_.peek() <= '9' && value < 1000000) {
        value = 10 * value + (reader_.peek() - '0');
        reader_.skip();
      }
      return value;
    }

    detail::Reader reader_;
  };

  using Pattern = std::variant<Literal, Run, Alternatives, Words, Gpt2, Gpt4>;
  explicit SplitPattern(Pattern pattern) : pattern_(std::move(pattern)) {}

  Pattern pattern_;
};

}  // namespace heddle::text
