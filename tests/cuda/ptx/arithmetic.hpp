// Integer and floating-point arithmetic (PTX ISA, "Integer Arithmetic Instructions", "Floating Point Instructions"). A
// type such as Add computes the result of one lane; binary<T, Add> executes the instruction for a warp. Integers wrap
// around.
#pragma once
#include <functional>

#include "lanes.hpp"
#include "numbers.hpp"

namespace heddle::ptx {

// Declare the integer type of the same signedness and twice the width. They have no definition.
u32 widened(u16);
s32 widened(s16);
u64 widened(u32);
s64 widened(s32);
unsigned __int128 widened(u64);
__int128 widened(s64);
template <class T>
using Wide = decltype(widened(T()));

struct Add {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (is_float<T>)
      return canonical_nan(a + b);
    else
      return static_cast<T>(Unsigned<T>(a) + Unsigned<T>(b));
  }
};

struct Sub {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (is_float<T>)
      return canonical_nan(a - b);
    else
      return static_cast<T>(Unsigned<T>(a) - Unsigned<T>(b));
  }
};

// mul.lo, and mul of floating-point numbers.
struct MulLo {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (is_float<T>)
      return canonical_nan(a * b);
    else
      return static_cast<T>(u64(Unsigned<T>(a)) * u64(Unsigned<T>(b)));
  }
};

struct MulHi {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>((Wide<T>(a) * Wide<T>(b)) >> width_of<T>);
  }
};

struct MadLo {
  template <class T>
  T operator()(T a, T b, T c) const {
    return static_cast<T>(u64(Unsigned<T>(a)) * u64(Unsigned<T>(b)) + u64(Unsigned<T>(c)));
  }
};

struct MadHi {
  template <class T>
  T operator()(T a, T b, T c) const {
    return static_cast<T>(Unsigned<T>(MulHi()(a, b)) + Unsigned<T>(c));
  }
};

struct Fma {
  float operator()(float a, float b, float c) const { return canonical_nan(__builtin_fmaf(a, b, c)); }
  double operator()(double a, double b, double c) const { return canonical_nan(__builtin_fma(a, b, c)); }
};

// The result of a division by zero is unspecified. Here all bits of the quotient are set, and the remainder is the
// dividend.
struct Div {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (is_float<T>) {
      return canonical_nan(a / b);
    } else {
      if (b == 0) return static_cast<T>(~T(0));
      if constexpr (std::is_signed_v<T>)
        if (b == T(-1)) return static_cast<T>(-Unsigned<T>(a));
      return static_cast<T>(a / b);
    }
  }
};

struct Rem {
  template <class T>
  T operator()(T a, T b) const {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>)
      if (b == T(-1)) return 0;
    return static_cast<T>(a % b);
  }
};

// min and max ignore a single NaN operand. They treat -0 as less than +0.
struct Min {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (is_float<T>) {
      const T least = a == b ? (std::signbit(a) ? a : b) : (a < b ? a : b);
      return a != a ? canonical_nan(b) : b != b ? a : least;
    } else {
      return a < b ? a : b;
    }
  }
};

struct Max {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (is_float<T>) {
      const T greatest = a == b ? (std::signbit(a) ? b : a) : (a > b ? a : b);
      return a != a ? canonical_nan(b) : b != b ? a : greatest;
    } else {
      return a > b ? a : b;
    }
  }
};

// min.NaN and max.NaN return NaN if an operand is NaN.
struct MinNan {
  template <class T>
  T operator()(T a, T b) const {
    return (a != a || b != b) ? canonical_nan(a + b) : Min()(a, b);
  }
};

struct MaxNan {
  template <class T>
  T operator()(T a, T b) const {
    return (a != a || b != b) ? canonical_nan(a + b) : Max()(a, b);
  }
};

struct Neg {
  template <class T>
  T operator()(T a) const {
    if constexpr (std::is_same_v<T, float>)
      return canonical_nan(std::bit_cast<float>(std::bit_cast<u32>(a) ^ 0x80000000u));
    else if constexpr (is_float<T>)
      return -a;
    else
      return static_cast<T>(-Unsigned<T>(a));
  }
};

struct Abs {
  template <class T>
  T operator()(T a) const {
    if constexpr (is_float<T>)
      return canonical_nan(std::fabs(a));
    else
      return static_cast<T>(a < 0 ? -Unsigned<T>(a) : a);
  }
};

// neg and abs if options.keep_nan is set: they change only the sign, also that of NaN.
using FlipSign = std::negate<>;
struct ClearSign {
  template <class T>
  T operator()(T a) const {
    return std::fabs(a);
  }
};

// Takes the sign of a and the magnitude of b.
struct Copysign {
  template <class T>
  T operator()(T a, T b) const {
    return std::copysign(b, a);
  }
};

struct Sqrt {
  template <class T>
  T operator()(T a) const {
    return canonical_nan(std::sqrt(a));
  }
};

