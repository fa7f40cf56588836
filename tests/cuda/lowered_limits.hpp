// Lowers the limits above which the work of a launch is divided into parts.
#pragma once
#include <utility>

#include "device/limits.cuh"

namespace heddle::testing {

// A scope in which other limits hold.
class LoweredLimits {
 public:
  explicit LoweredLimits(const cuda::Limits& limits) : before_(std::exchange(cuda::limits, limits)) {}
  LoweredLimits(const LoweredLimits&) = delete;
  ~LoweredLimits() { cuda::limits = before_; }

 private:
  const cuda::Limits before_;
};

}  // namespace heddle::testing
