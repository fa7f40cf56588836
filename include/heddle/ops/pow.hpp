// pow(x, y) for each element, with broadcasting; a number may stand on either side. Special values are those of
// std::pow. Gradients are those of PyTorch: that of x^0 is 0, and that of 0^y with respect to y >= 0 is 0.
#pragma once
#include <heddle/ops/compare.hpp>
#include <heddle/ops/logical.hpp>
#include <heddle/ops/map.hpp>

namespace heddle {

namespace detail {

// Returns 0 where the condition holds, even if the value there is NaN, and the values elsewhere.
template <class T>
Tensor<T> zero_where(const Tensor<bool>& condition, const Tensor<T>& values) {
  return choose(values.shape(), condition, zeros<T>({}, values.device()), values);
}

}  // namespace detail

/// Returns x^exponent for each element. This function and the next two compute bf16 in float.
template <Floating T, NumberFor<T> S>
Tensor<T> pow(const Tensor<T>& x, S exponent) {
  const auto n = static_cast<double>(exponent);
  if constexpr (!std::is_same_v<T, Acc<T>>)
    return cast<T>(pow(cast<Acc<T>>(x), n));
  else
    return record("pow", detail::combine<kernel::Power>("pow", x, n), inputs(x), [=](const Tensor<T>& dy) {
      return n == 0 ? zeros<T>(x.shape(), x.device()) : dy * (pow(x, n - 1) * n);
    });
}

/// Returns base^x for each element.
template <Floating T, NumberFor<T> S>
Tensor<T> pow(S base, const Tensor<T>& x) {
  const auto b = static_cast<double>(base);
  if constexpr (!std::is_same_v<T, Acc<T>>) {
    return cast<T>(pow(b, cast<Acc<T>>(x)));
  } else {
    const Tensor<T> y = detail::combine<kernel::Swapped<kernel::Power>>("pow", x, b);
    return record("pow", y, inputs(x), [=](const Tensor<T>& dy) {
      const Tensor<T> dx = dy * (y * std::log(b));
      return b == 0 ? detail::zero_where(x >= 0, dx) : dx;
    });
  }
}

/// Returns x^exponent for each element. @throws ShapeError for shapes that do not broadcast.
template <Floating T>
Tensor<T> pow(const Tensor<T>& x, const Tensor<T>& exponent) {
  if constexpr (!std::is_same_v<T, Acc<T>>) {
    return cast<T>(pow(cast<Acc<T>>(x), cast<Acc<T>>(exponent)));
  } else {
    const Tensor<T> y = detail::combine<kernel::Power, T>("pow", x, exponent);
    const detail::GradientTarget to_x(x), to_exponent(exponent);
    return record("pow", y, inputs(x, exponent), [=](const Tensor<T>& dy) {
      Tensor<T> dx, dn;
      if (to_x.requires_grad) {
        const Tensor<T> values = dy * (exponent * pow(x, exponent - 1));
        dx = detail::sum_to<T>(detail::zero_where(exponent == 0, values), to_x);
      }
      if (to_exponent.requires_grad) {
        const Tensor<bool> of_zero = logical_and(x == 0, exponent >= 0);
        dn = detail::sum_to<T>(detail::zero_where(of_zero, dy * (y * log(x))), to_exponent);
      }
      return std::tuple(dx, dn);
    });
  }
}

template <std::integral T, class... Others>
void pow(const Tensor<T>&, const Others&...) = delete;  // needs cast<float>(x)

}  // namespace heddle
