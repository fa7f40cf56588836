// Base64 (RFC 4648), in which tokenizer.json holds the character map of a SentencePiece model.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace heddle::text {

/// Returns the bytes of a text in base64 with padding, or no value if it is none.
inline std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::uint8_t values[256];
  for (std::uint8_t& value : values) value = 64;
  for (std::size_t i = 0; i < digits.size(); ++i)
    values[static_cast<unsigned char>(digits[i])] = static_cast<std::uint8_t>(i);
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t at = 0; at < text.size(); at += 4) {
    std::string_view group = text.substr(at, 4);
    if (at + 4 == text.size())
      for (int i = 0; i < 2 && group.ends_with('='); ++i) group.remove_suffix(1);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const std::uint8_t value = i < group.size() ? values[static_cast<unsigned char>(group[i])] : std::uint8_t{0};
      if (value == 64) return std::nullopt;
      bits = bits << 6 | value;
    }
    for (std::size_t i = 1; i < group.size(); ++i) bytes += static_cast<char>(bits >> (24 - 8 * i) & 0xFF);
  }
  return bytes;
}

}  // namespace heddle::text
