// Number formats and roundings of a GPU: NaN, subnormal numbers, bf16, f16 and tf32 (PTX ISA, "Fundamental Types",
// "Alternate Floating-Point Data Formats", "Floating Point Instructions").
#pragma once
#include <immintrin.h>

#include <bit>
#include <cmath>
#include <limits>

#include "interpreter.hpp"

namespace heddle::ptx {

// Rounding modes, numbered as in MXCSR: .rn and .rni, .rm and .rmi, .rp and .rpi, .rz and .rzi.
enum Rounding : int { to_nearest, downward, upward, toward_zero };

// Returns x, or the only NaN that a GPU's arithmetic produces.
inline float canonical_nan(float x) { return x != x ? std::bit_cast<float>(0x7fffffffu) : x; }
inline double canonical_nan(double x) { return x != x ? std::bit_cast<double>(0x7fffffffffffffffull) : x; }

// Rounds to float.
inline float to_float(double x) { return canonical_nan(static_cast<float>(x)); }

// Replaces a subnormal number by a zero of the same sign (.ftz).
inline float flush_subnormal(float x) {
  return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.f, x) : x;
}

inline float from_bf16(u16 x) { return std::bit_cast<float>(u32{x} << 16); }

// Rounds to nearest, ties to even.
inline u16 to_bf16(float x) {
  const u32 bits = std::bit_cast<u32>(x);
  const u32 rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return static_cast<u16>(x != x ? 0x7fffu : rounded);
}

inline float from_f16(u16 x) { return _cvtsh_ss(x); }
inline u16 to_f16(float x) { return x != x ? 0x7fff : static_cast<u16>(_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT)); }

// Rounds to the 10 bits of a tf32's mantissa, to nearest, ties away from zero (cvt.rna).
inline u32 to_tf32(float x) {
  const u32 bits = std::bit_cast<u32>(x);
  const bool is_finite = (bits & 0x7f800000) != 0x7f800000;
  const u32 rounded = (bits + 0x1000) & 0xffffe000;
  return is_finite ? rounded : x != x ? 0x7fffffffu : bits;
}

// Reads a register as tf32. The tensor core ignores the last 13 bits.
inline float from_tf32(u32 x) { return std::bit_cast<float>(x & 0xffffe000u); }

// Computes 2^x within about one unit in the last place, in operations that can be vectorized. Splits x into an integer
// and a fraction in [-1/2, 1/2], for which the Taylor polynomial suffices. The power of the integer is a product of
// two, because it may be subnormal.
inline float exp2_of(float x) {
  const float limited = x > 200 ? 200.f : x < -200 ? -200.f : x;
  const float integer = std::nearbyintf(limited);
  const float fraction = limited - integer;
  float p = 1.5252733804e-5f;
  p = __builtin_fmaf(p, fraction, 1.5403530393e-4f);
  p = __builtin_fmaf(p, fraction, 1.3333558146e-3f);
  p = __builtin_fmaf(p, fraction, 9.6181291076e-3f);
  p = __builtin_fmaf(p, fraction, 5.5504108665e-2f);
  p = __builtin_fmaf(p, fraction, 2.4022650696e-1f);
  p = __builtin_fmaf(p, fraction, 6.9314718056e-1f);
  p = __builtin_fmaf(p, fraction, 1.f);
  const int exponent = static_cast<int>(integer);
  const int half = exponent / 2;
  const auto power = [](int n) { return std::bit_cast<float>(static_cast<u32>(n + 127) << 23); };
  const float result = p * power(half) * power(exponent - half);
  return x != x ? x : result;
}

}  // namespace heddle::ptx
