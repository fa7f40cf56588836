// Heat maps: matrices, such as attention weights, as an image with one panel per head.
#pragma once
#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include <heddle/base/view.hpp>
#include <heddle/train/image.hpp>

namespace heddle::train {

/// The content of a heat map. The values are borrowed.
struct HeatMap {
  View<const float, 3> values;             ///< [P, R, C]: P panels of R x C cells, such as [H, T, T]
  std::vector<std::string> row_labels;     ///< [R], or empty for none
  std::vector<std::string> column_labels;  ///< [C], or empty for none
  std::string panel_name = "head";         ///< the panels are titled "head 0", "head 1", ...
};

namespace detail {

using pictures::sequential_color;

inline constexpr Color white{255, 255, 255}, ink{40, 40, 40}, not_finite_gray{160, 160, 160};

// Returns the side of a cell in pixels: large enough for a label if there are few cells.
inline Index cell_size(Index rows, Index columns) {
  struct Choice {
    Index most_cells, pixels;
  };
  constexpr Choice choices[] = {{32, 16}, {64, 10}, {128, 6}, {256, 3}};
  for (const Choice& choice : choices)
    if (std::max(rows, columns) <= choice.most_cells) return choice.pixels;
  return 2;
}

// Returns a number as text with at most three significant digits. The decimal separator is a point in every locale.
inline std::string short_number(double value) {
  char digits[32];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), value, std::chars_format::general, 3).ptr;
  return {digits, end};
}

// Returns the label, or its beginning and ".." if it has more than 16 glyphs.
inline std::string cut_label(std::string_view label) {
  constexpr int longest = 16;
  int glyphs = 0;
  const char* const end = label.data() + label.size();
  const char* cut = label.data();
  for (const char* at = cut; at != end; ++glyphs) {
    if (glyphs == longest) return std::string(label.data(), cut) + "..";
    text::decode_utf8(at, end);
    if (glyphs < longest - 2) cut = at;
  }
  return std::string(label);
}

// The positions and sizes of the parts of a panel, in pixels: title, column labels, row labels, cells, color bar.
// Positions count from the panel's upper left corner.
class PanelLayout {
 public:
  static constexpr Index gap = 4, bar_width = 8;
  static constexpr Index number_width = 50;  // eight glyphs, "1.23e-05", take 47

  PanelLayout(const HeatMap& map, const std::vector<std::string>& row_labels,
              const std::vector<std::string>& column_labels)
      : cell(cell_size(map.values.extent[1], map.values.extent[2])),
        cells_x(longest(row_labels)),
        cells_y(Image::text_height() + gap + longest(column_labels)),
        cells_width(map.values.extent[2] * cell),
        cells_height(map.values.extent[1] * cell),
        width(cells_x + std::max(cells_width + gap + bar_width + gap + number_width, widest_title - cells_x)),
        height(cells_y + std::max(cells_height, 2 * Image::text_height())) {}

  // Returns the step between drawn labels: every n-th label is drawn, so that the labels do not overlap.
  Index label_step() const { return (Image::text_height() + cell) / cell; }

  Index cell, cells_x, cells_y, cells_width, cells_height, width, height;

 private:
  static constexpr Index widest_title = 100;

  // Returns the space for labels, with a gap; 0 for none.
  static Index longest(const std::vector<std::string>& labels) {
    Index longest = 0;
    for (const std::string& label : labels) longest = std::max(longest, Image::text_width(label) + gap);
    return longest;
  }
};

// The painter of one panel, whose upper left corner is (x, y).
class PanelPainter {
 public:
  PanelPainter(Image& image, const PanelLayout& layout, Index x, Index y)
      : image_(image), layout_(layout), y_(y), cells_x_(x + layout.cells_x), cells_y_(y + layout.cells_y) {}

  void title(std::string_view text) { image_.draw_text(cells_x_, y_, text, ink); }

  void labels(const std::vector<std::string>& rows, const std::vector<std::string>& columns) {
    const Index text = Image::text_height(), centered = (layout_.cell - text) / 2, step = layout_.label_step();
    for (Index n = 0; n < std::ssize(rows); n += step) {
      const std::string& label = rows[static_cast<std::size_t>(n)];
      const Index left = cells_x_ - PanelLayout::gap / 2 - Image::text_width(label);
      image_.draw_text(left, cells_y_ + n * layout_.cell + centered, label, ink);
    }
    for (Index n = 0; n < std::ssize(columns); n += step)
      image_.draw_text_upwards(cells_x_ + n * layout_.cell + centered, cells_y_ - PanelLayout::gap / 2,
                               columns[static_cast<std::size_t>(n)], ink);
  }

