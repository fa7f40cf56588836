// pow(x, y) of each element, with broadcasting; a number may stand on either side. Special values are those of std::pow. Gradients
// are those of PyTorch: that of x^0 is 0, and that of 0^y with respect to y >= 0 is 0.
#pragma once
#include <heddle/ops/compare.hpp>
#include <heddle/ops/logical.hpp>
#include <heddle/ops/map.hpp>

namespace heddle {

namespace detail {

// Returns values where they count, 0 elsewhere, even instead of NaN.
template <class T>
Tensor<T> zero_where(const Tensor<bool>& condition, const Tensor<T>& values) {
  return select(values.shape(), condition, zeros<T>({}, values.device()), values);
}

}  // namespace detail

/// Returns x^exponent of each element.
template <class T, NumberFor<T> S>
Tensor<T> pow(const Tensor<T>& x, S exponent) {
  static_assert(!std::is_integral_v<T>, "heddle::pow: cast integers to a floating type first");
  const auto n = static_cast<double>(exponent);
  return record("pow", detail::combine<kernel::Power>("pow", x, n), inputs(x), [=](const Tensor<T>& dy) {
    return n == 0 ? zeros<T>(x.shape(), x.device()) : dy * (pow(x, n - 1) * n);
  });
}

/// Returns base^x of each element.
template <class T, NumberFor<T> S>
Tensor<T> pow(S base, const Tensor<T>& x) {
  static_assert(!std::is_integral_v<T>, "heddle::pow: cast integers to a floating type first");
  const auto b = static_cast<double>(base);
  const Tensor<T> y = detail::combine<kernel::Swapped<kernel::Power>>("pow", x, b);
  return record("pow", y, inputs(x), [=](const Tensor<T>& dy) {
    const Tensor<T> dx = dy * (y * std::log(b));
    return b == 0 ? detail::zero_where(x >= 0, dx) : dx;
  });
}

/// Returns x^exponent of each element. @throws ShapeError for shapes that do not broadcast.
template <class T>
Tensor<T> pow(const Tensor<T>& x, const Tensor<T>& exponent) {
  static_assert(!std::is_integral_v<T>, "heddle::pow: cast integers to a floating type first");
  using A = Acc<T>;
  const Tensor<T> y = detail::combine<kernel::Power, T>("pow", x, exponent);
  return record("pow", y, inputs(x, exponent),
                [=, to_x = detail::GradientTarget(x), to_n = detail::GradientTarget(exponent)](const Tensor<T>& dy) {
                  const Tensor<A> dy_wide = cast<A>(dy), b = cast<A>(x), n = cast<A>(exponent);
                  Tensor<T> dx, dn;
                  if (to_x.gradient)
                    dx = detail::sum_to<T>(detail::zero_where(n == 0, dy_wide * (n * pow(b, n - 1))), to_x);
                  if (to_n.gradient)
                    dn = detail::sum_to<T>(
                        detail::zero_where(logical_and(b == 0, n >= 0), dy_wide * (pow(b, n) * log(b))), to_n);
                  return std::tuple(dx, dn);
                });
}

}  // namespace heddle
