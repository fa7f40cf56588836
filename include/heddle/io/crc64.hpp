// CRC-64/XZ (ECMA-182, reflected), the checksum of checkpoints. It detects every error burst of at most 64 bits.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace heddle::io {

/// The checksum of bytes that arrive in parts: crc.add(a); crc.add(b); crc.value().
class Crc64 {
 public:
  /// Appends bytes to those that were added before.
  void add(std::span<const std::byte> bytes) {
    const auto& table = tables();
    const std::byte* at = bytes.data();
    std::size_t left = bytes.size();
    for (; left >= lanes; left -= lanes, at += lanes) {
      std::uint64_t word;
      std::memcpy(&word, at, lanes);
      word ^= rest_;
      rest_ = 0;
      for (std::size_t lane = 0; lane < lanes; ++lane) rest_ ^= table[lanes - 1 - lane][word >> (8 * lane) & 0xFF];
    }
    for (; left > 0; --left, ++at) rest_ = table[0][(rest_ ^ static_cast<std::uint64_t>(*at)) & 0xFF] ^ rest_ >> 8;
  }
  /// Adds the bytes of a text.
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }

  /// Returns the checksum of all bytes so far.
  std::uint64_t value() const { return ~rest_; }

 private:
  static constexpr std::size_t lanes = 8;  // bytes at once (Kounavis and Berry 2008, "slicing by 8")
  using Tables = std::array<std::array<std::uint64_t, 256>, lanes>;

  static const Tables& tables() {
    static const Tables made = [] {
      constexpr std::uint64_t polynomial = 0xC96C5795D7870F42;
      Tables t;
      for (std::uint64_t byte = 0; byte < 256; ++byte) {
        std::uint64_t rest = byte;
        for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ (rest & 1 ? polynomial : 0);
        t[0][byte] = rest;
      }
      for (std::size_t lane = 1; lane < lanes; ++lane)
        for (std::size_t byte = 0; byte < 256; ++byte)
          t[lane][byte] = t[0][t[lane - 1][byte] & 0xFF] ^ t[lane - 1][byte] >> 8;
      return t;
    }();
    return made;
  }

  std::uint64_t rest_ = ~std::uint64_t{0};
};

/// Returns the checksum of a text.
inline std::uint64_t crc64(std::string_view text) {
  Crc64 crc;
  crc.add(std::as_bytes(std::span(text)));
  return crc.value();
}

/// Returns the value as sixteen hexadecimal digits.
inline std::string hex(std::uint64_t value) {
  std::string digits(16, '0');
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit, value >>= 4)
    *digit = "0123456789abcdef"[value & 15];
  return digits;
}

}  // namespace heddle::io
