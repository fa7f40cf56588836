// cast<U>(x): each element as a U. Between floating types it is differentiable: graphs of different element types
// connect.
#pragma once
#include <heddle/autograd.hpp>
#include <heddle/eigen.hpp>
#include <heddle/ops/number_types.hpp>
#include <heddle/parallel.hpp>

namespace heddle {

namespace kernel {

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
    for (Index i = first; i < last; ++i) y(i) = converted<U>(x(i));
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
    const auto convert = [&](auto device) { kernel::cast(device, view<1>(x), view<1>(y)); };
    if constexpr (std::is_same_v<U, double>)
      on_cpu(x, "cast", convert);
    else
      on(x, convert);
    if constexpr (std::is_integral_v<T> || std::is_integral_v<U>)
      return y;
    else
      return record("cast", y, inputs(x), [](const Tensor<U>& dy) { return cast<T>(dy); });
  }
}

}  // namespace heddle
