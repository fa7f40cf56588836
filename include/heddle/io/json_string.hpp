#pragma once
#include <string>
#include <string_view>

namespace heddle::io {

/// Returns the text as a JSON string, quotes included; valid UTF-8 stays valid.
inline std::string json_string(std::string_view text) {
  constexpr char digits[] = "0123456789abcdef";
  std::string json = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      json += {'\\', c};
    else if (byte < 0x20)
      json += {'\\', 'u', '0', '0', digits[byte >> 4], digits[byte & 15]};
    else
      json += c;
  }
  return json + '"';
}

}  // namespace heddle::io
