// A curve of a long run in bounded memory.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <heddle/base/error.hpp>
#include <heddle/base/shape.hpp>

namespace heddle::train {

/// Values of successive steps, averaged over intervals of equal length. When the curve is full, the interval doubles
/// and neighboring points are merged, so that a run has fewer than 512 points, and from step 256 on at least 256.
class Curve {
 public:
  static constexpr std::size_t limit = 512;  ///< points of a full curve

  Curve() = default;
  /// Restores a curve from the values of interval(), means(), pending_sum() and pending_count(). @throws Error for
  /// values that these functions cannot return.
  Curve(Index interval, std::vector<double> means, double pending_sum, Index pending_count)
      : interval_(interval), means_(std::move(means)), sum_(pending_sum), count_(pending_count) {
    const bool is_power_of_2 = interval_ >= 1 && std::has_single_bit(static_cast<std::uint64_t>(interval_));
    const bool is_full_enough = means_.size() < limit && (interval_ == 1 || means_.size() >= limit / 2);
    const bool is_within_interval = count_ >= 0 && count_ < interval_ && (count_ > 0 || sum_ == 0);
    require(is_power_of_2 && is_full_enough && is_within_interval, "Curve: an interval of ", interval_, " with ",
            means_.size(), " points and ", count_, " pending values with the sum ", sum_,
            " is not the state of a curve");
  }

  /// Adds the value of the next step.
  void add(double value) {
    sum_ += value;
    if (++count_ < interval_) return;
    means_.push_back(sum_ / static_cast<double>(count_));
    sum_ = 0;
    count_ = 0;
    if (means_.size() < limit) return;
    for (std::size_t i = 0; i < limit / 2; ++i) means_[i] = (means_[2 * i] + means_[2 * i + 1]) / 2;
    means_.resize(limit / 2);
    interval_ *= 2;
  }

  Index interval() const { return interval_; }  ///< steps for each point
  /// The points: means()[i] is the mean of steps i * interval() + 1 to (i + 1) * interval().
  const std::vector<double>& means() const { return means_; }
  double pending_sum() const { return sum_; }     ///< the sum of the values after the last whole interval
  Index pending_count() const { return count_; }  ///< the number of these values

 private:
  Index interval_ = 1;
  std::vector<double> means_;
  double sum_ = 0;
  Index count_ = 0;
};

}  // namespace heddle::train
