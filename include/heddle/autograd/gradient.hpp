// RowGradient: a gradient that may be sparse by rows. WeightGradient: a gradient that may be in the type of its
// sums.
#pragma once
#include <heddle/core/dispatch.hpp>
#include <heddle/core/move.hpp>

namespace heddle {

namespace detail {
// Returns a tensor with the same values in its own block.
template <class T>
Tensor<T> deep_copy(const Tensor<T>& x) {
  Tensor<T> y = empty_like(x);
  dispatch(x, [&](auto device) { kernel::copy(device, view<1>(x), view<1>(y)); });
  return y;
}
}  // namespace detail

/// A gradient that is zero in most rows, such as an embedding's. `rows` lists the other rows, ascending and distinct.
/// If `rows` is an empty tensor, `values` is the whole gradient.
template <class T>
struct RowGradient {
  Tensor<Index> rows;  ///< the rows, [M]
  Tensor<T> values;    ///< their gradients, [M, the other axes as one]

  /// Returns whether there are values.
  explicit operator bool() const { return static_cast<bool>(values); }

  /// Returns the whole gradient, of the given shape.
  Tensor<T> dense(const Shape& shape) const {
    if (!rows) return values;
    Tensor<T> y(shape, values.device());
    const View<T, 2> matrix{y.device_data(), {shape[0], values.dim(1)}};
    on_cpu(y, "RowGradient", [&](Cpu cpu) { kernel::put_rows(cpu, view<1>(rows), view<2>(values), matrix); });
    return y;
  }
};

namespace detail {

// The gradient of a bf16 tensor: rounded to bf16, or the sums in float, which only the cast of a parameter takes. At
// most one of them is given.
struct Bf16Gradient {
  Tensor<bf16> rounded;
  Tensor<float> sums;

  Bf16Gradient(const Tensor<bf16>& dx) : rounded(dx) {}
  explicit Bf16Gradient(const Tensor<float>& dx) : sums(dx) {}
};
template <class T>
using WeightGradient = std::conditional_t<std::is_same_v<T, bf16>, Bf16Gradient, Tensor<T>>;

}  // namespace detail
}  // namespace heddle
