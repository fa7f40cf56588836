// var, std, norm and logsumexp along axes. All compute in the accumulator type (float for bf16) and round once.
#pragma once
#include <heddle/autograd/backward.hpp>
#include <heddle/ops/compare.hpp>
#include <heddle/ops/logical.hpp>
#include <heddle/ops/maximum.hpp>
#include <heddle/ops/pow.hpp>

namespace heddle {

namespace detail {

// Returns x^p for x >= 0, with a gradient of 0 at 0, as in PyTorch's norms.
template <class T>
Tensor<T> pow_with_flat_zero(const Tensor<T>& x, double p) {
  const Tensor<bool> is_zero = x == 0;
  const Tensor<T> positive = masked_fill(x, is_zero, 1);
  return masked_fill(p == 0.5 ? sqrt(positive) : pow(positive, p), is_zero, 0);
}

// Returns f(x), a root of a sum of p-th powers along axes, so that no power overflows or underflows unless the result
// does. f(s x) is s f(x) for s > 0, so where the largest |x| is far from 1, f is computed of x divided by it. The CPU
// looks at the plain result first.
template <class A, class F>
Tensor<A> without_overflow(const Tensor<A>& x, double p, const Axes& axes, bool keepdim, F&& f) {
  using Limits = std::numeric_limits<A>;
  const double power = std::max(p, 1.0);
  if (x.size() == 0) return f(x);
  if (x.device() == Device::cpu) {
    const Tensor<A> y = f(x);
    const auto least =
        static_cast<A>(std::exp2((Limits::min_exponent + 2 * Limits::digits) / power));  // smaller powers lose digits
    const A* const values = std::as_const(y).data();
    if (std::all_of(values, values + y.size(), [=](A v) { return v >= least && v <= Limits::max(); })) return y;
  }
  const double high = std::exp2(80 / power), low = 1 / high;
  const Tensor<A> largest = max(abs(detach(x)), axes, true);
  const Tensor<bool> is_usual = logical_and(largest >= low, largest <= high),
                     is_special = logical_or(largest == 0, logical_not(isfinite(largest)));
  const Tensor<A> scale = masked_fill(largest, logical_or(is_usual, is_special), 1), y = f(x / scale);
  return y * (keepdim ? scale : reshape(scale, y.shape()));
}

}  // namespace detail

/// The options of torch.var and torch.std.
struct VarOptions {
  double correction = 1;  ///< the sum of squared deviations is divided by the number of elements minus this
  bool keepdim = false;   ///< keep the reduced axes with extent 1
};
/// Returns the variance along axes. If there are no more elements than `correction`, it is NaN or infinite, as in
/// PyTorch. @throws ShapeError if an axis does not exist.
template <Floating T>
Tensor<T> var(const Tensor<T>& x, const Axes& axes, const VarOptions& options = {}) {
  using A = Acc<T>;
  const detail::MergedAxes<A> merged("var", cast<A>(x), axes, options.keepdim);
  const Tensor<A> difference = merged.x - mean(merged.x, merged.axis, true);
  const Tensor<A> squares = sum(difference * difference, merged.axis);
  const double divisor = std::max(0.0, static_cast<double>(merged.extent()) - options.correction);
  return cast<T>(reshape(squares / divisor, merged.reduced));
}
/// Returns the unbiased variance of all elements, a scalar [].
template <Floating T>
Tensor<T> var(const Tensor<T>& x) {
  return var(x, Axes::all());
}

/// Returns the standard deviation along axes, the square root of var. Its gradient is 0 where the deviation is 0, as in
/// PyTorch. After `using namespace heddle`, call it as heddle::std: the name std alone is ambiguous.
/// @throws ShapeError if an axis does not exist.
template <Floating T>
Tensor<T> std(const Tensor<T>& x, const Axes& axes, const VarOptions& options = {}) {
  return cast<T>(detail::without_overflow(cast<Acc<T>>(x), 2, axes, options.keepdim, [&](const Tensor<Acc<T>>& scaled) {
    return detail::pow_with_flat_zero(var(scaled, axes, options), 0.5);
  }));
}
/// Returns the unbiased standard deviation of all elements, a scalar [].
template <Floating T>
Tensor<T> std(const Tensor<T>& x) {
  return heddle::std(x, Axes::all());
}

/// Returns the p-norm along axes, (sum |x|^p)^(1/p). The arguments are in PyTorch's order. p = 0 counts the nonzero
/// elements; infinity takes the largest |x|. The gradient is 0 where the norm is 0. @throws ShapeError if an axis does
/// not exist, or is empty for an infinite p, and Error for a p that is negative or NaN.
template <Floating T>
Tensor<T> norm(const Tensor<T>& x, double p, const Axes& axes, bool keepdim = false) {
  require(p >= 0, "norm: p must not be negative, got ", p);
  const Tensor<Acc<T>> wide = cast<Acc<T>>(x);
  if (p == 0) return cast<T>(sum(cast<Acc<T>>(wide != 0), axes, keepdim));
  if (p == 1) return cast<T>(sum(abs(wide), axes, keepdim));
  if (std::isinf(p)) return cast<T>(max(abs(wide), axes, keepdim));
  return cast<T>(detail::without_overflow(wide, p, axes, keepdim, [&](const Tensor<Acc<T>>& v) {
    const Tensor<Acc<T>> powers = p == 2 ? v * v : detail::pow_with_flat_zero(abs(v), p);
    return detail::pow_with_flat_zero(sum(powers, axes, keepdim), 1 / p);
  }));
}
/// Returns the p-norm of all elements, a scalar []. @throws ShapeError if there are none for an infinite p, and Error
/// for a p that is negative or NaN.
template <Floating T>
Tensor<T> norm(const Tensor<T>& x, double p = 2) {
  return norm(x, p, Axes::all());
}

/// Returns log(sum(exp(x))) along axes, computed so that no exponential overflows; -infinity for an empty axis. If all
/// elements are -infinity, the gradient is 0. @throws ShapeError if an axis does not exist.
template <Floating T>
Tensor<T> logsumexp(const Tensor<T>& x, const Axes& axes, bool keepdim = false) {
  using A = Acc<T>;
  const detail::MergedAxes<A> merged("logsumexp", cast<A>(x), axes, keepdim);
  const Tensor<A> values = detach(merged.x);
  Tensor<A> offset = zeros<A>(values.shape().with(merged.axis, 1), x.device());
  if (merged.extent() > 0) {
    const Tensor<A> largest = max(values, merged.axis, true);
    offset = masked_fill(largest, logical_not(isfinite(largest)), 0);
  }
  const Tensor<A> exponentials = sum(exp(values - offset), merged.axis, true);
  const Tensor<A> y = record("logsumexp", log(exponentials) + offset, inputs(merged.x), [=](const Tensor<A>& dy) {
    return dy * masked_fill(exp(values - offset) / exponentials, exponentials == 0, 0);
  });
  return cast<T>(reshape(y, merged.reduced));
}

template <std::integral T, class... Others>
void var(const Tensor<T>&, const Others&...) = delete;  // needs cast<float>(x)
template <std::integral T>
void var(const Tensor<T>&, const Axes&, const VarOptions& = {}) = delete;  // needs cast<float>(x)
template <std::integral T, class... Others>
void std(const Tensor<T>&, const Others&...) = delete;  // needs cast<float>(x)
template <std::integral T>
void std(const Tensor<T>&, const Axes&, const VarOptions& = {}) = delete;  // needs cast<float>(x)
template <std::integral T, class... Others>
void norm(const Tensor<T>&, const Others&...) = delete;  // needs cast<float>(x)
template <std::integral T>
void norm(const Tensor<T>&, double, const Axes&, bool = false) = delete;  // needs cast<float>(x)
template <std::integral T, class... Others>
void logsumexp(const Tensor<T>&, const Others&...) = delete;  // needs cast<float>(x)
template <std::integral T>
void logsumexp(const Tensor<T>&, const Axes&, bool = false) = delete;  // needs cast<float>(x)

}  // namespace heddle
