// bf16: the upper half of a float. Storage only: every kernel computes in float and rounds once, when it stores.
#pragma once
#include <cstdint>

#ifndef HEDDLE_HD
#ifdef __CUDACC__
#define HEDDLE_HD __host__ __device__
#else
#define HEDDLE_HD
#endif
#endif

namespace heddle {

// To and from float by casts; to float implicitly, which is exact. (std::bit_cast is no function of nvcc's device code; what
// it calls is.)
struct bf16 {
  std::uint16_t bits;

  bf16() = default;

  // Rounds to nearest, ties to even; a NaN stays a (quiet) NaN.
  HEDDLE_HD explicit bf16(float value) {
#ifdef __CUDA_ARCH__
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
    const auto word = __builtin_bit_cast(std::uint32_t, value);
    const bool nan = (word & 0x7fffffffu) > 0x7f800000u;
    const std::uint32_t rounded = word + 0x7fffu + (word >> 16 & 1u);
    bits = static_cast<std::uint16_t>(nan ? word >> 16 | 0x40u : rounded >> 16);
#endif
  }
  // Rounds twice, by way of float.
  HEDDLE_HD explicit bf16(double value) : bf16(static_cast<float>(value)) {}

  HEDDLE_HD operator float() const { return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16); }
};

// What sums and functions of T are computed in: float for bf16, T itself otherwise.
template <class T>
struct AccumulateIn {
  using type = T;
};
template <>
struct AccumulateIn<bf16> {
  using type = float;
};
template <class T>
using Acc = typename AccumulateIn<T>::type;

}  // namespace heddle
