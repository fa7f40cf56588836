// Number types: the type that accumulates sums of each element type, and conversions between element types. Both
// devices use these definitions.
#pragma once
#include <concepts>
#include <limits>
#include <type_traits>

#include <heddle/base/bf16.hpp>

namespace heddle {

namespace detail {
template <class T>
struct Accumulator {
  using type = T;
};
template <>
struct Accumulator<bf16> {
  using type = float;
};
}  // namespace detail

/// The type in which functions of T, and sums of floating-point T, are computed: float for bf16, T itself otherwise.
template <class T>
using Acc = typename detail::Accumulator<T>::type;

/// The element types of floating-point operations: float, double and bf16.
template <class T>
concept Floating = !std::is_integral_v<T>;  // cast<float>(x) converts integers and bool

/// The element type of a sum of T: std::int64_t for integers and bool, as in PyTorch, T itself otherwise.
template <class T>
using Sum = std::conditional_t<std::is_integral_v<T>, std::int64_t, T>;

namespace kernel {

// The type in which a sum of T is accumulated. Integers are added as unsigned words, whose overflow is defined.
template <class T>
using SumAcc = std::conditional_t<std::is_integral_v<T>, std::uint64_t, Acc<T>>;

// The limits of U. At namespace scope because nvcc rejects host-only functions in __host__ __device__ code.
template <class U>
inline constexpr U max_value = std::numeric_limits<U>::max();
template <class U>
inline constexpr U min_value = std::numeric_limits<U>::min();

// Truncates v to an integer: values outside the range of U become its nearest limit, NaN becomes 0.
template <class U, class V>
HEDDLE_HD U truncate(V v) {
  constexpr V limit = V{2} * static_cast<V>(max_value<U> / 2 + 1);
  if (v >= limit) return max_value<U>;
  if (v <= -limit) return min_value<U>;
  return v == v ? static_cast<U>(v) : U{0};
}

// Converts x to U. A conversion to bf16 rounds to float first, then to bf16; a bool is true if x is not 0.
template <class U, class T>
HEDDLE_HD U convert(T x) {
  const Acc<T> v = x;
  if constexpr (std::is_same_v<U, bool>)
    return v != 0;
  else if constexpr (std::is_integral_v<U> && !std::is_integral_v<T>)
    return truncate<U>(v);
  else
    return static_cast<U>(static_cast<Acc<U>>(v));
}

}  // namespace kernel
}  // namespace heddle
