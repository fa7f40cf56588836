// Sums and maxima over the threads of a block of whole warps, in a fixed order, and the last block to finish, which
// adds what the others wrote. All threads of the block must call them, and each receives the result.
#pragma once
#include <limits>

#include "access.cuh"
#include "warp.cuh"

namespace heddle::cuda {

inline constexpr int most_warps = 32;  // the most warps of a block
inline constexpr float infinity = std::numeric_limits<float>::infinity();

// Reduces a value of each thread, first within warps, then over the warps' results. `nothing` is the identity of
// `reduce`.
template <class Reduce>
__device__ float reduce_block(float value, float nothing, Reduce reduce) {
  auto& of_warp = shared<float[most_warps]>();
  const int lane = static_cast<int>(threadIdx.x) % warp_size, warp = static_cast<int>(threadIdx.x) / warp_size;
  const int warps = static_cast<int>(blockDim.x) / warp_size;
  value = reduce(value);
  __syncthreads();  // until all threads have read the previous result
  if (lane == 0) of_warp[warp] = value;
  __syncthreads();
  return reduce(lane < warps ? of_warp[lane] : nothing);
}

__device__ inline float block_sum(float value) {
  return reduce_block(value, 0.f, [](float v) { return warp_sum(v); });
}
// Returns the largest value of the block to each of its threads; NaN is ignored.
__device__ inline float block_max(float value) {
  return reduce_block(value, -infinity, [](float v) { return warp_max(v); });
}

// Counts a block, and returns whether it is the last of `count`. The counter is 0 again afterwards. The threads of the
// last block see what all threads of the others wrote before the call.
__device__ inline bool finishes_last(unsigned* counter, int count) {
  auto& is_last = shared<bool>();
  __syncthreads();
  if (threadIdx.x == 0) {
    is_last = count_after_writes(counter) == static_cast<unsigned>(count) - 1;
    if (is_last) atomicExch(counter, 0u);
  }
  __syncthreads();
  return is_last;
}

}  // namespace heddle::cuda
