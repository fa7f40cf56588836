// max and argmax along one axis or over all elements: the first of the largest, a NaN being larger than all else.
#pragma once
#include <cmath>

#include <heddle/base/threads.hpp>
#include <heddle/core/create.hpp>
#include <heddle/ops/axis.hpp>
#include <heddle/ops/reshape.hpp>

namespace heddle {

namespace kernel {

template <class T>
bool is_nan(T x) {
  if constexpr (std::is_integral_v<T>)
    return false;
  else
    return std::isnan(static_cast<Acc<T>>(x));
}

// y = the first largest element of x along its middle axis, at its position there; a NaN is larger than all else.
template <class T>
void max(Cpu, View<const T, 3> x, View<T, 2> y, View<Index, 2> position) {
  constexpr Index grain = 16384;  // a few microseconds
  const Index n = x.extent[1], inner = x.extent[2];
  parallel(x.extent[0], grain / std::max<Index>(n * inner, 1) + 1, [&](Index begin, Index end) {
    for (Index o = begin; o < end; ++o) {
      const T* xk = x.data + o * n * inner;
      T* const best = y.data + o * inner;
      Index* const at = position.data + o * inner;
      std::copy_n(xk, inner, best);
      std::fill_n(at, inner, 0);
      for (Index k = 1; k < n; ++k) {
        xk += inner;
        for (Index i = 0; i < inner; ++i) {
          if (xk[i] <= best[i] || is_nan(best[i])) continue;
          best[i] = xk[i];
          at[i] = k;
        }
      }
    }
  });
}

// dx = dy at the positions of the largest, 0 elsewhere
template <class T>
void max_backward(Cpu, View<const T, 2> dy, View<const Index, 2> position, View<T, 3> dx) {
  for (Index o = 0; o < dy.extent[0]; ++o)
    for (Index i = 0; i < dy.extent[1]; ++i) dx(o, position(o, i), i) = dy(o, i);
}

}  // namespace kernel

namespace detail {

// The largest values and their positions.
template <class T>
struct MaxResult {
  Tensor<T> value;
  Tensor<Index> position;
};
// Computes both along an axis. Not recorded. Throws ShapeError if the axis is empty or does not exist.
template <class T>
MaxResult<T> max_along(const char* op, const Tensor<T>& x, int axis, bool keepdim) {
  require<ShapeError>(x.dim(require_axis(op, x, axis)) > 0, op, ": axis ", axis, " of ", x.shape(), " is empty");
  const Shape shape = reduced(x.shape(), axis, keepdim);
  MaxResult<T> y{Tensor<T>(shape, x.device()), Tensor<Index>(shape, x.device())};
  const auto around = view_around(x, axis);
  dispatch(x, [&](auto device) {
    kernel::max(device, around, View<T, 2>{y.value.device_data(), {around.extent[0], around.extent[2]}},
                View<Index, 2>{y.position.device_data(), {around.extent[0], around.extent[2]}});
  });
  return y;
}

}  // namespace detail

/// Returns the largest values along an axis, NaN where there is one. The gradient goes to the first of equals.
/// @throws ShapeError for an empty axis.
template <class T>
Tensor<T> max(const Tensor<T>& x, int axis, bool keepdim = false) {
  const detail::MaxResult<T> y = detail::max_along("max", x, axis, keepdim);
  return record("max", y.value, inputs(x), [shape = x.shape(), axis, at = y.position](const Tensor<T>& dy) {
    Tensor<T> dx = zeros<T>(shape, dy.device());
    const auto around = detail::view_around(dx, axis);
    detail::dispatch_if_floating(dy, "max", [&](auto device) {
      kernel::max_backward(device, View<const T, 2>{dy.device_data(), {around.extent[0], around.extent[2]}},
                           View<const Index, 2>{at.device_data(), {around.extent[0], around.extent[2]}}, around);
    });
    return dx;
  });
}
/// Returns the largest of all elements, a scalar []. @throws ShapeError if there are none.
template <class T>
Tensor<T> max(const Tensor<T>& x) {
  return max(reshape(x, {x.size()}), 0);
}

/// Returns the positions of the first largest elements (of the first NaN if there is one). @throws ShapeError for an empty axis.
template <class T>
Tensor<Index> argmax(const Tensor<T>& x, int axis, bool keepdim = false) {
  return detail::max_along("argmax", x, axis, keepdim).position;
}

}  // namespace heddle
