// Moves and conversions (PTX ISA, "Data Movement and Conversion Instructions: mov", "cvt").
#pragma once
#include <bit>
#include <cstring>
#include <limits>

#include "lanes.hpp"
#include "numbers.hpp"

namespace heddle::ptx {

template <class T>
void mov(Warp& warp, const Instruction& instruction, u32 mask) {
  const T* a = register_lanes<T>(warp, instruction.a);
  T* d = register_lanes<T>(warp, instruction.d);
  each(d, mask, [&](int lane) { return a[lane]; });
}

// mov d, {v[0], ...}: packs n parts, the lowest first.
template <class Part, class Whole, int n>
void pack(Warp& warp, const Instruction& instruction, u32 mask) {
  const Part* parts[n];
  for (int i = 0; i < n; ++i) parts[i] = register_lanes<Part>(warp, instruction.v[i]);
  Whole* d = register_lanes<Whole>(warp, instruction.d);
  each(d, mask, [&](int lane) {
    Whole whole = 0;
    for (int i = 0; i < n; ++i) whole |= Whole(parts[i][lane]) << (i * width_of<Part>);
    return whole;
  });
}

// mov {v[0], ...}, a: unpacks n parts.
template <class Part, class Whole, int n>
void unpack(Warp& warp, const Instruction& instruction, u32 mask) {
  Whole a[32];
  std::memcpy(a, register_lanes<Whole>(warp, instruction.a), sizeof(a));
  for (int i = 0; i < n; ++i) {
    if (instruction.v[i].absent) continue;
    Part* part = register_lanes<Part>(warp, instruction.v[i]);
    each(part, mask, [&](int lane) { return static_cast<Part>(a[lane] >> (i * width_of<Part>)); });
  }
}

// Converts between integers: registers of types DR and SR, which may be wider than the types DT and ST of the
// instruction.
template <class DR, class DT, class SR, class ST>
void convert(Warp& warp, const Instruction& instruction, u32 mask) {
  const SR* a = register_lanes<SR>(warp, instruction.a);
  DR* d = register_lanes<DR>(warp, instruction.d);
  each(d, mask, [&](int lane) { return static_cast<DR>(static_cast<DT>(static_cast<ST>(a[lane]))); });
}

// Converts by a function from S to D.
template <class D, class S, class F>
void convert_by(Warp& warp, const Instruction& instruction, u32 mask) {
  const S* a = register_lanes<S>(warp, instruction.a);
  D* d = register_lanes<D>(warp, instruction.d);
  each(d, mask, [&](int lane) { return F()(a[lane]); });
}

template <class D, class S, class F>
void convert_by_slow(Warp& warp, const Instruction& instruction, u32 mask) {
  const S* a = register_lanes<S>(warp, instruction.a);
  D* d = register_lanes<D>(warp, instruction.d);
  lanes(mask, [&](int lane) { d[lane] = F()(a[lane]); });
}

struct Bf16 {
  u16 operator()(float a) const { return to_bf16(a); }
};
struct F16 {
  u16 operator()(float a) const { return to_f16(a); }
};
struct Tf32 {
  u32 operator()(float a) const { return to_tf32(a); }
};
struct OfBf16 {
  float operator()(u16 a) const { return from_bf16(a); }
};
struct OfF16 {
  float operator()(u16 a) const { return from_f16(a); }
};
struct Narrow {
  float operator()(double a) const { return to_float(a); }
};
struct Widen {
  double operator()(float a) const { return canonical_nan(double{a}); }
};

// An integer as a floating-point number of type D.
template <class D>
struct As {
  template <class S>
  D operator()(S a) const {
    return static_cast<D>(a);
  }
};

// Clamps to [0, 1]. NaN and -0 become +0 (.sat).
struct Saturate {
  float operator()(float a) const { return !(a > 0) ? 0.f : a > 1 ? 1.f : a; }
};

// Rounds to an integral value.
template <int mode>
struct RoundTo {
  template <class T>
  T operator()(T a) const {
    if constexpr (mode == to_nearest) return canonical_nan(std::nearbyint(a));
    if constexpr (mode == downward) return canonical_nan(std::floor(a));
    if constexpr (mode == upward) return canonical_nan(std::ceil(a));
    return canonical_nan(std::trunc(a));
  }
};

// Rounds to an integer of type D, and clamps to its range. NaN becomes 0 if both types have at most 32 bits, else the
// top bit alone.
template <class D, int mode>
struct ToInt {
  template <class S>
  D operator()(S a) const {
    using Limits = std::numeric_limits<D>;
    if (a != a) return sizeof(D) == 8 || sizeof(S) == 8 ? static_cast<D>(1ull << (width_of<D> - 1)) : D(0);
    const S rounded = RoundTo<mode>()(a);
    if (rounded <= static_cast<S>(Limits::min())) return Limits::min();
    if (rounded >= static_cast<S>(Limits::max())) return Limits::max();
    return static_cast<D>(rounded);
  }
};

// cvt of a and b to a pair, whose upper half is a.
inline void pack_bf16x2(Warp& warp, const Instruction& instruction, u32 mask) {
  const float* a = register_lanes<float>(warp, instruction.a);
  const float* b = register_lanes<float>(warp, instruction.b);
  u32* d = register_lanes<u32>(warp, instruction.d);
  each(d, mask, [&](int lane) { return u32{to_bf16(a[lane])} << 16 | to_bf16(b[lane]); });
}

inline void pack_f16x2(Warp& warp, const Instruction& instruction, u32 mask) {
  const float* a = register_lanes<float>(warp, instruction.a);
  const float* b = register_lanes<float>(warp, instruction.b);
  u32* d = register_lanes<u32>(warp, instruction.d);
  lanes(mask, [&](int lane) { d[lane] = u32{to_f16(a[lane])} << 16 | to_f16(b[lane]); });
}

}  // namespace heddle::ptx
