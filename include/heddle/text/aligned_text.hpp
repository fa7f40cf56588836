// AlignedText: a text that normalizers edit, with the range of the original text from which each of its bytes comes, as
// NormalizedString of the Rust tokenizers library keeps it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <heddle/base/utf8.hpp>
#include <heddle/text/alignment.hpp>

namespace heddle::text {

namespace detail {

// Returns how many bytes at the beginning of a text are ASCII.
inline std::size_t count_ascii(std::string_view text) {
  constexpr std::uint64_t high_bits = 0x8080808080808080;
  std::size_t n = 0;
  for (std::uint64_t bytes; n + sizeof(bytes) <= text.size(); n += sizeof(bytes)) {
    std::memcpy(&bytes, text.data() + n, sizeof(bytes));
    if (bytes & high_bits) break;
  }
  while (n < text.size() && static_cast<unsigned char>(text[n]) < 0x80) ++n;
  return n;
}

}  // namespace detail

/// A text in UTF-8. If it is aligned, it has the source of each byte: the range of the original character from which
/// the byte was made. All bytes of a character have the same source. An edit reads the text from left to right and
/// writes the next one: begin(), any number of copy(), replace(), insert() and skip(), finish().
class AlignedText {
 public:
  /// Makes an empty text.
  explicit AlignedText(bool is_aligned = false) : is_aligned_(is_aligned) {}

  /// Returns whether the text has sources.
  bool is_aligned() const { return is_aligned_; }
  /// Returns the text.
  std::string_view text() const { return text_; }
  /// Returns the source of bytes of the text, of which there must be at least one. Requires is_aligned().
  TextRange source(TextRange bytes) const { return {sources_[bytes.begin].begin, sources_[bytes.end - 1].end}; }

  /// Returns a part of the text.
  AlignedText part(TextRange bytes) const {
    AlignedText copy(is_aligned_);
    copy.text_ = text_.substr(bytes.begin, bytes.end - bytes.begin);
    if (is_aligned_) copy.sources_.assign(&sources_[bytes.begin], &sources_[bytes.begin] + (bytes.end - bytes.begin));
    return copy;
  }

  /// Takes a part of the original text that begins at `offset`. Each sequence of invalid UTF-8 becomes U+FFFD.
  void assign(std::string_view part, std::size_t offset) {
    text_.clear();
    sources_.clear();
    if (!is_aligned_ && is_utf8(part)) {
      text_ = part;
      return;
    }
    text_.reserve(part.size());
    if (is_aligned_) sources_.reserve(part.size());
    for (const char *at = part.data(), *const end = at + part.size(); at != end;) {
      const std::size_t begin = offset + static_cast<std::size_t>(at - part.data());
      if (const std::size_t run = detail::count_ascii({at, end}); run > 0) {
        text_.append(at, run);
        if (is_aligned_)
          for (std::size_t i = begin; i < begin + run; ++i) sources_.push_back({i, i + 1});
        at += run;
        continue;
      }
      const char32_t c = decode_utf8(at, end);
      const std::size_t size = text_.size();
      append_utf8(text_, c);
      if (is_aligned_)
        sources_.resize(sources_.size() + text_.size() - size,
                        {begin, offset + static_cast<std::size_t>(at - part.data())});
    }
  }

  /// Converts the letters of ASCII to lower case.
  void lower_ascii_in_place() {
    for (char& c : text_) c = lower_ascii(c);
  }

  /// Begins an edit.
  void begin() {
    at_ = 0;
    next_.clear();
    next_sources_.clear();
    next_.reserve(text_.size());
    if (is_aligned_) next_sources_.reserve(text_.size());
  }
  /// Keeps the next bytes.
  void copy(std::size_t bytes) {
    if (bytes == 0) return;
    next_.append(text_, at_, bytes);
    if (is_aligned_) next_sources_.insert(next_sources_.end(), &sources_[at_], &sources_[at_] + bytes);
    at_ += bytes;
  }
  /// Writes a character in the place of the next bytes. Its source is that of the first of them.
  void replace(char32_t c, std::size_t bytes) {
    write(c, is_aligned_ ? sources_[at_] : TextRange{});
    at_ += bytes;
  }
  /// Writes another character. Its source is that of the byte before the next one, or [0, 0) at the beginning.
  void insert(char32_t c) { write(c, is_aligned_ && at_ > 0 ? sources_[at_ - 1] : TextRange{}); }
  /// Removes the next bytes.
  void skip(std::size_t bytes) { at_ += bytes; }
  /// Returns the offset of the next byte.
  std::size_t position() const { return at_; }
  /// Returns the offset at which the next character is written.
  std::size_t written() const { return next_.size(); }
  /// Replaces the text by what was written.
  void finish() {
    text_.swap(next_);
    sources_.swap(next_sources_);
  }

  /// Writes a character as NormalizedString::transform of the Rust library does: if `change` is 1, it is inserted;
  /// otherwise it replaces the next character, and -change characters after that are removed.
  void apply(char32_t c, int change) {
    if (change > 0 || at_ == text_.size()) return insert(c);
    replace(c, next_size());
    for (; change < 0; ++change) skip(next_size());
  }

 private:
  void write(char32_t c, TextRange source) {
    append_utf8(next_, c);
    if (is_aligned_) next_sources_.resize(next_.size(), source);
  }
  // Returns the number of bytes of the next character, or 0 at the end.
  std::size_t next_size() const {
    if (at_ == text_.size()) return 0;
    const auto lead = static_cast<unsigned char>(text_[at_]);
    return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  }

  bool is_aligned_;
  std::string text_, next_;
  std::vector<TextRange> sources_, next_sources_;  // of each byte
  std::size_t at_ = 0;
};

}  // namespace heddle::text
