// Names in messages: one line of visible text for any bytes.
#pragma once
#include <string>
#include <string_view>

#include <heddle/base/utf8.hpp>

namespace heddle::io {

/// Returns the text with \\xNN for each byte of invalid UTF-8, of a control character, or of a line break (including
/// U+2028 and U+2029), cut after about `limit` bytes. The default limit is Linux's maximum length of a path.
inline std::string printable(std::string_view text, std::size_t limit = 4096) {
  constexpr char digits[] = "0123456789abcdef";
  std::string shown;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at != end;) {
    if (shown.size() >= limit) return shown + "...";
    const char* const begin = at;
    const char32_t c = text::decode_utf8(at, end);
    const std::string_view bytes(begin, static_cast<std::size_t>(at - begin));
    const bool invalid = c == text::replacement_character && bytes != "\xEF\xBF\xBD";
    const bool control = c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x2028 || c == 0x2029;
    if (!invalid && !control) {
      shown += bytes;
      continue;
    }
    for (const char byte : bytes) {
      const auto value = static_cast<unsigned char>(byte);
      shown += {'\\', 'x', digits[value >> 4], digits[value & 15]};
    }
  }
  return shown;
}

/// Returns a name from a file, in quotes and shortened: a hostile file may hold a name of 100 MB.
inline std::string quoted_name(std::string_view name) { return '\'' + printable(name, 200) + '\''; }

}  // namespace heddle::io
