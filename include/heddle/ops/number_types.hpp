// What sums of each element type are, and how a number becomes one of another type: the same on the host and on the GPU.
#pragma once
#include <limits>

#include <heddle/view.hpp>

namespace heddle {

// What a sum of T is: int64 for integers and bool, as in PyTorch.
template <class T>
using Sum = std::conditional_t<std::is_integral_v<T>, std::int64_t, T>;

namespace kernel {

// Integers are added as unsigned words: overflow wraps around instead of being undefined.
template <class T>
using SumIn = std::conditional_t<std::is_integral_v<T>, std::uint64_t, Acc<T>>;

// At namespace scope, because nvcc takes no function of the host's in one of both.
template <class U>
inline constexpr U most = std::numeric_limits<U>::max();
template <class U>
inline constexpr U least = std::numeric_limits<U>::min();

// A fraction is cut off towards zero; beyond the integers of U the nearest one stands, and 0 for NaN.
template <class U, class V>
HEDDLE_HD U whole(V v) {
  constexpr V above = V{2} * static_cast<V>(most<U> / 2 + 1);
  if (v >= above) return most<U>;
  if (v <= -above) return least<U>;
  return v == v ? static_cast<U>(v) : U{0};
}

// x as a U: to floating types rounded once, to bool whether it is not 0.
template <class U, class T>
HEDDLE_HD U converted(T x) {
  const Acc<T> v = x;
  if constexpr (std::is_same_v<U, bool>)
    return v != 0;
  else if constexpr (std::is_integral_v<U> && !std::is_integral_v<T>)
    return whole<U>(v);
  else
    return static_cast<U>(static_cast<Acc<U>>(v));
}

}  // namespace kernel
}  // namespace heddle
