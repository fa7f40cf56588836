// Sums and maxima over the lanes of a warp and the threads of a block, in a fixed order.
#pragma once
#include "shared.cuh"

namespace heddle::cuda {

// Every lane receives the sum over its warp: butterfly order, so that all lanes agree to the bit.
__device__ inline float warp_sum(float value) {
  for (int distance = warp_size / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(all_lanes, value, distance);
  return value;
}

// Returns the largest value of the warp in every lane; NaN is ignored, as by fmaxf.
__device__ inline float warp_max(float value) {
  for (int distance = warp_size / 2; distance > 0; distance /= 2)
    value = fmaxf(value, __shfl_xor_sync(all_lanes, value, distance));
  return value;
}

}  // namespace heddle::cuda
