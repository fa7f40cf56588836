// max, min, argmax and argmin: the largest or smallest elements along axes, or the position of the first one. As in
// PyTorch, a NaN counts as the largest and as the smallest element.
#pragma once
#include <cmath>

#include <heddle/base/threads.hpp>
#include <heddle/core/create.hpp>
#include <heddle/ops/merged_axes.hpp>

namespace heddle {

namespace kernel {

template <class T>
bool is_nan(T x) {
  if constexpr (std::is_integral_v<T>)
    return false;
  else
    return std::isnan(static_cast<Acc<T>>(x));
}

// Computes y, the largest (or smallest) element of x along its middle axis, and its first position on that axis. A NaN
// counts as the extremum.
template <class T>
void extremum(Cpu, bool smallest, View<const T, 3> x, View<T, 2> y, View<Index, 2> position) {
  const Index n = x.extent[1], inner = x.extent[2];
  const auto find = [&](const auto& is_kept, Index begin, Index end) {
    for (Index o = begin; o < end; ++o) {
      const T* xk = x.data + o * n * inner;
      T* const best = y.data + o * inner;
      Index* const at = position.data + o * inner;
      std::copy_n(xk, inner, best);
      std::fill_n(at, inner, 0);
      for (Index k = 1; k < n; ++k) {
        xk += inner;
        for (Index i = 0; i < inner; ++i) {
          if (is_kept(best[i], xk[i]) || is_nan(best[i])) continue;
          best[i] = xk[i];
          at[i] = k;
        }
      }
    }
  };
  parallel(x.extent[0], element_grain / std::max<Index>(n * inner, 1) + 1, [&](Index begin, Index end) {
    if (smallest)
      find([](T best, T other) { return other >= best; }, begin, end);
    else
      find([](T best, T other) { return other <= best; }, begin, end);
  });
}

// Writes dy to dx at the positions of the extrema. dx must be zero on entry.
template <class T>
void extremum_backward(Cpu, View<const T, 2> dy, View<const Index, 2> position, View<T, 3> dx) {
  for (Index o = 0; o < dy.extent[0]; ++o)
    for (Index i = 0; i < dy.extent[1]; ++i) dx(o, position(o, i), i) = dy(o, i);
}

}  // namespace kernel

namespace detail {

// The extreme values along an axis and their positions.
template <class T>
struct Extremum {
  Tensor<T> value;
  Tensor<Index> position;
};
// Computes the extreme values and their positions. Not recorded. Throws ShapeError if the axis is empty or
// does not exist.
template <class T>
Extremum<T> extremum_along(const char* op, bool smallest, const Tensor<T>& x, int axis, bool keepdim) {
  require<ShapeError>(x.dim(require_axis(op, x, axis)) > 0, op, ": axis ", axis, " of ", x.shape(), " is empty");
  const Shape shape = reduced(x.shape(), axis, keepdim);
  Extremum<T> y{Tensor<T>(shape, x.device()), Tensor<Index>(shape, x.device())};
  const auto around = view_around(x, axis);
  dispatch(x, [&](auto device) {
    kernel::extremum(device, smallest, around, View<T, 2>{y.value.device_data(), {around.extent[0], around.extent[2]}},
                     View<Index, 2>{y.position.device_data(), {around.extent[0], around.extent[2]}});
  });
  return y;
}
// Returns the extreme values along an axis, recorded.
template <class T>
Tensor<T> extreme_values(const char* op, bool smallest, const Tensor<T>& x, int axis, bool keepdim) {
  const Extremum<T> y = extremum_along(op, smallest, x, axis, keepdim);
  return record(op, y.value, inputs(x), [op, shape = x.shape(), axis, at = y.position](const Tensor<T>& dy) {
    Tensor<T> dx = zeros<T>(shape, dy.device());
    const auto around = view_around(dx, axis);
    dispatch_if_floating(dy, op, [&](auto device) {
      kernel::extremum_backward(device, View<const T, 2>{dy.device_data(), {around.extent[0], around.extent[2]}},
                                View<const Index, 2>{at.device_data(), {around.extent[0], around.extent[2]}}, around);
    });
    return dx;
  });
}

}  // namespace detail

/// Returns the largest values along one axis or several; NaN if any element is NaN. The gradient goes to the first of
/// equal elements. @throws ShapeError if an axis is empty or does not exist.
template <class T>
Tensor<T> max(const Tensor<T>& x, const Axes& axes, bool keepdim = false) {
  return detail::reduce_axes("max", x, axes, keepdim, [](const Tensor<T>& merged, int axis, bool keep) {
    return detail::extreme_values("max", false, merged, axis, keep);
  });
}
/// Returns the largest of all elements, a scalar []. @throws ShapeError if there are none.
template <class T>
Tensor<T> max(const Tensor<T>& x) {
  return max(reshape(x, Shape{x.size()}), 0);
}

/// Returns the smallest values along one axis or several; NaN if any element is NaN. The gradient goes to the first of
/// equal elements. @throws ShapeError if an axis is empty or does not exist.
template <class T>
Tensor<T> min(const Tensor<T>& x, const Axes& axes, bool keepdim = false) {
  return detail::reduce_axes("min", x, axes, keepdim, [](const Tensor<T>& merged, int axis, bool keep) {
    return detail::extreme_values("min", true, merged, axis, keep);
  });
}
/// Returns the smallest of all elements, a scalar []. @throws ShapeError if there are none.
template <class T>
Tensor<T> min(const Tensor<T>& x) {
  return min(reshape(x, Shape{x.size()}), 0);
}

/// Returns the positions of the first largest elements along an axis (of the first NaN if there is one). @throws
/// ShapeError if the axis is empty or does not exist.
template <class T>
Tensor<Index> argmax(const Tensor<T>& x, int axis, bool keepdim = false) {
  return detail::extremum_along("argmax", false, x, axis, keepdim).position;
}
/// Returns the position of the first largest of all elements in row-major order, a scalar []. @throws ShapeError if
/// there are none.
template <class T>
Tensor<Index> argmax(const Tensor<T>& x) {
  return argmax(x.with_shape({x.size()}), 0);
}
/// Returns the positions of the first smallest elements along an axis (of the first NaN if there is one). @throws
/// ShapeError if the axis is empty or does not exist.
template <class T>
Tensor<Index> argmin(const Tensor<T>& x, int axis, bool keepdim = false) {
  return detail::extremum_along("argmin", true, x, axis, keepdim).position;
}
/// Returns the position of the first smallest of all elements in row-major order, a scalar []. @throws ShapeError if
/// there are none.
template <class T>
Tensor<Index> argmin(const Tensor<T>& x) {
  return argmin(x.with_shape({x.size()}), 0);
}

}  // namespace heddle
