// Schedules: the factor on the learning rate for each step, counted from 0. They are plain functions of the step, so
// that a run can resume at any step: optimizer.step(schedule(step)).
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

namespace heddle::optim {

/// Returns the factor of the linear warm-up that all schedules share: step / warmup in steps below `warmup`, then 1.
/// With a warm-up, the learning rate is 0 in the first step.
inline double warm_up(std::int64_t step, std::int64_t warmup) {
  return step < warmup ? static_cast<double>(step) / static_cast<double>(warmup) : 1.0;
}

/// A constant factor of 1 after the warm-up. Here and below, steps count from 0, and a warm-up of 0 means that
/// there is none.
struct Constant {
  std::int64_t warmup = 0;  ///< steps of the warm-up
  /// Returns the factor on the learning rate in a step.
  double operator()(std::int64_t step) const { return warm_up(step, warmup); }
};

/// A linear decay after the warm-up, from 1 to 0 at `total` (get_linear_schedule_with_warmup of Hugging Face
/// transformers).
struct Linear {
  std::int64_t total = 1;   ///< steps of the training
  std::int64_t warmup = 0;  ///< steps of the warm-up
  /// Returns the factor on the learning rate in a step.
  double operator()(std::int64_t step) const {
    if (step < warmup) return warm_up(step, warmup);
    return std::max(0.0,
                    static_cast<double>(total - step) / static_cast<double>(std::max<std::int64_t>(1, total - warmup)));
  }
};

/// A decay along half a cosine after the warm-up, from 1 to 0 at `total` (get_cosine_schedule_with_warmup of Hugging
/// Face transformers).
struct Cosine {
  std::int64_t total = 1;   ///< steps of the training
  std::int64_t warmup = 0;  ///< steps of the warm-up
  /// Returns the factor on the learning rate in a step.
  double operator()(std::int64_t step) const {
    if (step < warmup) return warm_up(step, warmup);
    const double progress =
        static_cast<double>(step - warmup) / static_cast<double>(std::max<std::int64_t>(1, total - warmup));
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
    return warm_up(step, warmup) * std::pow(gamma, static_cast<double>(step / std::max<std::int64_t>(1, every)));
  }
};

}  // namespace heddle::optim
