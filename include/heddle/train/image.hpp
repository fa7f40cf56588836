// A small raster image: rectangles and text, for heat maps in TensorBoard and PNG files.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <heddle/base/build.hpp>
#include <heddle/base/color.hpp>
#include <heddle/base/error.hpp>
#include <heddle/base/utf8.hpp>
#include <heddle/train/bitmap_font.hpp>

namespace heddle::train {

using pictures::Color;

/// An RGB image with 8 bits per channel. Column 0 is on the left and row 0 at the top.
class Image {
 public:
  static constexpr Index max_extent = 65'536;       ///< pixels of a side
  static constexpr Index max_pixels = 100'000'000;  ///< pixels of an image: 300 MB

  /// Creates an image of one color. @throws Error if a side is not in 1 .. 65,536 or the image has more than 100
  /// million pixels.
  Image(Index width, Index height, Color background) : width_(width), height_(height) {
    require(width >= 1 && height >= 1 && width <= max_extent && height <= max_extent && width * height <= max_pixels,
            "image: a side has 1 to ", max_extent, " pixels, and an image at most ", max_pixels, "; got ", width, " x ",
            height);
    pixels_.resize(static_cast<std::size_t>(width * height * channels));
    fill(0, 0, width, height, background);
  }

  /// Returns the width in pixels.
  Index width() const { return width_; }
  /// Returns the height in pixels.
  Index height() const { return height_; }
  /// Returns the bytes of all pixels, row-major: [height, width, 3].
  std::span<const std::uint8_t> pixels() const { return pixels_; }

  /// Returns the color of a pixel. @throws IndexError outside the image.
  Color at(Index x, Index y) const {
    const std::size_t i = checked_offset(x, y);
    return {pixels_[i], pixels_[i + 1], pixels_[i + 2]};
  }
  /// Sets the color of a pixel. @throws IndexError outside the image.
  void set(Index x, Index y, Color color) { put(checked_offset(x, y), color); }

  /// Fills a rectangle whose upper left corner is (x, y). Only the part inside the image is drawn.
  void fill(Index x, Index y, Index width, Index height, Color color) {
    const Range columns = clip(x, width, width_), rows = clip(y, height, height_);
    for (Index row = rows.begin; row < rows.end; ++row) {
      std::size_t i = offset(columns.begin, row);
      for (Index left = columns.end - columns.begin; left > 0; --left, i += channels) put(i, color);
    }
  }

  /// Draws a line of text whose upper left corner is (x, y), clipped to the image. `text` is UTF-8: each code point is
  /// one glyph, a box if it is not printable ASCII. @throws Error if `scale` is not in 1 .. 100.
  void draw_text(Index x, Index y, std::string_view text, Color color, int scale = 1) {
    if (x >= width_ || y >= height_) text = {};  // so that no sum below overflows
    draw_glyphs(text, scale, [&](Index along, Index down) { fill(x + along, y + down, scale, scale, color); });
  }

  /// Draws a line of text that reads from bottom to top. It covers text_height() columns from x on, and the
  /// text_width() rows above row y. @throws Error as draw_text().
  void draw_text_upwards(Index x, Index y, std::string_view text, Color color, int scale = 1) {
    if (x >= width_ || y <= 0) text = {};
    draw_glyphs(text, scale, [&](Index along, Index down) { fill(x + down, y - along - scale, scale, scale, color); });
  }

  /// Returns the width of a drawn text in pixels. @throws Error if `scale` is not in 1 .. 100.
  static Index text_width(std::string_view text, int scale = 1) {
    check_scale(scale);
    Index glyphs = 0;
    for_each_code_point(text, [&](char32_t) { ++glyphs; });
    return glyphs == 0 ? 0 : (glyphs * advance - glyph_gap) * scale;
  }
  /// Returns the height of a line of text in pixels, descenders included. @throws Error if `scale` is not in 1 .. 100.
  static Index text_height(int scale = 1) {
    check_scale(scale);
    return Index{detail::glyph_height} * scale;
  }

 private:
  static constexpr Index channels = 3;
  static constexpr Index glyph_gap = 1;
  static constexpr Index advance = detail::glyph_width + glyph_gap;

  struct Range {
    Index begin, end;
  };

  // Returns the part of begin .. begin + count that is inside 0 .. extent, without overflow.
  static Range clip(Index begin, Index count, Index extent) {
    if (count <= 0 || begin >= extent || begin <= -count) return {0, 0};
    if (begin < 0) return {0, std::min(begin + count, extent)};
    return {begin, count > extent - begin ? extent : begin + count};
  }

  static void check_scale(int scale) {
    constexpr int max_scale = 100;
    require(scale >= 1 && scale <= max_scale, "image: the scale of a text is 1 to ", max_scale, ", not ", scale);
  }

  template <class F>
  static void for_each_code_point(std::string_view text, F&& f) {
    for (const char *at = text.data(), *end = at + text.size(); at != end;) f(text::decode_utf8(at, end));
  }

  // Calls dot(along, down) with the corner of each dot of the text, relative to the text's own corner.
  template <class Dot>
  static void draw_glyphs(std::string_view text, int scale, Dot&& dot) {
    check_scale(scale);
    Index glyph_begin = 0;
    for_each_code_point(text, [&](char32_t code_point) {
      const int glyph = detail::glyph_of(code_point);
      for (int row = 0; row < detail::glyph_height; ++row)
        for (int column = 0; column < detail::glyph_width; ++column)
          if (detail::glyph_pixel(glyph, column, row)) dot((glyph_begin + column) * scale, Index{row} * scale);
      glyph_begin += advance;
    });
  }

  std::size_t offset(Index x, Index y) const { return static_cast<std::size_t>((y * width_ + x) * channels); }
  std::size_t checked_offset(Index x, Index y) const {
    require<IndexError>(x >= 0 && x < width_ && y >= 0 && y < height_, "image: pixel (", x, ", ", y,
                        ") is out of range for an image of ", width_, " x ", height_);
    return offset(x, y);
  }
  void put(std::size_t i, Color color) {
    pixels_[i] = color.red;
    pixels_[i + 1] = color.green;
    pixels_[i + 2] = color.blue;
  }

  Index width_, height_;
  std::vector<std::uint8_t> pixels_;  // [height, width, 3]
};

}  // namespace heddle::train