struct Rcp {
  template <class T>
  T operator()(T a) const {
    return canonical_nan(T(1) / a);
  }
};

// The approximations (.approx). All but ex2 are computed in double and rounded once.

struct Ex2 {
  float operator()(float a) const { return canonical_nan(exp2_of(a)); }
};
struct Lg2 {
  float operator()(float a) const { return to_float(std::log2(double{a})); }
};
struct Rsqrt {
  float operator()(float a) const { return to_float(1 / std::sqrt(double{a})); }
};
struct Sin {
  float operator()(float a) const { return to_float(std::sin(double{a})); }
};
struct Cos {
  float operator()(float a) const { return to_float(std::cos(double{a})); }
};
struct Tanh {
  float operator()(float a) const { return to_float(std::tanh(double{a})); }
};

// A function with the qualifier .ftz.
template <class F>
struct Ftz {
  float operator()(float a) const { return flush_subnormal(F()(flush_subnormal(a))); }
};
using Ex2Ftz = Ftz<Ex2>;
using Lg2Ftz = Ftz<Lg2>;
using RcpFtz = Ftz<Rcp>;

// An approximation that is off by up to `most` units in the last place, depending on a hash of the result and
// options.jitter. PTX allows an error of two units for ex2, but expf would then exceed the error of one unit that
// NVIDIA states for it.
template <class F, int most>
struct Jitter {
  float operator()(float a) const {
    const float result = F()(a);
    const u32 bits = std::bit_cast<u32>(result);
    const u32 hash = ((bits ^ options.jitter * 40503u) * 2654435761u) >> 16;
    const bool is_special = (bits & 0x7f800000) == 0x7f800000 || (bits & 0x7fffffff) < 0x00800010;
    return is_special || result == 1 ? result : std::bit_cast<float>(bits + hash % (2 * most + 1) - most);
  }
};

template <class T>
void mul_wide(Warp& warp, const Instruction& instruction, u32 mask) {
  using W = Wide<T>;
  const T* a = register_lanes<T>(warp, instruction.a);
  const T* b = register_lanes<T>(warp, instruction.b);
  W* d = register_lanes<W>(warp, instruction.d);
  each(d, mask, [&](int lane) { return static_cast<W>(W(a[lane]) * W(b[lane])); });
}

template <class T>
void mad_wide(Warp& warp, const Instruction& instruction, u32 mask) {
  using W = Wide<T>;
  const T* a = register_lanes<T>(warp, instruction.a);
  const T* b = register_lanes<T>(warp, instruction.b);
  const W* c = register_lanes<W>(warp, instruction.c);
  W* d = register_lanes<W>(warp, instruction.d);
  each(d, mask, [&](int lane) { return static_cast<W>(Unsigned<W>(W(a[lane]) * W(b[lane])) + Unsigned<W>(c[lane])); });
}

// Sets the rounding mode of the host's vector unit, and restores it at the end of the scope.
class RoundingScope {
 public:
  explicit RoundingScope(u8 mode) : saved_(_mm_getcsr()) { set((saved_ & ~0x6000u) | u32{mode} << 13); }
  ~RoundingScope() { set(saved_); }
  RoundingScope(const RoundingScope&) = delete;
  RoundingScope& operator=(const RoundingScope&) = delete;

 private:
  // The compiler does not move accesses to memory across the assembly.
  static void set(unsigned mxcsr) { asm volatile("ldmxcsr %0" ::"m"(mxcsr) : "memory"); }

  unsigned saved_;
};

// Sets d[lane] = f(lane) for the lanes of `mask`, with the rounding mode of the instruction. f must read its operands
// from memory.
template <class T, class F>
void each_rounded(T* d, const Instruction& instruction, u32 mask, F&& f) {
  T results[32];
  {
    const RoundingScope scope(instruction.modifier);
    for (int lane = 0; lane < 32; ++lane) results[lane] = f(lane);
    asm volatile("" ::"r"(results) : "memory");  // the results are in memory before the rounding mode is restored
  }
  each(d, mask, [&](int lane) { return results[lane]; });
}

// Instructions with the qualifier .rm, .rp or .rz.
template <class T, class F>
void binary_rounded(Warp& warp, const Instruction& instruction, u32 mask) {
  const T* a = register_lanes<T>(warp, instruction.a);
  const T* b = register_lanes<T>(warp, instruction.b);
  T* d = register_lanes<T>(warp, instruction.d);
  each_rounded(d, instruction, mask, [&](int lane) { return F()(a[lane], b[lane]); });
}

template <class T, class F>
void ternary_rounded(Warp& warp, const Instruction& instruction, u32 mask) {
  const T* a = register_lanes<T>(warp, instruction.a);
  const T* b = register_lanes<T>(warp, instruction.b);
  const T* c = register_lanes<T>(warp, instruction.c);
  T* d = register_lanes<T>(warp, instruction.d);
  each_rounded(d, instruction, mask, [&](int lane) { return F()(a[lane], b[lane], c[lane]); });
}

}  // namespace heddle::ptx
