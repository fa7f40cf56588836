// bf16: the upper half of a float. It is a storage type: kernels compute in float and round once, when they store.
#pragma once
#include <heddle/base/build.hpp>

namespace heddle {

/// A 16-bit floating-point number with the exponent range of float and 8 significant bits. The conversion to float is
/// exact and implicit, the conversion from float explicit.
struct bf16 {
  std::uint16_t bits;  ///< the upper half of a float's bits

  bf16() = default;

  /// Rounds to nearest, ties to even. Every NaN becomes the one that a GPU's conversion gives, 0x7fff.
  // Uses __builtin_bit_cast because nvcc rejects std::bit_cast in device code.
  HEDDLE_HD explicit bf16(float value) {
#ifdef __CUDA_ARCH__
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
    const auto word = __builtin_bit_cast(std::uint32_t, value);
    const bool nan = (word & 0x7fffffffu) > 0x7f800000u;
    const std::uint32_t rounded = word + 0x7fffu + (word >> 16 & 1u);
    bits = static_cast<std::uint16_t>(nan ? 0x7fffu : rounded >> 16);
#endif
  }
  /// Rounds to float first, then to bf16.
  HEDDLE_HD explicit bf16(double value) : bf16(static_cast<float>(value)) {}

  /// Returns the value as a float, which is exact.
  HEDDLE_HD operator float() const { return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16); }
};

}  // namespace heddle