  void cells(View<const float, 2> values, double max) {
    for (Index row = 0; row < values.extent[0]; ++row)
      for (Index column = 0; column < values.extent[1]; ++column) {
        const double value = values(row, column);
        const Color color = std::isfinite(value) ? sequential_color(max > 0 ? value / max : 0) : not_finite_gray;
        image_.fill(cells_x_ + column * layout_.cell, cells_y_ + row * layout_.cell, layout_.cell, layout_.cell, color);
      }
  }

  // Draws the colors from 0 at the bottom to the maximum at the top.
  void color_bar(double max) {
    const Index left = cells_x_ + layout_.cells_width + PanelLayout::gap, height = layout_.height - layout_.cells_y;
    for (Index row = 0; row < height; ++row) {
      const double share = height > 1 ? 1 - static_cast<double>(row) / static_cast<double>(height - 1) : 1;
      image_.fill(left, cells_y_ + row, PanelLayout::bar_width, 1, sequential_color(share));
    }
    const Index numbers = left + PanelLayout::bar_width + PanelLayout::gap;
    image_.draw_text(numbers, cells_y_, short_number(max), ink);
    image_.draw_text(numbers, cells_y_ + height - Image::text_height(), "0", ink);
  }

 private:
  Image& image_;
  const PanelLayout& layout_;
  Index y_, cells_x_, cells_y_;
};

// Returns the largest finite value, at least 0.
inline double panel_maximum(View<const float, 2> values) {
  float max = 0;
  for (Index i = 0; i < values.extent[0] * values.extent[1]; ++i)
    if (std::isfinite(values.data[i])) max = std::max(max, values.data[i]);
  return max;
}

inline std::vector<std::string> cut_labels(const std::vector<std::string>& labels, Index count, const char* axis) {
  require<ShapeError>(labels.empty() || std::ssize(labels) == count, "heat_map: ", labels.size(), " ", axis,
                      " labels for ", count, " ", axis, "s");
  std::vector<std::string> cut;
  for (const std::string& label : labels) cut.push_back(cut_label(label));
  return cut;
}

}  // namespace detail

/// Draws matrices as panels in a grid. The side of a cell is 16 pixels for up to 32 rows and columns, and less for more
/// of them, but at least 2. If a cell is too small for a label, labels are left out at regular steps, so that they do
/// not overlap. The color of a value is between pale yellow for 0 and dark blue for the largest value of its panel,
/// which is written beside its color bar. Negative values are drawn as 0, values that are not finite in gray. @throws
/// ShapeError for an empty axis or a wrong number of labels, Error if the image becomes too large (Image).
inline Image heat_map(const HeatMap& map) {
  const auto [panels, rows, columns] = map.values.extent;
  require<ShapeError>(panels >= 1 && rows >= 1 && columns >= 1, "heat_map: values of shape [", panels, ", ", rows, ", ",
                      columns, "] have no cells");
  const auto row_labels = detail::cut_labels(map.row_labels, rows, "row");
  const auto column_labels = detail::cut_labels(map.column_labels, columns, "column");
  const detail::PanelLayout layout(map, row_labels, column_labels);

  constexpr Index margin = 8;
  const auto across = static_cast<Index>(std::ceil(std::sqrt(static_cast<double>(panels))));
  const Index down = (panels + across - 1) / across;
  Image image(margin + across * (layout.width + margin), margin + down * (layout.height + margin), detail::white);
  for (Index panel = 0; panel < panels; ++panel) {
    const View<const float, 2> values{map.values.data + panel * rows * columns, {rows, columns}};
    const double max = detail::panel_maximum(values);
    detail::PanelPainter painter(image, layout, margin + panel % across * (layout.width + margin),
                                 margin + panel / across * (layout.height + margin));
    painter.title(detail::cut_label(map.panel_name + ' ' + std::to_string(panel)));
    painter.labels(row_labels, column_labels);
    painter.cells(values, max);
    painter.color_bar(max);
  }
  return image;
}

}  // namespace heddle::train
