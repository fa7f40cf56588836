#pragma once
#include "fast_math.cuh"

namespace heddle::cuda {

// The standard normal distribution at x, for GELU in bf16. CUDA's erf selects each of its coefficients by the size of
// x, which takes longer than the accesses to memory. Formula 7.1.26 of Abramowitz and Stegun has one set of
// coefficients and an absolute error of 1.5e-7, about that of erf(x) + 1 in float. The distribution and its density
// share the exponential.
class FastNormal {
 public:
  __device__ explicit FastNormal(float x) : decay_(fast_exp2(x * x * -0.72134752f)) {  // exp(-x^2 / 2)
    const float t = fast_reciprocal(fabsf(x) * 0.231641888f + 1);
    const float half_erfc =
        decay_ * t * ((((0.530702715f * t - 0.726576014f) * t + 0.710706871f) * t - 0.142248368f) * t + 0.127414796f);
    distribution_ = x < 0 ? half_erfc : 1 - half_erfc;
  }
  __device__ float distribution() const { return distribution_; }
  __device__ float density() const { return decay_ * 0.39894228f; }

 private:
  float decay_, distribution_;
};

}  // namespace heddle::cuda
