// Charts as SVG files: lines, histograms and confusion matrices. They have no scripts and load nothing, and follow the
// reader's light or dark mode.
#pragma once
#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <heddle/base/build.hpp>
#include <heddle/base/error.hpp>
#include <heddle/base/svg.hpp>

namespace heddle::train {

/// The points of one line. A point with a value that is not finite leaves a gap.
struct Series {
  std::string name;       ///< the name in the legend
  std::vector<double> x;  ///< abscissas
  std::vector<double> y;  ///< ordinates, one per abscissa
};

/// The content of a line chart.
struct LineChart {
  std::string title;           ///< over the chart
  std::string x_label;         ///< under the horizontal axis
  std::string y_label;         ///< beside the vertical axis
  std::vector<Series> series;  ///< the lines
};

namespace detail {

using namespace pictures;

// Values beyond this are treated as not finite, so that no difference of two values overflows.
inline constexpr double largest_drawn = 1e300;
inline bool is_drawn(double value) { return std::abs(value) <= largest_drawn; }

// Returns the smallest of 1, 2 and 5 times a power of ten that is at least `step`; 0 unless `step` is positive.
inline double nice_step(double step) {
  if (!(step > 0)) return 0;
  const double power = std::pow(10.0, std::floor(std::log10(step)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= step * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

// The scale of an axis: a range of values with ticks at multiples of a step.
class Scale {
 public:
  // Adds a value to the range.
  void include(double value) {
    low_ = is_empty_ ? value : std::min(low_, value);
    high_ = is_empty_ ? value : std::max(high_, value);
    is_empty_ = false;
    is_whole_ = is_whole_ && value == std::floor(value);
  }
  // Chooses the ticks. A range of no width is widened; without values it is 0 .. 1. Ends the range at ticks if
  // `is_padded`. Whole numbers have whole ticks if `keeps_whole`.
  void finish(int most_ticks, bool is_padded, bool keeps_whole) {
    if (is_empty_) high_ = 1;
    constexpr double least_share = 1e-9;  // of the magnitude; a smaller range has no width
    const double magnitude = std::max(std::abs(low_), std::abs(high_));
    if (high_ - low_ <= least_share * magnitude || high_ == low_) {
      const double widening = magnitude == 0 || (keeps_whole && is_whole_ && magnitude < 1e9) ? 1 : magnitude / 2;
      low_ -= widening;
      high_ += widening;
    }
    step_ = nice_step((high_ - low_) / most_ticks);
    if (keeps_whole && is_whole_) step_ = std::max(step_, 1.0);
    if (!is_padded || step_ == 0) return;
    low_ = std::floor(low_ / step_ + 1e-9) * step_;
    high_ = std::ceil(high_ / step_ - 1e-9) * step_;
  }

  double low() const { return low_; }
  double high() const { return high_; }
  bool is_empty() const { return is_empty_; }
  bool is_whole() const { return is_whole_; }
  // Returns 0 for the lower end and 1 for the upper one.
  double share(double value) const { return (value - low_) / (high_ - low_); }

  std::vector<double> ticks() const {
    std::vector<double> ticks;
    if (step_ == 0) return ticks;
    constexpr int most = 50;
    const double first = std::ceil(low_ / step_ - 1e-9);
    for (int n = 0; n < most && (first + n) * step_ <= high_ + 1e-9 * step_; ++n) ticks.push_back((first + n) * step_);
    return ticks;
  }
  // Returns a tick with as many digits as distinguish it from the next one.
  std::string label(double tick) const {
    if (std::abs(tick) < step_ / 2) return "0";
    constexpr double largest_fixed = 1e6, smallest_fixed = 1e-4;
    const double magnitude = std::max(std::abs(low_), std::abs(high_));
    const int digits = static_cast<int>(std::floor(std::log10(step_) + 1e-9));
    if (magnitude < largest_fixed && step_ >= smallest_fixed)
      return number(tick, std::chars_format::fixed, std::max(0, -digits));
    const int leading = static_cast<int>(std::floor(std::log10(std::abs(tick)) + 1e-9));
    return number(tick, std::chars_format::scientific, std::clamp(leading - digits, 0, 15));
  }

 private:
  double low_ = 0, high_ = 0, step_ = 0;
  bool is_empty_ = true, is_whole_ = true;
};

// The area of a chart between its axes.
struct Plot {
  double left, top, width, height;
  Scale x, y;

  double to_x(double value) const { return left + width * x.share(value); }
  double to_y(double value) const { return top + height * (1 - y.share(value)); }

  void draw_axes(Svg& svg, std::string_view x_label, std::string_view y_label) const {
    for (const double tick : y.ticks()) {
      svg.line(left, to_y(tick), left + width, to_y(tick), "grid");
      svg.text(left - 6, to_y(tick) + 4, y.label(tick), "end");
    }
    for (const double tick : x.ticks()) {
      svg.line(to_x(tick), top + height, to_x(tick), top + height + 5, "axis");
      svg.text(to_x(tick), top + height + 19, x.label(tick), "middle");
    }
    svg.path(
        path_step('M', left, top) + path_step('L', left, top + height) + path_step('L', left + width, top + height),
        "axis");
    svg.text(left + width / 2, top + height + 40, x_label, "middle");
    svg.text(18, top + height / 2, y_label, "middle", true);
  }
};

// Writes a line as the steps of a path. A line may have far more points than pixels: of neighboring points in one
// column of pixels only the first, the lowest, the highest and the last are kept.
class LinePath {
 public:
  explicit LinePath(Svg& svg, std::string line_classes, std::string dot_classes)
      : svg_(svg), line_classes_(std::move(line_classes)), dot_classes_(std::move(dot_classes)) {}

  void add(double x, double y) {
    if (!column_.empty() && std::floor(x) != std::floor(column_.front().x)) flush_column();
    column_.push_back({x, y});
  }
  // Ends the line at a gap; a single point becomes a dot.
  void end() {
    flush_column();
    if (points_ == 1) svg_.dot(last_.x, last_.y, dot_classes_);
    if (points_ > 1) svg_.path(steps_, line_classes_);
    steps_.clear();
    points_ = 0;
  }

 private:
  struct Point {
    double x, y;
  };

  void flush_column() {
    if (column_.empty()) return;
    const auto [low, high] =
        std::minmax_element(column_.begin(), column_.end(), [](const Point& a, const Point& b) { return a.y < b.y; });
    for (auto point = column_.begin(); point != column_.end(); ++point)
      if (point == column_.begin() || point == low || point == high || point + 1 == column_.end()) write(*point);
    column_.clear();
  }
  void write(Point point) {
    steps_ += path_step(points_++ == 0 ? 'M' : 'L', point.x, point.y);
    last_ = point;
  }

  Svg& svg_;
  std::string line_classes_, dot_classes_, steps_;
  std::vector<Point> column_;
  Point last_{};
  Index points_ = 0;
};

// The CSS classes of a series: six colors, then the same colors dashed, then dotted.
struct SeriesStyle {
  std::string line, dot;
  explicit SeriesStyle(std::size_t n) {
    constexpr std::size_t colors = 6;
    const std::string color = std::to_string(n % colors);
    const std::size_t pattern = n / colors % 3;
    line = "line s" + color + (pattern == 0 ? "" : pattern == 1 ? " dashed" : " dotted");
    dot = "f" + color;
  }
};

inline constexpr double chart_width = 720, chart_height = 400, margin_left = 78, margin_top = 40, margin_bottom = 54,
                        margin_right = 24;

inline void draw_legend(Svg& svg, const std::vector<Series>& series, double left, double top) {
  constexpr int longest_name = 20;
  constexpr double line_height = 18;
  for (std::size_t n = 0; n < series.size(); ++n) {
    const double y = top + line_height * static_cast<double>(n);
    svg.line(left, y, left + 22, y, SeriesStyle(n).line);
    svg.text(left + 28, y + 4, shorten(series[n].name, longest_name), "legend");
  }
}

}  // namespace detail

/// Returns an SVG file with one line per series, and a legend if there is more than one. @throws ShapeError if a series
/// has different numbers of x and y.
inline std::string line_chart(const LineChart& chart) {
  using namespace detail;
  constexpr double legend_width = 170, legend_line = 18;
  const bool has_legend = chart.series.size() > 1;
  const double right = has_legend ? legend_width : margin_right;
  const double height = std::max(chart_height - margin_top - margin_bottom,
                                 has_legend ? legend_line * static_cast<double>(chart.series.size()) : 0);
  Plot plot{margin_left, margin_top, chart_width - margin_left - right, height, {}, {}};
  for (const Series& series : chart.series) {
    require<ShapeError>(series.x.size() == series.y.size(), "line_chart: a series has ", series.x.size(), " x and ",
                        series.y.size(), " y, but needs one y per x");
    for (std::size_t i = 0; i < series.x.size(); ++i)
      if (is_drawn(series.x[i]) && is_drawn(series.y[i])) {
        plot.x.include(series.x[i]);
        plot.y.include(series.y[i]);
      }
  }
  constexpr int most_x_ticks = 8, most_y_ticks = 6;
  plot.x.finish(most_x_ticks, false, true);
  plot.y.finish(most_y_ticks, true, false);

  Svg svg(chart_width, margin_top + height + margin_bottom, chart.title);
  plot.draw_axes(svg, chart.x_label, chart.y_label);
  if (plot.x.is_empty()) svg.text(plot.left + plot.width / 2, plot.top + height / 2, "no data", "middle");
  for (std::size_t n = 0; n < chart.series.size(); ++n) {
    const Series& series = chart.series[n];
    const SeriesStyle classes(n);
    LinePath line(svg, classes.line, classes.dot);
    for (std::size_t i = 0; i < series.x.size(); ++i)
      if (is_drawn(series.x[i]) && is_drawn(series.y[i]))
        line.add(plot.to_x(series.x[i]), plot.to_y(series.y[i]));
      else
        line.end();
    line.end();
  }
  if (has_legend) draw_legend(svg, chart.series, plot.left + plot.width + 14, plot.top + 8);
  return svg.finish();
}

/// Returns an SVG file with the distribution of the values as bars. Values that are not finite are left out; their
/// number is below the title.
inline std::string histogram_chart(const std::string& title, const std::string& x_label,
                                   std::span<const double> values) {
  using namespace detail;
  constexpr double least_bins = 8, most_bins = 40;
  Plot plot{
      margin_left, margin_top, chart_width - margin_left - margin_right, chart_height - margin_top - margin_bottom,
      {},          {}};
  Index drawn = 0;
  for (const double value : values)
    if (is_drawn(value)) {
      plot.x.include(value);
      ++drawn;
    }
  // Bins of whole numbers begin at whole numbers, so the last bin must end above the largest number.
  const bool is_whole = drawn > 0 && plot.x.is_whole();
  if (is_whole) plot.x.include(plot.x.high() + 1);
  // The square root of the number of values is a common choice for the number of bins.
  const auto bins = static_cast<int>(std::clamp(std::sqrt(static_cast<double>(drawn)), least_bins, most_bins));
  plot.x.finish(bins, true, is_whole);
  const std::vector<double> edges = plot.x.ticks();
  std::vector<Index> counts(std::max<std::size_t>(edges.size(), 2) - 1);
  const double bin_width = (plot.x.high() - plot.x.low()) / static_cast<double>(counts.size());
  for (const double value : values)
    if (is_drawn(value)) {
      const double bin = (value - plot.x.low()) / bin_width;
      ++counts[static_cast<std::size_t>(std::clamp(bin, 0.0, static_cast<double>(counts.size() - 1)))];
    }
  plot.y.include(0);
  plot.y.include(static_cast<double>(*std::max_element(counts.begin(), counts.end())));
  constexpr int most_x_ticks = 8, most_y_ticks = 6;
  plot.y.finish(most_y_ticks, true, true);

  Svg svg(chart_width, chart_height, title);
  if (drawn != std::ssize(values))
    svg.text(chart_width / 2, 36, "not finite: " + std::to_string(std::ssize(values) - drawn), "middle");
  Plot axes = plot;
  axes.x.finish(most_x_ticks, false, is_whole);  // fewer ticks than bins
  axes.draw_axes(svg, x_label, "count");
  if (drawn == 0) svg.text(plot.left + plot.width / 2, plot.top + plot.height / 2, "no data", "middle");
  const double bar = plot.width / static_cast<double>(counts.size());
  for (std::size_t n = 0; n < counts.size(); ++n) {
    if (counts[n] == 0) continue;
    const double top = plot.to_y(static_cast<double>(counts[n]));
    svg.rectangle(plot.left + bar * static_cast<double>(n) + 0.5, top, bar - 1, plot.top + plot.height - top, "bar");
  }
  return svg.finish();
}

/// Returns an SVG file with a matrix of counts, such as a confusion matrix: values[row * labels.size() + column] with a
/// row per true class and a column per predicted one. The color of a cell shows its share of the row. @throws
/// ShapeError unless there is one count per pair of labels, Error for a negative count.
inline std::string matrix_chart(const std::string& title, const std::string& row_axis, const std::string& column_axis,
                                const std::vector<std::string>& labels, std::span<const Index> values) {
  using namespace detail;
  const std::size_t classes = labels.size();
  require<ShapeError>(values.size() == classes * classes, "matrix_chart: ", values.size(), " counts for ", classes,
                      " x ", classes, " cells");
  constexpr int longest_label = 16;
  constexpr std::size_t most_printed = 30;  // classes; with more of them the counts are too small to read
  constexpr double label_space = 120, axis_space = 24, top_space = 40, right_space = 24, digit = 7, small_cell = 14;
  const bool prints_counts = classes <= most_printed;
  const Index largest = values.empty() ? 0 : *std::max_element(values.begin(), values.end());
  const double printed_cell = std::max(34.0, digit * static_cast<double>(std::to_string(largest).size()) + 12);
  const double cell = prints_counts ? printed_cell : small_cell;
  const double left = axis_space + label_space, top = top_space, side = cell * static_cast<double>(classes);
  constexpr double least_side = 200;  // for the title
  Svg svg(left + std::max(side, least_side) + right_space, top + side + label_space + axis_space, title);

  if (classes > 0) svg.rectangle(left, top, side, side, "cells", to_hex(sequential_color(0)));
  for (std::size_t row = 0; row < classes; ++row) {
    double total = 0;
    for (std::size_t column = 0; column < classes; ++column) {
      const Index count = values[row * classes + column];
      require(count >= 0, "matrix_chart: the count in row ", row, ", column ", column, " is negative: ", count);
      total += static_cast<double>(count);
    }
    const double y = top + cell * static_cast<double>(row);
    svg.text(left - 6, y + cell / 2 + 4, shorten(labels[row], longest_label), "end");
    svg.text(left + cell * (static_cast<double>(row) + 0.5) + 4, top + side + 8, shorten(labels[row], longest_label),
             "end", true);
    for (std::size_t column = 0; column < classes; ++column) {
      const Index count = values[row * classes + column];
      const double x = left + cell * static_cast<double>(column);
      const double share = total > 0 ? static_cast<double>(count) / total : 0;
      if (count > 0) svg.rectangle(x, y, cell, cell, "cell", to_hex(sequential_color(share)));
      if (prints_counts)
        svg.text(x + cell / 2, y + cell / 2 + 4, std::to_string(count),
                 share > 0.45 ? "middle on-dark" : "middle on-light");
    }
  }
  svg.text(16, top + side / 2, row_axis, "middle", true);
  svg.text(left + side / 2, top + side + label_space + 12, column_axis, "middle");
  return svg.finish();
}

}  // namespace heddle::train
