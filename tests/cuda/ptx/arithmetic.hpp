// What each instruction does to 32 lanes.
#pragma once
#include <immintrin.h>

#include <cmath>
#include <limits>

#include "interpreter.hpp"

namespace heddle::ptx {

inline constexpr u32 all = ~0u;
template <class T>
inline constexpr u32 width_of = sizeof(T) * 8;

// d[i] = f(i) for the lanes of the mask, in vectors. f must not trap.
template <class T, class F>
[[gnu::always_inline]] inline void each(T* d, u32 m, F&& f) {
  if (m == all) {
#pragma GCC ivdep
    for (int i = 0; i < 32; ++i) d[i] = f(i);
  } else {
#pragma GCC ivdep
    for (int i = 0; i < 32; ++i) {
      const T r = f(i);
      d[i] = (m >> i & 1) ? r : d[i];
    }
  }
}
// The same, lane by lane, for costly or trapping functions.
template <class F>
[[gnu::always_inline]] inline void lanes(u32 m, F&& f) {
  while (m) {
    const int i = __builtin_ctz(m);
    m &= m - 1;
    f(i);
  }
}
template <class F>
[[gnu::always_inline]] inline u32 mask_of(F&& f) {
  u32 r = 0;
#pragma GCC ivdep
  for (int i = 0; i < 32; ++i) r |= (f(i) ? 1u : 0u) << i;
  return r;
}

inline float canon(float x) { return x != x ? std::bit_cast<float>(0x7fffffffu) : x; }
inline double canon(double x) { return x != x ? std::bit_cast<double>(0x7fffffffffffffffull) : x; }
inline float flush(float x) { return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.f, x) : x; }

inline float from_bf16(u16 x) { return std::bit_cast<float>(u32{x} << 16); }
inline u16 to_bf16(float x) {
  const u32 b = std::bit_cast<u32>(x);
  const u32 r = (b + 0x7fff + (b >> 16 & 1)) >> 16;
  return static_cast<u16>(x != x ? 0x7fffu : r);
}
inline float from_f16(u16 x) { return _cvtsh_ss(x); }
inline u16 to_f16(float x) { return x != x ? 0x7fff : static_cast<u16>(_cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT)); }
inline u32 to_tf32(float x) {  // to nearest, ties away from zero
  const u32 b = std::bit_cast<u32>(x);
  const bool special = (b & 0x7f800000) == 0x7f800000;
  const u32 r = (b + 0x1000) & 0xffffe000;
  return special ? (x != x ? 0x7fffffffu : b) : r;
}
inline float exp2_of(float x) {  // within 1 ulp or so; vectorizable
  const float big = x > 200 ? 200.f : x < -200 ? -200.f : x;
  const float n = std::nearbyintf(big);
  const float f = big - n;
  float p = 1.5252733804e-5f;
  p = __builtin_fmaf(p, f, 1.5403530393e-4f);
  p = __builtin_fmaf(p, f, 1.3333558146e-3f);
  p = __builtin_fmaf(p, f, 9.6181291076e-3f);
  p = __builtin_fmaf(p, f, 5.5504108665e-2f);
  p = __builtin_fmaf(p, f, 2.4022650696e-1f);
  p = __builtin_fmaf(p, f, 6.9314718056e-1f);
  p = __builtin_fmaf(p, f, 1.f);
  const int e = static_cast<int>(n), h = e / 2;
  const float a = std::bit_cast<float>(static_cast<u32>(h + 127) << 23),
              b = std::bit_cast<float>(static_cast<u32>(e - h + 127) << 23);
  const float r = p * a * b;
  return x != x ? x : r;
}

// --- binary and ternary -------------------------------------------------------------------------------------------------------------------

