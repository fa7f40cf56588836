// Images as PNG files (ISO/IEC 15948), compressed by zlib if CMake found it (HEDDLE_ZLIB), otherwise not compressed.
#pragma once
#include <string>
#include <string_view>

#include <heddle/train/crc32c.hpp>
#include <heddle/train/image.hpp>

#ifdef HEDDLE_ZLIB
#include <zlib.h>
#endif

namespace heddle::train {
namespace detail {

// Appends the lowest `bytes` bytes of a number in big-endian order.
inline void put_big_endian(std::string& out, std::uint64_t value, int bytes) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xFF);
}

// Appends a chunk: its length, type, data and checksum.
inline void put_chunk(std::string& png, std::string_view type, std::string_view data) {
  put_big_endian(png, data.size(), 4);
  const std::size_t begin = png.size();
  png += type;
  png += data;
  put_big_endian(png, crc32(std::string_view(png).substr(begin)), 4);
}

// Returns the rows of the image, each preceded by the number of its filter. Filter Up stores the difference from the
// row above. Within a cell of a heat map, all rows of pixels but the first become zero, which makes heat maps with
// large cells about a third smaller.
inline std::string filtered_rows(const Image& image) {
  constexpr char up = 2;
  const auto pixels = image.pixels();
  const std::size_t stride = pixels.size() / static_cast<std::size_t>(image.height());
  std::string rows;
  rows.reserve(pixels.size() + static_cast<std::size_t>(image.height()));
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    if (i % stride == 0) rows += up;
    rows += static_cast<char>(pixels[i] - (i < stride ? 0 : pixels[i - stride]));
  }
  return rows;
}

// Returns the checksum of zlib's format (RFC 1950).
inline std::uint32_t adler32(std::string_view bytes) {
  constexpr std::uint32_t modulus = 65'521;
  constexpr std::size_t longest_run = 5'552;  // the most bytes whose sums fit into 32 bits without a division
  std::uint32_t low = 1, high = 0;
  while (!bytes.empty()) {
    const std::string_view run = bytes.substr(0, longest_run);
    for (const char byte : run) high += low += static_cast<unsigned char>(byte);
    low %= modulus;
    high %= modulus;
    bytes.remove_prefix(run.size());
  }
  return high << 16 | low;
}

// Returns the bytes in zlib's format, in stored blocks (RFC 1951, section 3.2.4).
inline std::string store(std::string_view bytes) {
  constexpr std::size_t longest_block = 65'535;
  const std::uint32_t sum = adler32(bytes);
  std::string out{'\x78', '\x01'};
  out.reserve(bytes.size() + bytes.size() / longest_block * 5 + 16);
  bool is_last = false;
  while (!is_last) {
    const std::string_view block = bytes.substr(0, longest_block);
    is_last = block.size() == bytes.size();
    const auto low = static_cast<char>(block.size() & 0xFF), high = static_cast<char>(block.size() >> 8);
    out += {static_cast<char>(is_last), low, high, static_cast<char>(~low), static_cast<char>(~high)};
    out += block;
    bytes.remove_prefix(block.size());
  }
  put_big_endian(out, sum, 4);
  return out;
}

// A program may contain object files with and without zlib. So functions that depend on the macro are in different
// inline namespaces.
#ifdef HEDDLE_ZLIB
inline namespace zlib {

// Returns the bytes in zlib's format.
inline std::string compress(std::string_view bytes) {
  uLongf size = ::compressBound(static_cast<uLong>(bytes.size()));
  std::string out(size, '\0');
  const int result = ::compress(reinterpret_cast<Bytef*>(out.data()), &size,
                                reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uLong>(bytes.size()));
  require<OutOfMemory>(result == Z_OK, "png: memory ran out while an image was compressed");
  out.resize(size);
  return out;
}
#else
inline namespace stored {

// Returns the bytes in zlib's format, without compression.
inline std::string compress(std::string_view bytes) { return store(bytes); }
#endif

}  // namespace zlib or stored
}  // namespace detail

#ifdef HEDDLE_ZLIB
inline namespace zlib {
#else
inline namespace stored {
#endif

/// Returns the bytes of a PNG file with the image: 8 bits per channel, RGB, not interlaced. @throws OutOfMemory if zlib
/// runs out of memory.
inline std::string encode_png(const Image& image) {
  constexpr char bits_per_channel = 8, rgb = 2;
  std::string header;
  detail::put_big_endian(header, static_cast<std::uint64_t>(image.width()), 4);
  detail::put_big_endian(header, static_cast<std::uint64_t>(image.height()), 4);
  header += {bits_per_channel, rgb, '\0', '\0', '\0'};  // deflate, the five filters, not interlaced
  std::string png = "\x89PNG\r\n\x1A\n";
  detail::put_chunk(png, "IHDR", header);
  detail::put_chunk(png, "IDAT", detail::compress(detail::filtered_rows(image)));
  detail::put_chunk(png, "IEND", {});
  return png;
}

}  // namespace zlib or stored
}  // namespace heddle::train
