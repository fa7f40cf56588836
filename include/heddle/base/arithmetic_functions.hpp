// + - * / as function objects, written once: on numbers, or on Eigen arrays for the CPU's vector units.
#pragma once
#include <type_traits>

#include <heddle/base/build.hpp>
#include <heddle/base/error.hpp>

namespace heddle::kernel {

// Returns an integer as an unsigned word, whose overflow is defined; anything else as a reference, which an expression may keep.
template <class V>
HEDDLE_HD decltype(auto) wrapping(const V& v) {
  if constexpr (std::is_integral_v<V>)
    return static_cast<std::make_unsigned_t<V>>(v);
  else
    return (v);
}

// F::f(a, b) takes numbers, or an Eigen array and another array or a number.
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
