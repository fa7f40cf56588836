// Reads the PNG files that encode_png() writes, and checks all that a decoder may check.
#pragma once
#include <cstdint>
#include <heddle/base/error.hpp>
#include <heddle/train/crc32c.hpp>
#include <string>
#include <string_view>
#include <vector>

#ifdef HEDDLE_ZLIB
#include <zlib.h>
#endif

namespace heddle::testing {

struct DecodedPng {
  std::size_t width = 0, height = 0;
  std::vector<std::uint8_t> pixels;  // [height, width, 3]
};

// A reader that consumes a byte string from the front.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  std::string_view take(std::size_t count) {
    require(count <= bytes_.size(), "tests: the bytes end too early");
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  std::size_t big_endian(std::size_t count) {
    std::size_t value = 0;
    for (const char byte : take(count)) value = value << 8 | static_cast<unsigned char>(byte);
    return value;
  }
  std::size_t little_endian(std::size_t count) {
    std::size_t value = 0, shift = 0;
    for (const char byte : take(count)) value |= std::size_t{static_cast<unsigned char>(byte)} << 8 * shift++;
    return value;
  }
  bool is_empty() const { return bytes_.empty(); }

 private:
  std::string_view bytes_;
};

// Inflates zlib data whose blocks are all stored. Throws Error for any other block.
inline std::string inflate_stored(std::string_view zlib) {
  ByteReader in(zlib);
  require(in.big_endian(2) % 31 == 0, "tests: the header of zlib is wrong");
  std::string out;
  for (bool is_last = false; !is_last;) {
    const std::size_t head = in.little_endian(1);
    require(head <= 1, "tests: a block is not stored");
    is_last = head == 1;
    const std::size_t size = in.little_endian(2);
    require((in.little_endian(2) ^ size) == 0xFFFF, "tests: the length of a block is wrong");
    out += in.take(size);
  }
  std::uint32_t low = 1, high = 0;
  for (const char byte : out) {
    low = (low + static_cast<unsigned char>(byte)) % 65521;
    high = (high + low) % 65521;
  }
  require(in.big_endian(4) == (std::size_t{high} << 16 | low), "tests: the Adler-32 is wrong");
  require(in.is_empty(), "tests: there are bytes after the Adler-32");
  return out;
}

inline std::string inflate_png(std::string_view zlib, [[maybe_unused]] std::size_t size) {
#ifdef HEDDLE_ZLIB
  std::string out(size + 1, '\0');  // one more than there should be
  uLongf count = static_cast<uLongf>(out.size());
  const int result = ::uncompress(reinterpret_cast<Bytef*>(out.data()), &count,
                                  reinterpret_cast<const Bytef*>(zlib.data()), static_cast<uLong>(zlib.size()));
  require(result == Z_OK, "tests: zlib gives the error ", result);
  out.resize(count);
  return out;
#else
  return inflate_stored(zlib);
#endif
}

// Undoes the filters None, Sub and Up.
inline std::vector<std::uint8_t> unfilter(std::string_view rows, std::size_t width, std::size_t height) {
  const std::size_t stride = 3 * width;
  require(rows.size() == (stride + 1) * height, "tests: the rows have ", rows.size(), " bytes, expected ",
          (stride + 1) * height);
  std::vector<std::uint8_t> pixels;
  for (std::size_t y = 0; y < height; ++y) {
    const char filter = rows[y * (stride + 1)];
    require(filter >= 0 && filter <= 2, "tests: an unknown filter");
    for (std::size_t i = 0; i < stride; ++i) {
      const std::uint8_t left = filter == 1 && i >= 3 ? pixels[pixels.size() - 3] : 0;
      const std::uint8_t above = filter == 2 && y > 0 ? pixels[pixels.size() - stride] : 0;
      pixels.push_back(static_cast<std::uint8_t>(rows[y * (stride + 1) + 1 + i] + left + above));
    }
  }
  return pixels;
}

inline DecodedPng read_png(std::string_view bytes) {
  ByteReader in(bytes);
  require(in.take(8) == "\x89PNG\r\n\x1A\n", "tests: the bytes are not a PNG file");
  DecodedPng png;
  std::string types, data;
  while (!in.is_empty()) {
    const std::size_t size = in.big_endian(4);
    const std::string_view type_and_data = in.take(4 + size), content = type_and_data.substr(4);
    require(in.big_endian(4) == train::detail::crc32(type_and_data), "tests: the checksum of a chunk is wrong");
    types += type_and_data.substr(0, 4);
    if (type_and_data.starts_with("IDAT")) data += content;
    if (!type_and_data.starts_with("IHDR")) continue;
    ByteReader header(content);
    png.width = header.big_endian(4);
    png.height = header.big_endian(4);
    require(header.take(5) == std::string_view("\x08\x02\0\0\0", 5) && header.is_empty(),
            "tests: the image is not 8-bit RGB");
  }
  require(types == "IHDRIDATIEND", "tests: the chunks are ", types, ", expected IHDRIDATIEND");
  png.pixels = unfilter(inflate_png(data, (3 * png.width + 1) * png.height), png.width, png.height);
  return png;
}

}  // namespace heddle::testing
