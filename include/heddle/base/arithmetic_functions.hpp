// Function objects for + - * /, the larger and the smaller of two values, and powers. Each is written once, for numbers and for Eigen
// arrays (the CPU's vector units).
#pragma once
#include <cmath>
#include <type_traits>

#include <heddle/base/build.hpp>
#include <heddle/base/error.hpp>

namespace heddle::kernel {

// Returns an integer as a number of its unsigned type, whose overflow is defined. Returns anything else by reference, so that an Eigen
// expression may refer to it.
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
      return b == -1 ? -wrapping(a) : wrapping(a / b);  // the smallest integer divided by -1 overflows
    } else {
      return a / b;
    }
  }
};

// Returns the larger or the smaller of two numbers, or NaN if one of them is NaN. `better` is >= or <=.
template <class A, class B, class Better>
HEDDLE_HD auto better_or_nan(const A& a, const B& b, const Better& better) {
  if constexpr (std::is_integral_v<A>)
    return better(a, b) ? a : b;
  else if constexpr (std::is_arithmetic_v<A> && std::is_arithmetic_v<B>)
    return better(a, b) || a != a ? a : b;
  else if constexpr (std::is_arithmetic_v<A>)
    return better_or_nan(b, a, better);
  else
    return (better(a, b) || a != a).select(a, b);
}
struct Larger {
  HEDDLE_HD static auto f(const auto& a, const auto& b) {
    return better_or_nan(a, b, [](const auto& x, const auto& y) { return x >= y; });
  }
};
struct Smaller {
  HEDDLE_HD static auto f(const auto& a, const auto& b) {
    return better_or_nan(a, b, [](const auto& x, const auto& y) { return x <= y; });
  }
};
// std::pow of each element, because Eigen 3.4's vectorized pow gives infinity instead of -infinity for (-0)^-1.
struct Power {
  template <class A, class B>
  HEDDLE_HD static auto f(const A& a, const B& b) {
    using std::pow;
    if constexpr (std::is_arithmetic_v<A> && std::is_arithmetic_v<B>)
      return pow(a, b);
    else if constexpr (std::is_arithmetic_v<B>)
      return a.unaryExpr([b](B x) { return pow(x, b); });
    else if constexpr (std::is_arithmetic_v<A>)
      return b.unaryExpr([a](A y) { return pow(a, y); });
    else
      return a.binaryExpr(b, [](typename A::Scalar x, typename A::Scalar y) { return pow(x, y); });
  }
};
template <class F>
struct Swapped {
  HEDDLE_HD static auto f(const auto& a, const auto& b) { return F::f(b, a); }
};

}  // namespace heddle::kernel