template <class T, class F>
void unary(Warp& w, const Instruction& in, u32 m) {
  const T* a = reg<T>(w, in.a);
  T* d = reg<T>(w, in.d);
  each(d, m, [&](int i) { return F::f(a[i]); });
}
template <class T, class F>
void binary(Warp& w, const Instruction& in, u32 m) {
  const T *a = reg<T>(w, in.a), *b = reg<T>(w, in.b);
  T* d = reg<T>(w, in.d);
  each(d, m, [&](int i) { return F::f(a[i], b[i]); });
}
template <class T, class F>
void ternary(Warp& w, const Instruction& in, u32 m) {
  const T *a = reg<T>(w, in.a), *b = reg<T>(w, in.b), *c = reg<T>(w, in.c);
  T* d = reg<T>(w, in.d);
  each(d, m, [&](int i) { return F::f(a[i], b[i], c[i]); });
}
template <class T, class F>
void unary_slow(Warp& w, const Instruction& in, u32 m) {
  const T* a = reg<T>(w, in.a);
  T* d = reg<T>(w, in.d);
  lanes(m, [&](int i) { d[i] = F::f(a[i]); });
}
template <class T, class F>
void binary_slow(Warp& w, const Instruction& in, u32 m) {
  const T *a = reg<T>(w, in.a), *b = reg<T>(w, in.b);
  T* d = reg<T>(w, in.d);
  lanes(m, [&](int i) { d[i] = F::f(a[i], b[i]); });
}
// The second operand of a shift has 32 bits.
template <class T, class F>
void shift(Warp& w, const Instruction& in, u32 m) {
  const T* a = reg<T>(w, in.a);
  const u32* b = reg<u32>(w, in.b);
  T* d = reg<T>(w, in.d);
  each(d, m, [&](int i) { return F::f(a[i], b[i]); });
}

template <class T>
using U = std::make_unsigned_t<T>;
#define OP(name, ...)      \
  struct name {            \
    template <class T>     \
    static T f __VA_ARGS__ \
  };
