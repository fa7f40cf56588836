// Schedules: the factor on the learning rate for each step, counted from 0. They are plain functions of the step, so
// that a run can resume at any step: optimizer.step(schedule(step)). A negative step, and a setting outside of its
// range, is an Error.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include <heddle/base/error.hpp>

namespace heddle::optim {

/// Returns the factor of the linear warm-up that all schedules share: step / warmup in steps below `warmup`, then 1.
/// The learning rate is 0 in the first step of a warm-up. @throws Error for a negative step or warm-up.
inline double warm_up(std::int64_t step, std::int64_t warmup) {
  require(step >= 0, "schedule: the step must not be negative, got ", step);
  require(warmup >= 0, "schedule: warmup must not be negative, got ", warmup);
  return step < warmup ? static_cast<double>(step) / static_cast<double>(warmup) : 1.0;
}

/// A constant factor of 1 after the warm-up. Here and below, steps count from 0, and a warm-up of 0 means that
/// there is none.
struct Constant {
  std::int64_t warmup = 0;  ///< steps of the warm-up
  /// Returns the factor on the learning rate in a step.
  double operator()(std::int64_t step) const { return warm_up(step, warmup); }
};

/// Returns the steps from the end of the warm-up to `total`, at least 1. @throws Error for a `total` below 1.
inline double steps_of_decay(std::int64_t total, std::int64_t warmup) {
  require(total >= 1, "schedule: total must be at least 1, got ", total);
  return static_cast<double>(std::max<std::int64_t>(1, total - warmup));
}

/// A linear decay after the warm-up, from 1 to 0 at `total` and later (get_linear_schedule_with_warmup of Hugging Face
/// transformers).
struct Linear {
  std::int64_t total = 1;   ///< steps of the training
  std::int64_t warmup = 0;  ///< steps of the warm-up
  /// Returns the factor on the learning rate in a step.
  double operator()(std::int64_t step) const {
    const double all = steps_of_decay(total, warmup);
    const double factor = warm_up(step, warmup);
    return step < warmup ? factor : std::max(0.0, static_cast<double>(total - step) / all);
  }
};

/// A decay along half a cosine after the warm-up, from 1 to 0 at `total` (get_cosine_schedule_with_warmup of Hugging
/// Face transformers, which rises again later; this stays at 0).
struct Cosine {
  std::int64_t total = 1;   ///< steps of the training
  std::int64_t warmup = 0;  ///< steps of the warm-up
  /// Returns the factor on the learning rate in a step.
  double operator()(std::int64_t step) const {
    const double all = steps_of_decay(total, warmup), factor = warm_up(step, warmup);
    if (step < warmup) return factor;
    const double progress = std::min(1.0, static_cast<double>(step - warmup) / all);
    return std::max(0.0, 0.5 * (1 + std::cos(3.141592653589793 * progress)));
  }
};

/// The factor gamma^k times that of the warm-up, with k = step / `every`, rounded down (torch's StepLR).
struct Step {
  double gamma = 0.1;       ///< factor of each decrease
  std::int64_t every = 1;   ///< steps between two decreases
  std::int64_t warmup = 0;  ///< steps of the warm-up
  /// Returns the factor on the learning rate in a step.
  double operator()(std::int64_t step) const {
    require(every >= 1, "schedule: every must be at least 1, got ", every);
    require(gamma >= 0, "schedule: gamma must not be negative, got ", gamma);
    return warm_up(step, warmup) * std::pow(gamma, static_cast<double>(step / every));
  }
};

}  // namespace heddle::optim
