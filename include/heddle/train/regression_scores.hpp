// The mean squared error of a regression, and the correlation of its values with the expected ones, as for the
// similarity of sentences.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <heddle/base/error.hpp>
#include <heddle/base/shape.hpp>

namespace heddle::train {

/// Collects pairs of an expected and a predicted value. Takes 16 bytes for each pair.
class RegressionScores {
 public:
  /// Adds a pair. @throws Error for a value that is not finite or out of the range of float; pairs are numbered from 0.
  void add(double expected, double predicted) {
    check("expected", expected);
    check("predicted", predicted);
    expected_.push_back(expected);
    predicted_.push_back(predicted);
  }

  /// Returns the number of pairs.
  Index count() const { return static_cast<Index>(expected_.size()); }
  /// Returns the mean squared error; 0 without pairs.
  double mse() const {
    double sum = 0;
    for (std::size_t i = 0; i < expected_.size(); ++i)
      sum += (predicted_[i] - expected_[i]) * (predicted_[i] - expected_[i]);
    return expected_.empty() ? 0 : sum / static_cast<double>(expected_.size());
  }
  /// Returns Pearson's correlation, from -1 to 1, as scipy.stats.pearsonr; 0 for fewer than two pairs, and if all
  /// expected values or all predicted values are equal.
  double pearson() const { return correlation(expected_, predicted_); }
  /// Returns Spearman's correlation, as scipy.stats.spearmanr: Pearson's correlation of the ranks, where equal values
  /// have the mean of their ranks. Returns 0 where pearson() does.
  double spearman() const { return correlation(ranks(expected_), ranks(predicted_)); }

 private:
  void check(const char* name, double value) const {
    require(std::abs(value) <= double{std::numeric_limits<float>::max()}, "RegressionScores: the ", name,
            " value of pair ", expected_.size(), " is ", value, "; it must be finite and in the range of float");
  }

  // Replaces values by their deviations from the mean, divided by the largest one. Returns false if all are equal.
  static bool center(std::vector<double>& values) {
    if (values.empty()) return false;
    // The mean of the differences to a value has less rounding error than a mean that is far from 0.
    const double first = values[0];
    for (double& x : values) x -= first;
    const double mean = std::accumulate(values.begin(), values.end(), 0.) / static_cast<double>(values.size());
    double largest = 0;
    for (double& x : values) {
      x -= mean;
      largest = std::max(largest, std::abs(x));
    }
    if (largest == 0) return false;
    for (double& x : values) x /= largest;
    return true;
  }

  static double correlation(std::vector<double> a, std::vector<double> b) {
    if (!center(a) || !center(b)) return 0;
    const auto dot = [](const std::vector<double>& x, const std::vector<double>& y) {
      return std::inner_product(x.begin(), x.end(), y.begin(), 0.);
    };
    return std::clamp(dot(a, b) / std::sqrt(dot(a, a) * dot(b, b)), -1., 1.);
  }

  // Returns the rank of each value. Equal values have the mean of their ranks.
  static std::vector<double> ranks(const std::vector<double>& values) {
    std::vector<std::size_t> order(values.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t i, std::size_t j) { return values[i] < values[j]; });
    std::vector<double> ranks(values.size());
    for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
      while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
      for (std::size_t i = begin; i < end; ++i) ranks[order[i]] = static_cast<double>(begin + end - 1) / 2;
    }
    return ranks;
  }

  std::vector<double> expected_, predicted_;
};

}  // namespace heddle::train
