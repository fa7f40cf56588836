// Comparison and selection (PTX ISA, "Comparison and Selection Instructions"), and logic on predicates.
#pragma once
#include <functional>

#include "lanes.hpp"

namespace heddle::ptx {

// Comparisons are false if an operand is NaN. The unordered ones, whose names end in u, are true then.
struct Ne {
  template <class T>
  bool operator()(T a, T b) const {
    if constexpr (is_float<T>)
      return a < b || a > b;
    else
      return a != b;
  }
};
using Eq = std::equal_to<>;
using Lt = std::less<>;
using Le = std::less_equal<>;
using Gt = std::greater<>;
using Ge = std::greater_equal<>;

// An unordered comparison is the negation of the opposite ordered one.
template <class Ordered>
struct Negated {
  template <class T>
  bool operator()(T a, T b) const {
    return !Ordered()(a, b);
  }
};
using Equ = Negated<Ne>;
using Neu = Negated<Eq>;
using Ltu = Negated<Ge>;
using Leu = Negated<Gt>;
using Gtu = Negated<Le>;
using Geu = Negated<Lt>;

struct Num {
  template <class T>
  bool operator()(T a, T b) const {
    return a == a && b == b;
  }
};
using Nan = Negated<Num>;

// The operations of predicate_op: instruction.modifier.
enum PredicateOp : u8 { pred_and, pred_or, pred_xor, pred_not, pred_mov };

// The operation that combines the result of setp with predicate c: instruction.modifier.
enum SetpOp : u8 { setp_plain, setp_and, setp_or, setp_xor };

inline u32 combine(u8 op, u32 result, u32 c) {
  switch (op) {
    case setp_and: return result & c;
    case setp_or: return result | c;
    case setp_xor: return result ^ c;
    default: return result;
  }
}

// Sets d to the comparison of a and b, and d2 to its negation, each combined with c.
template <class T, class F>
void setp(Warp& warp, const Instruction& instruction, u32 mask) {
  const T* a = register_lanes<T>(warp, instruction.a);
  const T* b = register_lanes<T>(warp, instruction.b);
  const u32 result = mask_of([&](int lane) { return F()(a[lane], b[lane]); });
  const u32 c = instruction.modifier == setp_plain ? 0 : read_predicate(warp, instruction.c);
  write_predicate(warp, instruction.d, mask, combine(instruction.modifier, result, c));
  write_predicate(warp, instruction.d2, mask, combine(instruction.modifier, ~result, c));
}

// Sets d to a where predicate c holds, else to b.
template <class T>
void selp(Warp& warp, const Instruction& instruction, u32 mask) {
  const T* a = register_lanes<T>(warp, instruction.a);
  const T* b = register_lanes<T>(warp, instruction.b);
  T* d = register_lanes<T>(warp, instruction.d);
  const u32 c = read_predicate(warp, instruction.c);
  each(d, mask, [&](int lane) { return (c >> lane & 1) ? a[lane] : b[lane]; });
}

inline void predicate_op(Warp& warp, const Instruction& instruction, u32 mask) {
  const u32 a = read_predicate(warp, instruction.a);
  const u32 b = instruction.b.absent ? 0 : read_predicate(warp, instruction.b);
  u32 result = a;
  switch (instruction.modifier) {
    case pred_and: result = a & b; break;
    case pred_or: result = a | b; break;
    case pred_xor: result = a ^ b; break;
    case pred_not: result = ~a; break;
    default: break;
  }
  write_predicate(warp, instruction.d, mask, result);
}

}  // namespace heddle::ptx
