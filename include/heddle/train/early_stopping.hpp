// Ends a training run that no longer improves.
#pragma once
#include <cmath>
#include <limits>

#include <heddle/base/error.hpp>
#include <heddle/base/shape.hpp>

namespace heddle::train {

/// The options of EarlyStopping.
struct EarlyStoppingOptions {
  Index patience = 1;    ///< stop after this many values in a row without an improvement
  double min_delta = 0;  ///< a value below best() - min_delta is an improvement
};

/// A stopping criterion on a value that should fall, such as the validation loss after each epoch:
/// `if (stopping.add(loss)) break;`
class EarlyStopping {
 public:
  /// Takes the options. @throws Error for a patience below 1 and a min_delta that is negative or not a number.
  explicit EarlyStopping(EarlyStoppingOptions options = {}) : options_(options) {
    require(options.patience >= 1, "EarlyStopping: the patience must be at least 1, got ", options.patience);
    require(options.min_delta >= 0, "EarlyStopping: min_delta must not be negative, got ", options.min_delta);
  }

  /// Takes the next value. Returns whether to stop: the last `patience` values were no improvement. NaN is never an
  /// improvement.
  bool add(double value) {
    improved_ = value < best_ - options_.min_delta;
    if (improved_) best_ = value;
    values_since_best_ = improved_ ? 0 : values_since_best_ + 1;
    return stopped();
  }

  /// Restores the state of a run that is resumed: the values that best() and since_best() returned.
  /// @throws Error for a negative since_best, and for a best value that is NaN.
  void restore(double best, Index since_best) {
    require(!std::isnan(best) && since_best >= 0, "EarlyStopping: a best value of ", best, " and ", since_best,
            " values since it are not a valid state");
    best_ = best;
    values_since_best_ = since_best;
    improved_ = since_best == 0 && best < std::numeric_limits<double>::infinity();
  }

  /// Returns whether the last `patience` values were no improvement, as add() does: true after a restore of a run that
  /// had stopped.
  bool stopped() const { return values_since_best_ >= options_.patience; }
  /// Returns whether the last value was an improvement: the moment to copy the weights.
  bool improved() const { return improved_; }
  /// Returns the lowest value that was an improvement; infinity before there is one.
  double best() const { return best_; }
  /// Returns the number of values since the last improvement.
  Index since_best() const { return values_since_best_; }

 private:
  EarlyStoppingOptions options_;
  double best_ = std::numeric_limits<double>::infinity();
  Index values_since_best_ = 0;
  bool improved_ = false;
};

}  // namespace heddle::train
