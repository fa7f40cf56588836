// The confusion matrix of a classifier, and the metrics that are computed from it.
#pragma once
#include <algorithm>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <heddle/base/error.hpp>
#include <heddle/base/printable.hpp>
#include <heddle/base/shape.hpp>

namespace heddle::train {

/// The numbers of rows by label and predicted class. All metrics are fractions; 0/0 is 0. Called without an argument,
/// precision(), recall() and f1() return the metric of class 1 if there are two classes, and the mean over the classes
/// (macro average) if there are more.
class ConfusionMatrix {
 public:
  /// Creates a matrix of zeros. @throws Error for fewer than two classes, and for more than 10,000.
  explicit ConfusionMatrix(int classes)
      : classes_(require_classes(classes)),
        counts_(static_cast<std::size_t>(classes) * static_cast<std::size_t>(classes)) {}

  /// Counts one row, or several. @throws IndexError if one of the two is not a class.
  void add(int label, int predicted, Index rows = 1) {
    check(label);
    check(predicted);
    counts_[offset_of(label, predicted)] += rows;
  }

  /// Returns the number of classes.
  int classes() const { return classes_; }
  /// Returns the number of rows of a label that were predicted as a class. @throws IndexError unless both are classes.
  Index count(int label, int predicted) const {
    check(label);
    check(predicted);
    return counts_[offset_of(label, predicted)];
  }
  /// Returns the counts, row-major [label, predicted].
  std::span<const Index> counts() const { return counts_; }
  /// Returns the number of rows that were added.
  Index rows() const {
    Index sum = 0;
    for (const Index count : counts_) sum += count;
    return sum;
  }

  /// Returns the share of all rows that were predicted as their own class.
  double accuracy() const {
    Index correct = 0;
    for (int c = 0; c < classes_; ++c) correct += count(c, c);
    return ratio(correct, rows());
  }
  /// Returns the share of the rows predicted as `c` that belong to it. @throws IndexError unless `c` is a class.
  double precision(int c) const { return ratio(count(c, c), predicted(c)); }
  /// Returns the share of the rows of `c` that were predicted as `c`. @throws IndexError unless `c` is a class.
  double recall(int c) const { return ratio(count(c, c), labelled(c)); }
  /// Returns the harmonic mean of precision and recall. @throws IndexError unless `c` is a class.
  double f1(int c) const { return ratio(2 * count(c, c), predicted(c) + labelled(c)); }
  /// Returns the precision of class 1 of two classes, or the mean precision of more classes.
  double precision() const {
    return average([this](int c) { return precision(c); });
  }
  /// Returns the recall of class 1 of two classes, or the mean recall of more classes.
  double recall() const {
    return average([this](int c) { return recall(c); });
  }
  /// Returns the F1 of class 1 of two classes, or the mean F1 of more classes.
  double f1() const {
    return average([this](int c) { return f1(c); });
  }

  /// Returns the number of rows that belong to `c`. @throws IndexError unless `c` is a class.
  Index labelled(int c) const {
    Index sum = 0;
    for (int p = 0; p < classes_; ++p) sum += count(c, p);
    return sum;
  }
  /// Returns the number of rows that were predicted as `c`. @throws IndexError unless `c` is a class.
  Index predicted(int c) const {
    Index sum = 0;
    for (int l = 0; l < classes_; ++l) sum += count(l, c);
    return sum;
  }

 private:
  static constexpr int max_classes = 10'000;

  static int require_classes(int classes) {
    require(classes >= 2 && classes <= max_classes, "ConfusionMatrix: the number of classes must be from 2 to ",
            max_classes, ", got ", classes);
    return classes;
  }
  static double ratio(Index part, Index whole) {
    return whole ? static_cast<double>(part) / static_cast<double>(whole) : 0;
  }
  template <class Metric>
  double average(Metric metric) const {
    if (classes_ == 2) return metric(1);
    double sum = 0;
    for (int c = 0; c < classes_; ++c) sum += metric(c);
    return sum / classes_;
  }
  void check(int c) const {
    require<IndexError>(c >= 0 && c < classes_, "ConfusionMatrix: class ", c, " is out of range for ", classes_,
                        " classes");
  }
  std::size_t offset_of(int label, int predicted) const {
    return static_cast<std::size_t>(label) * static_cast<std::size_t>(classes_) + static_cast<std::size_t>(predicted);
  }

  int classes_;
  std::vector<Index> counts_;  // [label, predicted]
};

namespace detail {

// Returns the number of bytes of the first `count` code points, or of the whole text if it has fewer.
inline std::size_t bytes_of_first(std::size_t count, std::string_view text) {
  const char *const begin = text.data(), *const end = begin + text.size(), *at = begin;
  for (; at != end && count > 0; --count) text::decode_utf8(at, end);
  return static_cast<std::size_t>(at - begin);
}
inline std::size_t count_code_points(std::string_view text) {
  std::size_t count = 0;
  for (const char *at = text.data(), *end = at + text.size(); at != end; ++count) text::decode_utf8(at, end);
  return count;
}

}  // namespace detail

/// Returns a table as text: a line per label with its counts, precision, recall and F1, below a header line with the
/// predicted labels. Columns are aligned by code points; the names over the counts are cut to the width of their
/// column. @throws Error unless there is one name per class.
inline std::string to_text(const ConfusionMatrix& matrix, const std::vector<std::string>& names) {
  const int C = matrix.classes();
  require(names.size() == static_cast<std::size_t>(C), "to_text: one name per class is needed, got ", names.size(),
          " names for ", C, " classes");
  std::vector<std::string> shown;
  for (const std::string& name : names) shown.push_back(io::printable(name));
  std::size_t first = 0, width = 5;
  for (const std::string& name : shown) first = std::max(first, detail::count_code_points(name));
  for (const Index count : matrix.counts()) width = std::max(width, std::to_string(count).size());
  const auto right = [](const std::string& text, std::size_t to) {
    const std::size_t length = detail::count_code_points(text);
    return std::string(to > length ? to - length : 0, ' ') + text;
  };
  const auto fraction = [&](double x) {
    char digits[16];
    std::snprintf(digits, sizeof digits, "%.4f", x);
    return right(digits, 11);
  };
  std::string table = right("", first);
  for (const std::string& name : shown)
    table += ' ' + right(name.substr(0, detail::bytes_of_first(width, name)), width);
  table += right("precision", 11) + right("recall", 11) + right("f1", 11) + '\n';
  for (int l = 0; l < C; ++l) {
    const std::string& name = shown[static_cast<std::size_t>(l)];
    table += name + std::string(first - detail::count_code_points(name), ' ');
    for (int c = 0; c < C; ++c) table += ' ' + right(std::to_string(matrix.count(l, c)), width);
    table += fraction(matrix.precision(l)) + fraction(matrix.recall(l)) + fraction(matrix.f1(l)) + '\n';
  }
  return table;
}

}  // namespace heddle::train
