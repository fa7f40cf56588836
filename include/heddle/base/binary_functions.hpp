// Function objects of two values: + - * /, the larger and the smaller, powers, and comparisons. Each is written once,
// for both devices, and except comparisons for SIMD vectors, too (cpu/vector.hpp).
#pragma once
#include <cmath>
#include <type_traits>

#include <heddle/base/build.hpp>
#include <heddle/base/error.hpp>
#include <heddle/base/scalar_functions.hpp>

namespace heddle::kernel {

// Returns an integer as a number of its unsigned type, whose overflow is defined, and anything else as it is.
HEDDLE_FORMULA template <class V, bool integer = std::is_integral_v<V>>
HEDDLE_HD auto wrapping(const V& v) {
  if constexpr (integer)
    return static_cast<std::make_unsigned_t<V>>(v);
  else
    return v;
}

// The sum of two numbers or two vectors. The structs below have the same form, F::f(a, b).
struct Add {
  HEDDLE_FORMULA HEDDLE_HD static auto f(const auto& a, const auto& b) { return wrapping(a) + wrapping(b); }
};
struct Sub {
  HEDDLE_FORMULA HEDDLE_HD static auto f(const auto& a, const auto& b) { return wrapping(a) - wrapping(b); }
};
struct Mul {
  HEDDLE_FORMULA HEDDLE_HD static auto f(const auto& a, const auto& b) { return wrapping(a) * wrapping(b); }
};
struct Div {
  HEDDLE_FORMULA template <class V, bool integer = std::is_integral_v<V>>
  HEDDLE_HD static auto f(const V& a, const auto& b) {
    if constexpr (integer) {
      require(b != 0, "div: an integer is divided by 0");
      return b == -1 ? -wrapping(a) : wrapping(a / b);  // the smallest integer divided by -1 overflows
    } else {
      return a / b;
    }
  }
};

// The larger or the smaller of two values, or NaN if one of them is NaN.
struct Larger {
  HEDDLE_FORMULA template <class V>
  HEDDLE_HD static auto f(const V& a, const V& b) {
    return select(a >= b || a != a, a, b);
  }
};
struct Smaller {
  HEDDLE_FORMULA template <class V>
  HEDDLE_HD static auto f(const V& a, const V& b) {
    return select(a <= b || a != a, a, b);
  }
};
struct Power {
  HEDDLE_FORMULA template <class V>
  HEDDLE_HD static auto f(const V& a, const V& b) {
    using std::pow;
    return pow(a, b);
  }
};
template <class F>
struct Swapped {
  HEDDLE_FORMULA HEDDLE_HD static auto f(const auto& a, const auto& b) { return F::f(b, a); }
};

// Comparisons. > and >= swap their operands.
struct Equal {
  HEDDLE_FORMULA HEDDLE_HD static bool f(auto a, auto b) { return a == b; }
};
struct NotEqual {
  HEDDLE_FORMULA HEDDLE_HD static bool f(auto a, auto b) { return a != b; }
};
struct Less {
  HEDDLE_FORMULA HEDDLE_HD static bool f(auto a, auto b) { return a < b; }
};
struct LessEqual {
  HEDDLE_FORMULA HEDDLE_HD static bool f(auto a, auto b) { return a <= b; }
};

}  // namespace heddle::kernel
