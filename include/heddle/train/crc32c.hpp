// CRC-32C (Castagnoli), which guards TensorBoard's records, and the CRC-32 of PNG: one algorithm with two polynomials.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace heddle::train::detail {

// The remainder of each byte, for a reflected polynomial.
template <std::uint32_t polynomial>
inline constexpr std::array<std::uint32_t, 256> crc32_table = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ (rest & 1 ? polynomial : 0);
    table[byte] = rest;
  }
  return table;
}();

// Returns the reflected CRC of the bytes. Both formats start from all ones and invert the result.
template <std::uint32_t polynomial>
std::uint32_t reflected_crc32(std::string_view bytes) {
  std::uint32_t rest = ~std::uint32_t{0};
  for (const char byte : bytes)
    rest = crc32_table<polynomial>[(rest ^ static_cast<unsigned char>(byte)) & 0xFF] ^ rest >> 8;
  return ~rest;
}

// Returns the CRC-32 of PNG, gzip and Ethernet (ISO 3309).
inline std::uint32_t crc32(std::string_view bytes) { return reflected_crc32<0xEDB88320>(bytes); }

// Returns the CRC-32C of iSCSI (RFC 3720, appendix B.4).
inline std::uint32_t crc32c(std::string_view bytes) { return reflected_crc32<0x82F63B78>(bytes); }

// Returns the checksum that a record stores: the CRC is rotated and a constant is added, so that the CRC of data that
// contain CRCs stays useful (TensorFlow's record format).
inline std::uint32_t masked_crc32c(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xA282EAD8;
}

}  // namespace heddle::train::detail
