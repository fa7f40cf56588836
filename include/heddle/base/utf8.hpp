// UTF-8, one code point at a time. Invalid UTF-8 is read as U+FFFD: one for each longest prefix of a valid sequence,
// and one for each byte that begins no valid sequence. Unicode (chapter 3.9), Rust's from_utf8_lossy and Python's
// errors="replace" have the same rule.
#pragma once
#include <string>
#include <string_view>

namespace heddle::text {

/// U+FFFD, which replaces invalid bytes.
inline constexpr char32_t replacement_character = 0xFFFD;
/// The maximum number of bytes of a code point.
inline constexpr int max_utf8_bytes = 4;

/// Returns the lower case of a letter of ASCII, and any other byte as it is.
constexpr char lower_ascii(char c) { return 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// Returns the code point at `at` and moves `at` past it, by at least one byte. Requires at < end.
inline char32_t decode_utf8(const char*& at, const char* end) {
  const auto lead = static_cast<unsigned char>(*at++);
  if (lead < 0x80) return lead;
  if (lead < 0xC2 || lead > 0xF4) return replacement_character;  // not a valid first byte
  const int more = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
  // The second byte's limits exclude overlong forms, surrogates and code points above U+10FFFF.
  unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  char32_t code_point = lead & (0x3Fu >> more);
  for (int i = 0; i < more; ++i, ++at, low = 0x80, high = 0xBF) {
    const unsigned byte = at == end ? 0 : static_cast<unsigned char>(*at);
    if (byte < low || byte > high) return replacement_character;
    code_point = code_point << 6 | (byte & 0x3F);
  }
  return code_point;
}

/// Writes the code point's bytes, at most four, and returns how many.
inline int encode_utf8(char32_t code_point, char* out) {
  const auto continuation = [&](int shift) { return static_cast<char>(0x80 | (code_point >> shift & 0x3F)); };
  if (code_point < 0x80) {
    out[0] = static_cast<char>(code_point);
    return 1;
  }
  if (code_point < 0x800) {
    out[0] = static_cast<char>(0xC0 | code_point >> 6);
    out[1] = continuation(0);
    return 2;
  }
  if (code_point < 0x10000) {
    out[0] = static_cast<char>(0xE0 | code_point >> 12);
    out[1] = continuation(6);
    out[2] = continuation(0);
    return 3;
  }
  out[0] = static_cast<char>(0xF0 | code_point >> 18);
  out[1] = continuation(12);
  out[2] = continuation(6);
  out[3] = continuation(0);
  return 4;
}

/// Appends a code point to a text.
inline void append_utf8(std::string& text, char32_t code_point) {
  if (code_point < 0x80) {
    text += static_cast<char>(code_point);
    return;
  }
  char bytes[max_utf8_bytes];
  text.append(bytes, static_cast<std::string::size_type>(encode_utf8(code_point, bytes)));
}

/// Returns the text with U+FFFD for invalid UTF-8.
inline std::string to_valid_utf8(std::string_view text) {
  std::string valid;
  for (const char *at = text.data(), *const end = at + text.size(); at != end;)
    append_utf8(valid, decode_utf8(at, end));
  return valid;
}

/// Returns whether the text is valid UTF-8.
inline bool is_utf8(std::string_view text) {
  for (const char *at = text.data(), *end = at + text.size(); at != end;) {
    const char* begin = at;
    // The text itself may contain U+FFFD.
    if (decode_utf8(at, end) == replacement_character && std::string_view(begin, at) != "\xEF\xBF\xBD") return false;
  }
  return true;
}

}  // namespace heddle::text
