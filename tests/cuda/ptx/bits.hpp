// Logic, shifts, bit fields and permutations of bits and bytes (PTX ISA, "Logic and Shift Instructions", "Integer
// Arithmetic Instructions", "Data Movement and Conversion Instructions: prmt").
#pragma once
#include <algorithm>
#include <bit>
#include <functional>

#include "lanes.hpp"

namespace heddle::ptx {

// The second operand of a shift has 32 bits.
template <class T, class F>
void shift(Warp& warp, const Instruction& instruction, u32 mask) {
  const T* a = register_lanes<T>(warp, instruction.a);
  const u32* b = register_lanes<u32>(warp, instruction.b);
  T* d = register_lanes<T>(warp, instruction.d);
  each(d, mask, [&](int lane) { return F()(a[lane], b[lane]); });
}

// The result of popc and clz has 32 bits.
template <class T, class F>
void count_bits(Warp& warp, const Instruction& instruction, u32 mask) {
  const T* a = register_lanes<T>(warp, instruction.a);
  u32* d = register_lanes<u32>(warp, instruction.d);
  each(d, mask, [&](int lane) { return F()(a[lane]); });
}

using And = std::bit_and<>;
using Or = std::bit_or<>;
using Xor = std::bit_xor<>;
using Not = std::bit_not<>;

// A shift by the width or more gives 0, or the sign in every bit.
struct Shl {
  template <class T>
  T operator()(T a, u32 b) const {
    return static_cast<T>(b >= width_of<T> ? 0 : u64(a) << b);
  }
};

struct Shr {
  template <class T>
  T operator()(T a, u32 b) const {
    constexpr u32 last = width_of<T> - 1;
    const T all_sign = std::is_signed_v<T> ? static_cast<T>(a >> last) : T(0);
    return static_cast<T>(b > last ? all_sign : a >> b);
  }
};

// Funnel shifts: shf.l and shf.r in the modes .wrap and .clamp.
struct ShfL {
  u32 operator()(u32 a, u32 b, u32 c) const { return static_cast<u32>((u64{b} << 32 | a) << (c & 31) >> 32); }
};
struct ShfR {
  u32 operator()(u32 a, u32 b, u32 c) const { return static_cast<u32>((u64{b} << 32 | a) >> (c & 31)); }
};
struct ShfLClamp {
  u32 operator()(u32 a, u32 b, u32 c) const { return c >= 32 ? a : ShfL()(a, b, c); }
};
struct ShfRClamp {
  u32 operator()(u32 a, u32 b, u32 c) const { return c >= 32 ? b : ShfR()(a, b, c); }
};

struct Popc {
  template <class T>
  u32 operator()(T a) const {
    return static_cast<u32>(std::popcount(a));
  }
};

struct Clz {
  template <class T>
  u32 operator()(T a) const {
    return static_cast<u32>(std::countl_zero(a));
  }
};

struct Brev {
  u32 operator()(u32 a) const {
    u32 reversed = 0;
    for (int i = 0; i < 32; ++i) reversed |= (a >> i & 1) << (31 - i);
    return reversed;
  }
};

// bmsk.clamp: b ones from bit a on.
struct Bmsk {
  u32 operator()(u32 a, u32 b) const {
    const u32 begin = a & 31;
    const u32 end = begin + (b & 31);
    const u32 from_begin = a >= 32 ? 0 : ~0u << begin;
    const u32 from_end = (a >= 32 || b >= 32 || end >= 32) ? 0 : ~0u << end;
    return from_begin & ~from_end;
  }
};

// Each nibble of c selects a byte of b:a. If its top bit is set, the sign of that byte is replicated instead.
struct Prmt {
  u32 operator()(u32 a, u32 b, u32 c) const {
    const u64 bytes = u64{b} << 32 | a;
    u32 result = 0;
    for (u32 i = 0; i < 4; ++i) {
      const u32 selector = c >> 4 * i & 15;
      const u32 byte = static_cast<u32>(bytes >> 8 * (selector & 7)) & 255;
      const u32 sign = byte & 128 ? 255 : 0;
      result |= (selector & 8 ? sign : byte) << 8 * i;
    }
    return result;
  }
};

// The table of lop3 is an immediate operand: bit 4 a + 2 b + c is the result for these bits of a, b and c.
inline void lop3(Warp& warp, const Instruction& instruction, u32 mask) {
  const u32* a = register_lanes<u32>(warp, instruction.a);
  const u32* b = register_lanes<u32>(warp, instruction.b);
  const u32* c = register_lanes<u32>(warp, instruction.c);
  u32* d = register_lanes<u32>(warp, instruction.d);
  const u32 table = static_cast<u32>(instruction.imm);
  each(d, mask, [&](int lane) {
    u32 result = 0;
    for (u32 i = 0; i < 8; ++i)
      if (table >> i & 1)
        result |= (i & 4 ? a[lane] : ~a[lane]) & (i & 2 ? b[lane] : ~b[lane]) & (i & 1 ? c[lane] : ~c[lane]);
    return result;
  });
}

// Extracts the c bits of a from bit b on. A signed field is sign-extended.
template <class T>
void bfe(Warp& warp, const Instruction& instruction, u32 mask) {
  const T* a = register_lanes<T>(warp, instruction.a);
  const u32* b = register_lanes<u32>(warp, instruction.b);
  const u32* c = register_lanes<u32>(warp, instruction.c);
  T* d = register_lanes<T>(warp, instruction.d);
  lanes(mask, [&](int lane) {
    constexpr u32 last = width_of<T> - 1;
    const Unsigned<T> value = static_cast<Unsigned<T>>(a[lane]);
    const u32 begin = b[lane] & 255;
    const u32 length = c[lane] & 255;
    const bool sign = std::is_signed_v<T> && length > 0 && (value >> std::min(begin + length - 1, last) & 1);
    Unsigned<T> field = 0;
    for (u32 i = 0; i <= last; ++i) {
      const bool bit = i < length && begin + i <= last ? value >> (begin + i) & 1 : sign;
      field |= Unsigned<T>(bit) << i;
    }
    d[lane] = static_cast<T>(field);
  });
}

// Inserts the first e bits of a into b at bit c.
template <class T>
void bfi(Warp& warp, const Instruction& instruction, u32 mask) {
  const T* a = register_lanes<T>(warp, instruction.a);
  const T* b = register_lanes<T>(warp, instruction.b);
  const u32* c = register_lanes<u32>(warp, instruction.c);
  const u32* e = register_lanes<u32>(warp, instruction.e);
  T* d = register_lanes<T>(warp, instruction.d);
  lanes(mask, [&](int lane) {
    const u32 begin = c[lane] & 255;
    const u32 length = e[lane] & 255;
    T result = b[lane];
    for (u32 i = 0; i < length && begin + i < width_of<T>; ++i) {
      const T cleared = static_cast<T>(result & ~(T(1) << (begin + i)));
      result = static_cast<T>(cleared | (a[lane] >> i & 1) << (begin + i));
    }
    d[lane] = result;
  });
}

}  // namespace heddle::ptx
