// ByteAlphabet: a printable character for each byte, in which the tokens of byte-level BPE are written (GPT-2's
// encoder.py).
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <heddle/base/utf8.hpp>

namespace heddle::text {

/// The characters of the 256 bytes: printable Latin-1 characters stand for themselves, and U+0100 and those after it
/// for the other bytes.
class ByteAlphabet {
 public:
  /// Fills the tables.
  ByteAlphabet() {
    char32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool is_printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      characters_[byte] = is_printable ? byte : next++;
      bytes_[characters_[byte]] = static_cast<std::int16_t>(byte);
    }
  }

  /// Returns the character of a byte.
  char32_t operator[](unsigned char byte) const { return characters_[byte]; }

  /// Appends the bytes of a token. Returns false, and appends nothing, if the token has a character that is not in the
  /// alphabet.
  bool decode(std::string_view token, std::string& bytes) const {
    const std::size_t before = bytes.size();
    for (const char *at = token.data(), *const end = at + token.size(); at != end;) {
      const char32_t c = decode_utf8(at, end);
      if (c >= bytes_.size() || bytes_[c] < 0) {
        bytes.resize(before);
        return false;
      }
      bytes += static_cast<char>(bytes_[c]);
    }
    return true;
  }

 private:
  static constexpr std::array<std::int16_t, 0x144> no_bytes() {
    std::array<std::int16_t, 0x144> none{};
    none.fill(-1);
    return none;
  }

  std::array<char32_t, 256> characters_;
  std::array<std::int16_t, 0x144> bytes_ = no_bytes();
};

/// Returns the alphabet.
inline const ByteAlphabet& byte_alphabet() {
  static const ByteAlphabet alphabet;
  return alphabet;
}

}  // namespace heddle::text
