// cast<U>(x): each element as a U. Between floating types it is differentiable: graphs of different element types
// connect.
#pragma once
#include <heddle/autograd.hpp>
#include <heddle/eigen.hpp>
#include <heddle/parallel.hpp>

namespace heddle {

namespace kernel {

// A fraction is cut off towards zero; beyond the integers of U the nearest one stands, and 0 for NaN.
template <class U, class V>
U whole(V v) {
  constexpr V above = V{2} * static_cast<V>(std::numeric_limits<U>::max() / 2 + 1);
  if (v >= above) return std::numeric_limits<U>::max();
  if (v <= -above) return std::numeric_limits<U>::min();
  return v == v ? static_cast<U>(v) : U{0};
}

template <class T, class U>
void cast(Cpu, View<const T, 1> x, View<U, 1> y) {
  constexpr Index grain = 16384;  // a few microseconds
  parallel(x.extent[0], grain, [&](Index first, Index last) {
    if constexpr (!std::is_integral_v<T> && !std::is_integral_v<U>) {
      using Narrow = std::conditional_t<std::is_same_v<U, bf16>, U, T>;
      in_stretches<Narrow>(first, last,
                           [&](Index i, Index n) { store(array(y.data + i, n), load(array(x.data + i, n))); });
      return;
    }
    for (Index i = first; i < last; ++i) {
      const Acc<T> v = x(i);
      if constexpr (std::is_same_v<U, bool>)
        y(i) = v != 0;
      else if constexpr (std::is_integral_v<U> && !std::is_integral_v<T>)
        y(i) = whole<U>(v);
      else
        y(i) = static_cast<U>(static_cast<Acc<U>>(v));
    }
  });
}

}  // namespace kernel

// To floating types rounded to nearest; to integers cut off towards zero, what lies outside their range to the nearest
// of it and NaN to 0; between integers modulo 2^n; to bool whether it is not 0. The same type gives x itself.
template <class U, class T>
Tensor<U> cast(const Tensor<T>& x) {
  if constexpr (std::is_same_v<T, U>) {
    return x;
  } else {
    Tensor<U> y(x.shape(), x.device());
    on(x, [&](auto device) { kernel::cast(device, view<1>(x), view<1>(y)); });
    if constexpr (std::is_integral_v<T> || std::is_integral_v<U>)
      return y;
    else
      return record("cast", y, inputs(x), [](const Tensor<U>& dy) { return cast<T>(dy); });
  }
}

}  // namespace heddle
