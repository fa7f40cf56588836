// The mean loss of a classifier on a data set, with its confusion matrix.
#pragma once
#include <string>
#include <vector>

#include <heddle/train/confusion_matrix.hpp>

namespace heddle::train {

/// A measure of a model's results on a data set, such as its accuracy.
struct Metric {
  std::string name;  ///< as in a metrics file
  double value;      ///< its value
};

/// Sums over the rows of a data set.
struct Scores {
  ConfusionMatrix confusion;  ///< rows by label and prediction
  double loss_sum = 0;        ///< sum of the rows' losses
  Index rows = 0;             ///< rows in loss_sum

  /// Starts without rows. @throws Error for fewer than two classes, and for more than 10,000.
  explicit Scores(int classes) : confusion(classes) {}

  /// Adds a batch of `count` rows and its mean loss.
  void add_loss(double mean, Index count) {
    loss_sum += mean * static_cast<double>(count);
    rows += count;
  }
  /// Returns the mean loss of all rows; 0 without rows.
  double loss() const { return rows ? loss_sum / static_cast<double>(rows) : 0; }
  /// Returns accuracy, precision and recall.
  std::vector<Metric> metrics() const {
    return {{"accuracy", confusion.accuracy()}, {"precision", confusion.precision()}, {"recall", confusion.recall()}};
  }
};

}  // namespace heddle::train
