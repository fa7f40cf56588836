// cast<U>(x): converts each element to U. It is differentiable between floating types, so that one graph may contain
// several element types.
#pragma once
#include <heddle/autograd/record.hpp>
#include <heddle/base/number_types.hpp>
#include <heddle/base/threads.hpp>
#include <heddle/cpu/vector.hpp>

namespace heddle {

namespace kernel {

template <class T, class U>
void cast(Cpu, View<const T, 1> x, View<U, 1> y) {
  parallel(x.extent[0], element_grain, [&](Index first, Index last) {
    if constexpr (std::is_integral_v<T> || std::is_integral_v<U>)
      for (Index i = first; i < last; ++i) y(i) = convert<U>(x(i));
    else
      copy_row(y.data + first, x.data + first, last - first);
  });
}

}  // namespace kernel

namespace detail {
// Writes the converted elements of x to y. Throws Error for a cast to double on a GPU.
template <class T, class U>
void cast_into(const Tensor<T>& x, Tensor<U>& y) {
  const auto convert = [&](auto device) { kernel::cast(device, view<1>(x), view<1>(y)); };
  if constexpr (std::is_same_v<U, double>)
    on_cpu(x, "cast", convert);
  else
    dispatch(x, convert);
}
}  // namespace detail

/// Returns each element converted to U, and x itself if U is T. A conversion to a floating type rounds to nearest; a
/// double or an integer is rounded to float first if U is bf16. In a conversion to an integer, a floating-point number
/// is truncated towards zero and clamped to the integer's range; NaN becomes 0. Conversions between integers are modulo
/// 2^n. A bool is true for every element that is not 0. @throws Error for a cast to double on a GPU.
template <class U, class T>
Tensor<U> cast(const Tensor<T>& x) {
  if constexpr (std::is_same_v<T, U>) {
    return x;
  } else {
    Tensor<U> y(x.shape(), x.device());
    detail::cast_into(x, y);
    if constexpr (std::is_integral_v<T> || std::is_integral_v<U>)
      return y;
    else
      return record("cast", y, inputs(x), [](const Tensor<U>& dy) { return cast<T>(dy); });
  }
}

}  // namespace heddle
