// F1 and accuracy of a multi-label classifier, whose rows have any number of labels each.
#pragma once
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <heddle/train/match_counts.hpp>

namespace heddle::train {

/// Counts the expected and the predicted labels of many rows. The shares are those of scikit-learn with
/// zero_division=0; all are 0 without rows.
class MultiLabelScores {
 public:
  /// Starts without rows. @throws Error for fewer than one label.
  explicit MultiLabelScores(Index labels) : labels_(require_labels(labels)) {}

  /// Counts one row. Both spans have one value per label, which is not 0 if the row has the label. @throws ShapeError
  /// for another number of values.
  void add(std::span<const std::uint8_t> expected, std::span<const std::uint8_t> predicted) {
    require<ShapeError>(expected.size() == labels_.size() && predicted.size() == labels_.size(),
                        "MultiLabelScores: ", expected.size(), " expected and ", predicted.size(),
                        " predicted values, but ", labels_.size(), " labels");
    bool is_correct = true;
    for (std::size_t i = 0; i < labels_.size(); ++i) {
      const bool has = expected[i] != 0, answer = predicted[i] != 0;
      labels_[i] += {has, answer, has && answer};
      is_correct = is_correct && has == answer;
    }
    ++rows_;
    correct_rows_ += is_correct;
  }

  /// Returns the number of rows that were added.
  Index rows() const { return rows_; }
  /// Returns the counts of each label: the rows that have it, that were predicted to have it, and both.
  std::span<const MatchCounts> labels() const { return labels_; }
  /// Returns the counts of all labels together, for micro-averaged shares.
  MatchCounts all() const {
    MatchCounts sum;
    for (const MatchCounts& label : labels_) sum += label;
    return sum;
  }
  /// Returns the F1 of all labels together.
  double f1_micro() const { return all().f1(); }
  /// Returns the mean of the labels' F1, each with the same weight. A label that is neither expected nor predicted has
  /// F1 0.
  double f1_macro() const {
    double sum = 0;
    for (const MatchCounts& label : labels_) sum += label.f1();
    return sum / static_cast<double>(labels_.size());
  }
  /// Returns the share of the rows whose labels are all predicted, and no others.
  double accuracy() const { return rows_ == 0 ? 0 : static_cast<double>(correct_rows_) / static_cast<double>(rows_); }

  /// Returns all counts as numbers. Several processes add them up and give the sums to add_sums() of new scores.
  std::vector<double> sums() const {
    std::vector<double> numbers{static_cast<double>(rows_), static_cast<double>(correct_rows_)};
    for (const MatchCounts& label : labels_) detail::append_numbers(label, numbers);
    return numbers;
  }
  /// Adds the counts of other rows, as sums() returns them. @throws ShapeError unless they have as many labels, and
  /// Error for a number that is not a count.
  void add_sums(std::span<const double> sums) {
    const std::size_t needed = row_numbers + detail::numbers_of_counts * labels_.size();
    require<ShapeError>(sums.size() == needed, "MultiLabelScores: ", sums.size(), " sums, but ", labels_.size(),
                        " labels have ", needed);
    MultiLabelScores other(*this);  // a copy, because a number may be refused
    other.rows_ += detail::count_from_number(sums[0]);
    other.correct_rows_ += detail::count_from_number(sums[1]);
    for (std::size_t i = 0; i < labels_.size(); ++i)
      other.labels_[i] += detail::counts_from_numbers(sums.subspan(row_numbers), i);
    *this = std::move(other);
  }

 private:
  static constexpr std::size_t row_numbers = 2;  // of the sums: rows and correct rows

  static std::size_t require_labels(Index labels) {
    require(labels >= 1, "MultiLabelScores: the number of labels must be at least 1, got ", labels);
    return static_cast<std::size_t>(labels);
  }

  std::vector<MatchCounts> labels_;
  Index rows_ = 0, correct_rows_ = 0;
};

}  // namespace heddle::train
