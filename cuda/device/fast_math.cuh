// The hardware's approximations, for results in bf16. Their errors are a few last bits of a float.
#pragma once
#include <cmath>

#include "launch.cuh"

namespace heddle::cuda {

// Returns 2^x.
__device__ inline float fast_exp2(float x) {
#ifdef __CUDACC__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}

// Returns 1 / x.
__device__ inline float fast_reciprocal(float x) {
#ifdef __CUDACC__
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return 1 / x;
#endif
}

}  // namespace heddle::cuda
