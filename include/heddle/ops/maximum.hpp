// maximum(a, b), minimum(a, b) and clamp(x, {.min, .max}) of each element. A NaN in an operand gives NaN.
#pragma once
#include <limits>

#include <heddle/ops/compare.hpp>
#include <heddle/ops/logical.hpp>

namespace heddle {

namespace detail {

// Returns the gradient of one of two operands: dy where it was chosen, dy / 2 where both are equal, 0 where the other
// was chosen.
template <class T>
Tensor<T> chosen_gradient(const Tensor<T>& dy, const Tensor<bool>& is_equal, const Tensor<bool>& passed_over,
                          const GradientTarget& to) {
  if (!to.requires_grad) return {};
  const Tensor<T> share = choose(dy.shape(), is_equal, dy / 2, dy);
  return sum_to<T>(choose(dy.shape(), passed_over, zeros<T>({}, dy.device()), share), to);
}

// Returns the larger or the smaller of two operands, as F chooses; passed_over(x, other) tells whether x was not
// chosen.
template <class F, class T, class PassedOver>
Tensor<T> choose(const char* op, const Tensor<T>& a, const Tensor<T>& b, PassedOver passed_over) {
  const Tensor<T> y = combine<F, T>(op, a, b);
  if constexpr (std::is_integral_v<T>)
    return y;
  else
    return record(op, y, inputs(a, b), [=, to_a = GradientTarget(a), to_b = GradientTarget(b)](const Tensor<T>& dy) {
      const Tensor<bool> is_equal = a == b;
      return std::tuple(chosen_gradient(dy, is_equal, passed_over(a, b), to_a),
                        chosen_gradient(dy, is_equal, passed_over(b, a), to_b));
    });
}

}  // namespace detail

/// Returns the larger of a and b, for each element. Where they are equal each gets half of the gradient, as in PyTorch.
/// @throws ShapeError for shapes that do not broadcast, and Error for integers on a GPU.
template <class T>
Tensor<T> maximum(const Tensor<T>& a, const Tensor<T>& b) {
  return detail::choose<kernel::Larger>("maximum", a, b, [](const auto& x, const auto& other) { return x < other; });
}
/// Returns the smaller of a and b, for each element. Where they are equal each gets half of the gradient, as in
/// PyTorch. @throws ShapeError for shapes that do not broadcast, and Error for integers on a GPU.
template <class T>
Tensor<T> minimum(const Tensor<T>& a, const Tensor<T>& b) {
  return detail::choose<kernel::Smaller>("minimum", a, b, [](const auto& x, const auto& other) { return other < x; });
}

/// The bounds of clamp. The defaults do not limit any value.
struct ClampOptions {
  double min = -std::numeric_limits<double>::infinity();  ///< lower limit
  double max = std::numeric_limits<double>::infinity();   ///< upper limit
};
/// Returns each element limited to [min, max], as in clamp(x, {.min = 0, .max = 1}). If min > max, every element
/// becomes max. The gradient is dy strictly between the bounds and 0 elsewhere, as in PyTorch 2.15. @throws Error for a
/// NaN bound.
template <Floating T>
Tensor<T> clamp(const Tensor<T>& x, const ClampOptions& options) {
  const double least = options.min, greatest = options.max;
  require(!std::isnan(least) && !std::isnan(greatest), "clamp: the bounds must not be NaN, got min = ", least,
          ", max = ", greatest);
  const Tensor<T> y =
      detail::combine<kernel::Smaller>("clamp", detail::combine<kernel::Larger>("clamp", x, least), greatest);
  return record("clamp", y, inputs(x), [=](const Tensor<T>& dy) {
    const Tensor<bool> inside = logical_and(x > least, x < greatest);
    return detail::choose(dy.shape(), inside, dy, zeros<T>({}, dy.device()));
  });
}

template <std::integral T, class... Others>
void clamp(const Tensor<T>&, const Others&...) = delete;  // needs cast<float>(x)
template <std::integral T>
void clamp(const Tensor<T>&, const ClampOptions&) = delete;  // needs cast<float>(x)

}  // namespace heddle
