// Loops over the 32 lanes of a warp, instructions that apply a function to each lane, and predicate registers. A mask
// has one bit per lane, and so has a predicate register.
#pragma once
#include <type_traits>

#include "interpreter.hpp"

namespace heddle::ptx {

template <class T>
inline constexpr u32 width_of = sizeof(T) * 8;
template <class T>
inline constexpr bool is_float = std::is_floating_point_v<T>;
template <class T>
using Unsigned = std::make_unsigned_t<T>;

inline constexpr u32 all = ~0u;  // the mask of a whole warp

// Sets d[lane] = f(lane) for the lanes of `mask`. Calls f for all 32 lanes, so that the loop can be vectorized: f must
// not trap. Registers are identical or disjoint, so that iterations are independent even if f reads d.
template <class T, class F>
[[gnu::always_inline]] inline void each(T* d, u32 mask, F&& f) {
  if (mask == all) {
#pragma GCC ivdep
    for (int lane = 0; lane < 32; ++lane) d[lane] = f(lane);
  } else {
#pragma GCC ivdep
    for (int lane = 0; lane < 32; ++lane) {
      const T result = f(lane);
      d[lane] = (mask >> lane & 1) ? result : d[lane];
    }
  }
}

// Calls f(lane) for the lanes of `mask` only, in ascending order: for functions that are slow, trap or have side
// effects.
template <class F>
[[gnu::always_inline]] inline void lanes(u32 mask, F&& f) {
  while (mask) {
    const int lane = __builtin_ctz(mask);
    mask &= mask - 1;
    f(lane);
  }
}

// Returns the mask of the lanes for which f(lane) holds.
template <class F>
[[gnu::always_inline]] inline u32 mask_of(F&& f) {
  u32 mask = 0;
#pragma GCC ivdep
  for (int lane = 0; lane < 32; ++lane) mask |= (f(lane) ? 1u : 0u) << lane;
  return mask;
}

// Instructions whose operands have one type. Those that are slow or may trap visit only the lanes of the mask.

template <class T, class F>
void unary(Warp& warp, const Instruction& instruction, u32 mask) {
  const T* a = register_lanes<T>(warp, instruction.a);
  T* d = register_lanes<T>(warp, instruction.d);
  each(d, mask, [&](int lane) { return F()(a[lane]); });
}

template <class T, class F>
void binary(Warp& warp, const Instruction& instruction, u32 mask) {
  const T* a = register_lanes<T>(warp, instruction.a);
  const T* b = register_lanes<T>(warp, instruction.b);
  T* d = register_lanes<T>(warp, instruction.d);
  each(d, mask, [&](int lane) { return F()(a[lane], b[lane]); });
}

template <class T, class F>
void ternary(Warp& warp, const Instruction& instruction, u32 mask) {
  const T* a = register_lanes<T>(warp, instruction.a);
  const T* b = register_lanes<T>(warp, instruction.b);
  const T* c = register_lanes<T>(warp, instruction.c);
  T* d = register_lanes<T>(warp, instruction.d);
  each(d, mask, [&](int lane) { return F()(a[lane], b[lane], c[lane]); });
}

template <class T, class F>
void unary_slow(Warp& warp, const Instruction& instruction, u32 mask) {
  const T* a = register_lanes<T>(warp, instruction.a);
  T* d = register_lanes<T>(warp, instruction.d);
  lanes(mask, [&](int lane) { d[lane] = F()(a[lane]); });
}

template <class T, class F>
void binary_slow(Warp& warp, const Instruction& instruction, u32 mask) {
  const T* a = register_lanes<T>(warp, instruction.a);
  const T* b = register_lanes<T>(warp, instruction.b);
  T* d = register_lanes<T>(warp, instruction.d);
  lanes(mask, [&](int lane) { d[lane] = F()(a[lane], b[lane]); });
}

inline u32 read_predicate(Warp& warp, const Operand& operand) {
  const u32 predicate = operand.constant ? operand.offset : warp.pred[operand.offset];
  return operand.negated ? ~predicate : predicate;
}

// Sets the bits of `mask` in a predicate register to those of `value`. Does nothing if the operand is absent.
inline void write_predicate(Warp& warp, const Operand& operand, u32 mask, u32 value) {
  if (operand.absent) return;
  u32& predicate = warp.pred[operand.offset];
  predicate = (predicate & ~mask) | (value & mask);
}

}  // namespace heddle::ptx
