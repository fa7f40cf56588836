// Colors, and the color map that heat maps and charts share.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>

namespace heddle::pictures {

/// A color in sRGB, 8 bits per channel.
struct Color {
  std::uint8_t red;    ///< from 0 to 255
  std::uint8_t green;  ///< from 0 to 255
  std::uint8_t blue;   ///< from 0 to 255
  /// Returns whether all channels are equal.
  friend bool operator==(const Color&, const Color&) = default;
};

/// Nine points whose lightness (CIE L*) falls evenly from 97 to 17, while the hue moves from yellow to blue. The order
/// is visible without hue, so the map also works in gray prints and for readers who do not distinguish all colors.
inline constexpr std::array<Color, 9> color_map_points{{{251, 248, 213},
                                                        {200, 227, 174},
                                                        {132, 206, 154},
                                                        {18, 184, 154},
                                                        {10, 152, 153},
                                                        {0, 123, 142},
                                                        {4, 94, 125},
                                                        {3, 67, 108},
                                                        {28, 39, 80}}};

/// Returns the color of a share: pale yellow for 0, dark blue for 1. Shares outside [0, 1] are clamped; NaN
/// counts as 0.
inline Color sequential_color(double share) {
  constexpr int last = static_cast<int>(color_map_points.size()) - 1;
  const double position = share > 0 ? std::min(share, 1.0) * last : 0;
  const int below = std::min(static_cast<int>(position), last - 1);
  const double part = position - below;
  const Color a = color_map_points[static_cast<std::size_t>(below)];
  const Color b = color_map_points[static_cast<std::size_t>(below) + 1];
  const auto mix = [&](std::uint8_t x, std::uint8_t y) {
    return static_cast<std::uint8_t>(std::lround(x + (y - x) * part));
  };
  return {mix(a.red, b.red), mix(a.green, b.green), mix(a.blue, b.blue)};
}

/// Returns a color as CSS names it: "#0a9899".
inline std::string to_hex(Color color) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text = "#";
  for (const std::uint8_t channel : {color.red, color.green, color.blue})
    text += {digits[channel >> 4], digits[channel & 15]};
  return text;
}

}  // namespace heddle::pictures
