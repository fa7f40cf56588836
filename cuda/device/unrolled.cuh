// Loops that the compiler unrolls for any length: registers cannot be indexed, so an array that a loop variable indexes
// would be in memory.
#pragma once
#include <utility>

#include "launch.cuh"

namespace heddle::cuda {

// Calls f(0), f(1), ..., f(count - 1).
template <int count, class F>
__device__ void unrolled(F&& f) {
  [&]<int... i>(std::integer_sequence<int, i...>) { (f(i), ...); }
  (std::make_integer_sequence<int, count>());
}

}  // namespace heddle::cuda
