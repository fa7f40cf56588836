// Sums and maxima over the lanes of a warp, in a fixed order.
#pragma once
#include "shared.cuh"

namespace heddle::cuda {

// Returns the sum over the warp to every lane. Adds in butterfly order, so that all lanes receive the same bits.
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
