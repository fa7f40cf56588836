#include <heddle/train/png.hpp>

#include "catch.hpp"
#include "io/files.hpp"
#include "train/read_png.hpp"

using namespace heddle;
using namespace heddle::testing;
using train::Image;

namespace {

Image pattern_image(Index width, Index height) {
  Image image(width, height, {0, 0, 0});
  std::uint32_t state = 1;
  for (Index y = 0; y < height; ++y)
    for (Index x = 0; x < width; ++x) {
      state = state * 1664525 + 1013904223;
      image.set(x, y,
                {static_cast<std::uint8_t>(state >> 24), static_cast<std::uint8_t>(x), static_cast<std::uint8_t>(y)});
    }
  return image;
}

}  // namespace

TEST_CASE("encode_png: gives a file that decodes to the pixels") {
  for (const auto& [width, height] : {std::pair<Index, Index>{1, 1}, {3, 2}, {1, 300}, {300, 1}, {257, 129}}) {
    const Image image = pattern_image(width, height);
    const DecodedPng png = read_png(train::encode_png(image));
    CHECK(png.width == static_cast<std::size_t>(width));
    CHECK(png.height == static_cast<std::size_t>(height));
    CHECK(std::vector<std::uint8_t>(image.pixels().begin(), image.pixels().end()) == png.pixels);
  }
}

TEST_CASE("encode_png: compresses with zlib") {
  const std::size_t size = train::encode_png(Image(500, 400, {200, 100, 50})).size();
#ifdef HEDDLE_ZLIB
  CHECK(size < 2000);
#else
  CHECK(size > 600'000);
  CHECK(size < 601'000);
#endif
}

TEST_CASE("png: stored blocks hold any number of bytes") {
  CHECK(train::detail::adler32("") == 1);
  CHECK(train::detail::adler32("Wikipedia") == 0x11E60398);
  for (const std::size_t size : std::initializer_list<std::size_t>{0, 1, 65'534, 65'535, 65'536, 131'070, 131'071}) {
    std::string bytes(size, '\xFF');
    for (std::size_t i = 0; i < size; i += 7) bytes[i] = static_cast<char>(i);
    const std::string stored = train::detail::store(bytes);
    CHECK(inflate_stored(stored) == bytes);
    CHECK(stored.size() == size + 6 + 5 * std::max<std::size_t>(1, (size + 65'534) / 65'535));
  }
}
