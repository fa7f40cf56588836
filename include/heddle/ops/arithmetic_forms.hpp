// + - * / as functions, written once: of numbers, or of Eigen arrays for the CPU's vector units.
#pragma once
#include <heddle/error.hpp>

namespace heddle::kernel {

// Integers as unsigned words: their overflow is defined. Anything else itself, not a copy: an expression may refer to it.
template <class V>
HEDDLE_HD decltype(auto) wrapping(const V& v) {
  if constexpr (std::is_integral_v<V>)
    return static_cast<std::make_unsigned_t<V>>(v);
  else
    return (v);
}

// F::f of numbers, or of an Eigen array with another or with a number.
struct Add {
  HEDDLE_HD static auto f(const auto& a, const auto& b) { return wrapping(a) + wrapping(b); }
};
struct Sub {
  HEDDLE_HD static auto f(const auto& a, const auto& b) { return wrapping(a) - wrapping(b); }
};
struct Mul {
  HEDDLE_HD static auto f(const auto& a, const auto& b) { return wrapping(a) * wrapping(b); }
};
struct Div {
  HEDDLE_HD static auto f(const auto& a, const auto& b) {
    if constexpr (std::is_integral_v<std::remove_cvref_t<decltype(a)>>) {
      require(b != 0, "div: an integer is divided by 0");
      return b == -1 ? -wrapping(a) : wrapping(a / b);  // the smallest integer over -1 overflows
    } else {
      return a / b;
    }
  }
};
template <class F>
struct Swapped {
  HEDDLE_HD static auto f(const auto& a, const auto& b) { return F::f(b, a); }
};

}  // namespace heddle::kernel