template <class T>
inline constexpr bool is_float = std::is_floating_point_v<T>;
struct Add {
  template <class T>
  static T f(T a, T b) {
    if constexpr (is_float<T>)
      return canon(a + b);
    else
      return static_cast<T>(U<T>(a) + U<T>(b));
  }
};
struct Sub {
  template <class T>
  static T f(T a, T b) {
    if constexpr (is_float<T>)
      return canon(a - b);
    else
      return static_cast<T>(U<T>(a) - U<T>(b));
  }
};
struct MulLo {
  template <class T>
  static T f(T a, T b) {
    if constexpr (is_float<T>)
      return canon(a * b);
    else
      return static_cast<T>(u64(U<T>(a)) * u64(U<T>(b)));
  }
};
struct MulHi {
  template <class T>
  static T f(T a, T b) {
    if constexpr (sizeof(T) == 8) {
      using W = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
      return static_cast<T>((W(a) * W(b)) >> 64);
    } else {
      using W = std::conditional_t<std::is_signed_v<T>, s64, u64>;
      return static_cast<T>((W(a) * W(b)) >> width_of<T>);
    }
  }
};
struct MadLo {
  template <class T>
  static T f(T a, T b, T c) {
    return static_cast<T>(u64(U<T>(a)) * u64(U<T>(b)) + u64(U<T>(c)));
  }
};
struct MadHi {
  template <class T>
  static T f(T a, T b, T c) {
    return static_cast<T>(U<T>(MulHi::f(a, b)) + U<T>(c));
  }
};
struct Div {
  template <class T>
  static T f(T a, T b) {
    if constexpr (is_float<T>)
      return canon(a / b);
    else {
      if (b == 0) return static_cast<T>(~T(0));
      if constexpr (std::is_signed_v<T>)
        if (b == T(-1)) return static_cast<T>(-U<T>(a));
      return static_cast<T>(a / b);
    }
  }
};
struct Rem {
  template <class T>
  static T f(T a, T b) {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>)
      if (b == T(-1)) return 0;
    return static_cast<T>(a % b);
  }
};
struct Min {
  template <class T>
  static T f(T a, T b) {
    if constexpr (is_float<T>) {
      const T r = a == b ? (std::signbit(a) ? a : b) : a < b ? a : b;
      return a != a ? canon(b) : b != b ? a : r;
    } else
      return a < b ? a : b;
  }
};
struct Max {
  template <class T>
  static T f(T a, T b) {
    if constexpr (is_float<T>) {
      const T r = a == b ? (std::signbit(a) ? b : a) : a > b ? a : b;
      return a != a ? canon(b) : b != b ? a : r;
    } else
      return a > b ? a : b;
  }
};
struct MinNan {
  template <class T>
  static T f(T a, T b) {
    return (a != a || b != b) ? canon(a + b) : Min::f(a, b);
  }
};
struct MaxNan {
  template <class T>
  static T f(T a, T b) {
    return (a != a || b != b) ? canon(a + b) : Max::f(a, b);
  }
};
struct And {
  template <class T>
  static T f(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  static T f(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  static T f(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
struct Not {
  template <class T>
  static T f(T a) {
    return static_cast<T>(~a);
  }
};
struct Neg {
  template <class T>
  static T f(T a) {
    if constexpr (std::is_same_v<T, float>)
      return canon(std::bit_cast<float>(std::bit_cast<u32>(a) ^ 0x80000000u));
    else if constexpr (is_float<T>)
      return -a;
    else
      return static_cast<T>(-U<T>(a));
  }
};
struct NegBits {
  template <class T>
  static T f(T a) {
    return -a;
  }
};
struct AbsBits {
  template <class T>
  static T f(T a) {
    return std::fabs(a);
  }
};
struct Abs {
  template <class T>
  static T f(T a) {
    if constexpr (is_float<T>)
      return canon(std::fabs(a));
    else
      return static_cast<T>(a < 0 ? -U<T>(a) : a);
  }
};
struct Copysign {
  template <class T>
  static T f(T a, T b) {
    return std::copysign(b, a);
  }
};  // the sign of a, the magnitude of b
struct Shl {
  template <class T>
  static T f(T a, u32 b) {
    return static_cast<T>(b >= width_of<T> ? 0 : u64(a) << b);
  }
};
struct Shr {
  template <class T>
  static T f(T a, u32 b) {
    return static_cast<T>(b >= width_of<T> ? (std::is_signed_v<T> ? a >> (width_of<T> - 1) : T(0)) : a >> b);
  }
};
struct Fma {
  template <class T>
  static T f(T a, T b, T c) {
    if constexpr (sizeof(T) == 4)
      return canon(__builtin_fmaf(a, b, c));
    else
      return canon(__builtin_fma(a, b, c));
  }
};
struct Sqrt {
  template <class T>
  static T f(T a) {
    return canon(std::sqrt(a));
  }
};
struct Rcp {
  template <class T>
  static T f(T a) {
    return canon(T(1) / a);
  }
};
struct RcpFtz {
  template <class T>
  static T f(T a) {
    return canon(flush(1 / flush(a)));
  }
};
struct Rsqrt {
  template <class T>
  static T f(T a) {
    return canon(static_cast<T>(1 / std::sqrt(static_cast<double>(a))));
  }
};
struct Ex2Ftz {
  template <class T>
  static T f(T a) {
    return canon(flush(exp2_of(flush(a))));
  }
};
struct Ex2 {
  template <class T>
  static T f(T a) {
    return canon(exp2_of(a));
  }
};
struct Lg2 {
  template <class T>
  static T f(T a) {
    return canon(static_cast<T>(std::log2(static_cast<double>(a))));
  }
};
struct Lg2Ftz {
  template <class T>
  static T f(T a) {
    return canon(static_cast<T>(std::log2(static_cast<double>(flush(a)))));
  }
};
struct Sin {
  template <class T>
  static T f(T a) {
    return canon(static_cast<T>(std::sin(static_cast<double>(a))));
  }
};
struct Cos {
  template <class T>
  static T f(T a) {
    return canon(static_cast<T>(std::cos(static_cast<double>(a))));
  }
};
struct Tanh {
  template <class T>
  static T f(T a) {
    return canon(static_cast<T>(std::tanh(static_cast<double>(a))));
  }
};
struct Popc {
  template <class T>
  static u32 f(T a) {
    return static_cast<u32>(std::popcount(a));
  }
};
struct Clz {
  template <class T>
  static u32 f(T a) {
    return static_cast<u32>(std::countl_zero(a));
  }
};
struct Brev {
  static u32 f(u32 a) {
    u32 r = 0;
    for (int i = 0; i < 32; ++i) r |= (a >> i & 1) << (31 - i);
    return r;
  }
};
struct Bmsk {
  static u32 f(u32 a, u32 b) {
    const u32 a1 = a & 31, b1 = b & 31, sum = a1 + b1;
    const u32 mask0 = a >= 32 ? 0 : ~0u << a1;
    const u32 mask1 = (sum >= 32 || a >= 32 || b >= 32) ? 0 : ~0u << sum;
    return mask0 & ~mask1;
  }
};
struct Prmt {
  static u32 f(u32 a, u32 b, u32 c) {
    const u64 both = u64(b) << 32 | a;
    u32 r = 0;
    for (u32 i = 0; i < 4; ++i) {
      const u32 n = c >> 4 * i & 15;
      u32 x = static_cast<u32>(both >> 8 * (n & 7)) & 255;
      if (n & 8) x = x & 128 ? 255 : 0;
      r |= x << 8 * i;
    }
    return r;
  }
};
struct ShfL {
  static u32 f(u32 a, u32 b, u32 c) { return static_cast<u32>((u64(b) << 32 | a) << (c & 31) >> 32); }
};
struct ShfR {
  static u32 f(u32 a, u32 b, u32 c) { return static_cast<u32>((u64(b) << 32 | a) >> (c & 31)); }
};
struct ShfLClamp {
  static u32 f(u32 a, u32 b, u32 c) { return c >= 32 ? a : ShfL::f(a, b, c); }
};
struct ShfRClamp {
  static u32 f(u32 a, u32 b, u32 c) { return c >= 32 ? b : ShfR::f(a, b, c); }
};

// Floating point with another rounding.
template <class T, class F>
void rounded2(Warp& w, const Instruction& in, u32 m) {
  const T *a = reg<T>(w, in.a), *b = reg<T>(w, in.b);
  T* d = reg<T>(w, in.d);
  const unsigned old = _mm_getcsr(), set = (old & ~0x6000u) | u32{in.modifier} << 13;
  T out[32];
  asm volatile("ldmxcsr %0" ::"m"(set) : "memory");
  for (int i = 0; i < 32; ++i) out[i] = F::f(a[i], b[i]);
  asm volatile("" ::"r"(out) : "memory");
  asm volatile("ldmxcsr %0" ::"m"(old) : "memory");
  each(d, m, [&](int i) { return out[i]; });
}
template <class T, class F>
void rounded3(Warp& w, const Instruction& in, u32 m) {
  const T *a = reg<T>(w, in.a), *b = reg<T>(w, in.b), *c = reg<T>(w, in.c);
  T* d = reg<T>(w, in.d);
  const unsigned old = _mm_getcsr(), set = (old & ~0x6000u) | u32{in.modifier} << 13;
  T out[32];
  asm volatile("ldmxcsr %0" ::"m"(set) : "memory");
  for (int i = 0; i < 32; ++i) out[i] = F::f(a[i], b[i], c[i]);
  asm volatile("" ::"r"(out) : "memory");
  asm volatile("ldmxcsr %0" ::"m"(old) : "memory");
  each(d, m, [&](int i) { return out[i]; });
}

template <class T>
void mul_wide(Warp& w, const Instruction& in, u32 m) {
  using W = std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, s32, u32>,
                               std::conditional_t<std::is_signed_v<T>, s64, u64>>;
  const T *a = reg<T>(w, in.a), *b = reg<T>(w, in.b);
  W* d = reg<W>(w, in.d);
  each(d, m, [&](int i) { return static_cast<W>(W(a[i]) * W(b[i])); });
}
template <class T>
void mad_wide(Warp& w, const Instruction& in, u32 m) {
  using W = std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, s32, u32>,
                               std::conditional_t<std::is_signed_v<T>, s64, u64>>;
  const T *a = reg<T>(w, in.a), *b = reg<T>(w, in.b);
  const W* c = reg<W>(w, in.c);
  W* d = reg<W>(w, in.d);
  each(d, m, [&](int i) { return static_cast<W>(U<W>(W(a[i]) * W(b[i])) + U<W>(c[i])); });
}
template <class T, class F>
void count_bits(Warp& w, const Instruction& in, u32 m) {
  const T* a = reg<T>(w, in.a);
  u32* d = reg<u32>(w, in.d);
  each(d, m, [&](int i) { return F::f(a[i]); });
}
template <class T>
void bfe(Warp& w, const Instruction& in, u32 m) {
  const T* a = reg<T>(w, in.a);
  const u32 *b = reg<u32>(w, in.b), *c = reg<u32>(w, in.c);
  T* d = reg<T>(w, in.d);
  lanes(m, [&](int i) {
    const u32 pos = b[i] & 255, len = c[i] & 255, top = width_of<T> - 1;
    bool sign = false;
    if (std::is_signed_v<T> && len > 0) sign = U<T>(a[i]) >> std::min(pos + len - 1, top) & 1;
    U<T> r = 0;
    for (u32 k = 0; k <= top; ++k) {
      const bool bit = k < len && pos + k <= top ? U<T>(a[i]) >> (pos + k) & 1 : sign;
      r |= U<T>(bit) << k;
    }
    d[i] = static_cast<T>(r);
  });
}
template <class T>
void bfi(Warp& w, const Instruction& in, u32 m) {  // e: length
  const T *a = reg<T>(w, in.a), *b = reg<T>(w, in.b);
  const u32 *c = reg<u32>(w, in.c), *e = reg<u32>(w, in.e);
  T* d = reg<T>(w, in.d);
  lanes(m, [&](int i) {
    const u32 pos = c[i] & 255, len = e[i] & 255;
    T f = b[i];
    for (u32 k = 0; k < len && pos + k < width_of<T>; ++k)
      f = static_cast<T>((f & ~(T(1) << (pos + k))) | ((a[i] >> k & 1) << (pos + k)));
    d[i] = f;
  });
}
inline void lop3(Warp& w, const Instruction& in, u32 m) {
  const u32 *a = reg<u32>(w, in.a), *b = reg<u32>(w, in.b), *c = reg<u32>(w, in.c);
  u32* d = reg<u32>(w, in.d);
  const u32 t = static_cast<u32>(in.imm);
  each(d, m, [&](int i) {
    u32 r = 0;
    for (u32 k = 0; k < 8; ++k)
      if (t >> k & 1) r |= (k & 4 ? a[i] : ~a[i]) & (k & 2 ? b[i] : ~b[i]) & (k & 1 ? c[i] : ~c[i]);
    return r;
  });
}

// An approximation with an error of up to one last bit, by a hash of the result. PTX allows two in ex2, but then expf would exceed the one bit
// that NVIDIA gives for it.
template <class F, int most>
struct Jitter {
  template <class T>
  static T f(T a) {
    const T r = F::f(a);
    if constexpr (sizeof(T) == 4) {
      const u32 b = std::bit_cast<u32>(r), h = ((b ^ options.jitter * 40503u) * 2654435761u) >> 16;
      const bool special = (b & 0x7f800000) == 0x7f800000 || (b & 0x7fffffff) < 0x00800010;
      return special || r == 1 ? r : std::bit_cast<float>(b + h % (2 * most + 1) - most);
    }
    return r;
  }
};

// --- predicates ---------------------------------------------------------------------------------------------------------------------------

inline u32 pred_of(Warp& w, const Operand& o) {
  const u32 p = o.constant ? o.offset : w.pred[o.offset];
  return o.negated ? ~p : p;
}
inline void set_pred(Warp& w, const Operand& o, u32 m, u32 value) {
  if (!o.absent) {
    u32& p = w.pred[o.offset];
    p = (p & ~m) | (value & m);
  }
}

struct Eq {
  template <class T>
  static bool f(T a, T b) {
    return a == b;
  }
};
struct Ne {
  template <class T>
  static bool f(T a, T b) {
    if constexpr (is_float<T>)
      return a < b || a > b;
    else
      return a != b;
  }
};
struct Lt {
  template <class T>
  static bool f(T a, T b) {
    return a < b;
  }
};
struct Le {
  template <class T>
  static bool f(T a, T b) {
    return a <= b;
  }
};
struct Gt {
  template <class T>
  static bool f(T a, T b) {
    return a > b;
  }
};
struct Ge {
  template <class T>
  static bool f(T a, T b) {
    return a >= b;
  }
};
struct Equ {
  template <class T>
  static bool f(T a, T b) {
    return !(a < b || a > b);
  }
};
struct Neu {
  template <class T>
  static bool f(T a, T b) {
    return a != b;
  }
};
struct Ltu {
  template <class T>
  static bool f(T a, T b) {
    return !(a >= b);
  }
};
struct Leu {
  template <class T>
  static bool f(T a, T b) {
    return !(a > b);
  }
};
struct Gtu {
  template <class T>
  static bool f(T a, T b) {
    return !(a <= b);
  }
};
struct Geu {
  template <class T>
  static bool f(T a, T b) {
    return !(a < b);
  }
};
struct Num {
  template <class T>
  static bool f(T a, T b) {
    return a == a && b == b;
  }
};
struct Nan {
  template <class T>
  static bool f(T a, T b) {
    return a != a || b != b;
  }
};
template <class T, class F>
void setp(Warp& w, const Instruction& in, u32 m) {
  const T *a = reg<T>(w, in.a), *b = reg<T>(w, in.b);
  u32 r = mask_of([&](int i) { return F::f(a[i], b[i]); }), s = ~r;
  if (in.modifier) {  // combined with c by and, or, xor
    const u32 c = pred_of(w, in.c);
    r = in.modifier == 1 ? r & c : in.modifier == 2 ? r | c : r ^ c;
    s = in.modifier == 1 ? s & c : in.modifier == 2 ? s | c : s ^ c;
  }
  set_pred(w, in.d, m, r);
  set_pred(w, in.d2, m, s);
}
template <class T>
void selp(Warp& w, const Instruction& in, u32 m) {
  const T *a = reg<T>(w, in.a), *b = reg<T>(w, in.b);
  T* d = reg<T>(w, in.d);
  const u32 p = pred_of(w, in.c);
  each(d, m, [&](int i) { return (p >> i & 1) ? a[i] : b[i]; });
}
inline void pred_op(Warp& w, const Instruction& in, u32 m) {
  const u32 a = pred_of(w, in.a), b = in.b.absent ? 0 : pred_of(w, in.b);
  set_pred(w, in.d, m,
           in.modifier == 0   ? a & b
           : in.modifier == 1 ? a | b
           : in.modifier == 2 ? a ^ b
           : in.modifier == 3 ? ~a
                              : a);
}

// --- moves and conversions ------------------------------------------------------------------------------------------------------------------

template <class T>
struct Id {
  static T f(T a) { return a; }
};
template <class T>
void mov(Warp& w, const Instruction& in, u32 m) {
  const T* a = reg<T>(w, in.a);
  T* d = reg<T>(w, in.d);
  each(d, m, [&](int i) { return a[i]; });
}
template <class Part, class Whole, int n>
void pack(Warp& w, const Instruction& in, u32 m) {
  Whole* d = reg<Whole>(w, in.d);
  const Part* p[n];
  for (int k = 0; k < n; ++k) p[k] = reg<Part>(w, in.v[k]);
  each(d, m, [&](int i) {
    Whole r = 0;
    for (int k = 0; k < n; ++k) r |= Whole(p[k][i]) << (k * width_of<Part>);
    return r;
  });
}
template <class Part, class Whole, int n>
void unpack(Warp& w, const Instruction& in, u32 m) {
  Whole a[32];
  std::memcpy(a, reg<Whole>(w, in.a), sizeof(a));
  for (int k = 0; k < n; ++k)
    if (!in.v[k].absent)
      each(reg<Part>(w, in.v[k]), m, [&](int i) { return static_cast<Part>(a[i] >> (k * width_of<Part>)); });
}
// Integers: SR and DR are the registers' types, ST and DT the instruction's.
template <class DR, class DT, class SR, class ST>
void convert(Warp& w, const Instruction& in, u32 m) {
  const SR* a = reg<SR>(w, in.a);
  DR* d = reg<DR>(w, in.d);
  each(d, m, [&](int i) { return static_cast<DR>(static_cast<DT>(static_cast<ST>(a[i]))); });
}
template <class D, class S, class F>
void change(Warp& w, const Instruction& in, u32 m) {
  const S* a = reg<S>(w, in.a);
  D* d = reg<D>(w, in.d);
  each(d, m, [&](int i) { return F::f(a[i]); });
}
template <class D, class S, class F>
void change_slow(Warp& w, const Instruction& in, u32 m) {
  const S* a = reg<S>(w, in.a);
  D* d = reg<D>(w, in.d);
  lanes(m, [&](int i) { d[i] = F::f(a[i]); });
}
struct Bf16 {
  static u16 f(float x) { return to_bf16(x); }
};
struct F16 {
  static u16 f(float x) { return to_f16(x); }
};
struct Tf32 {
  static u32 f(float x) { return to_tf32(x); }
};
struct OfBf16 {
  static float f(u16 x) { return from_bf16(x); }
};
struct OfF16 {
  static float f(u16 x) { return from_f16(x); }
};
template <class D>
struct As {
  template <class S>
  static D f(S x) {
    return static_cast<D>(x);
  }
};
struct Narrow {
  static float f(double x) { return canon(static_cast<float>(x)); }
};
struct Widen {
  static double f(float x) { return canon(static_cast<double>(x)); }
};
struct Sat {
  static float f(float x) { return x != x ? 0.f : x < 0 ? 0.f : x > 1 ? 1.f : x == 0 ? 0.f : x; }
};
template <int mode>
struct RoundTo {
  template <class T>
  static T f(T x) {
    return canon(mode == 0 ? std::nearbyint(x) : mode == 1 ? std::floor(x) : mode == 2 ? std::ceil(x) : std::trunc(x));
  }
};
template <class D, int mode>
struct ToInt {
  template <class S>
  static D f(S x) {
    if (x != x) return sizeof(D) == 8 || sizeof(S) == 8 ? static_cast<D>(1ull << (width_of<D> - 1)) : D(0);
    const S r = RoundTo<mode>::template f<S>(x);
    if (r <= static_cast<S>(std::numeric_limits<D>::min())) return std::numeric_limits<D>::min();
    if (r >= static_cast<S>(std::numeric_limits<D>::max())) return std::numeric_limits<D>::max();
    return static_cast<D>(r);
  }
};
inline void pack_bf16x2(Warp& w, const Instruction& in, u32 m) {
  const float *a = reg<float>(w, in.a), *b = reg<float>(w, in.b);
  u32* d = reg<u32>(w, in.d);
  each(d, m, [&](int i) { return u32{to_bf16(a[i])} << 16 | to_bf16(b[i]); });
}
inline void pack_f16x2(Warp& w, const Instruction& in, u32 m) {
  const float *a = reg<float>(w, in.a), *b = reg<float>(w, in.b);
  u32* d = reg<u32>(w, in.d);
  lanes(m, [&](int i) { d[i] = u32{to_f16(a[i])} << 16 | to_f16(b[i]); });
}

}  // namespace heddle::ptx
