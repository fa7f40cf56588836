// fold_to_ascii: text reduced to ASCII, for character models such as the one of examples/surnames.
#pragma once
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>

#include <heddle/base/utf8.hpp>
#include <heddle/text/ascii_table.hpp>

namespace heddle::text {
namespace detail {

// Returns the ASCII character in the canonical decomposition of a code point above U+007F, or 0 if there is none.
inline char ascii_in_decomposition(char32_t code_point) {
  const auto after = std::upper_bound(std::begin(unicode::ascii_rows), std::end(unicode::ascii_rows), code_point,
                                      [](char32_t value, const unicode::AsciiRow& row) { return value < row.first; });
  if (after == std::begin(unicode::ascii_rows)) return 0;
  const unicode::AsciiRow& row = *(after - 1);
  const std::size_t offset = code_point - row.first;
  return offset < row.letters.size() && row.letters[offset] != ' ' ? row.letters[offset] : '\0';
}

}  // namespace detail

/// Returns the text after canonical decomposition (Unicode's NFD) without its characters outside ASCII: accents vanish,
/// and so do letters that have no decomposition (ł, ß) and other scripts. "Żółć" becomes "Zoc", and U+00A0 vanishes.
/// ASCII stays as it is, control characters too. Bytes that are not valid UTF-8 are read as U+FFFD, which vanishes.
inline std::string fold_to_ascii(std::string_view utf8) {
  std::string folded;
  folded.reserve(utf8.size());
  for (const char *at = utf8.data(), *end = at + utf8.size(); at != end;) {
    const char32_t code_point = decode_utf8(at, end);
    const char c = code_point < 0x80 ? static_cast<char>(code_point) : detail::ascii_in_decomposition(code_point);
    // U+0000 itself is ASCII.
    if (c != 0 || code_point == 0) folded += c;
  }
  return folded;
}

}  // namespace heddle::text
