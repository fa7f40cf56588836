// max and argmax along one axis or over all elements: the first of the largest, a NaN being larger than all else.
#pragma once
#include <cmath>

#include <heddle/create.hpp>
#include <heddle/ops/axis.hpp>
#include <heddle/ops/reshape.hpp>
#include <heddle/parallel.hpp>

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

// What max and argmax give, both at once.
template <class T>
struct Largest {
  Tensor<T> value;
  Tensor<Index> position;
};
// Of one axis; not recorded. Throws ShapeError for an axis that is empty or is not there.
template <class T>
Largest<T> largest(const char* op, const Tensor<T>& x, int axis, bool keepdim) {
  require<ShapeError>(x.dim(require_axis(op, x, axis)) > 0, op, ": axis ", axis, " of ", x.shape(), " is empty");
  const Shape shape = reduced(x.shape(), axis, keepdim);
  Largest<T> y{Tensor<T>(shape, x.device()), Tensor<Index>(shape, x.device())};
  const auto around = view_around(x, axis);
  on(x, [&](auto device) {
    kernel::max(device, around, View<T, 2>{y.value.device_data(), {around.extent[0], around.extent[2]}},
                View<Index, 2>{y.position.device_data(), {around.extent[0], around.extent[2]}});
  });
  return y;
}

// The largest values; where there is a NaN, NaN. The gradient goes to the first of equals. Throws ShapeError for an
// empty axis.
template <class T>
Tensor<T> max(const Tensor<T>& x, int axis, bool keepdim = false) {
  const Largest<T> y = largest("max", x, axis, keepdim);
  return record("max", y.value, inputs(x), [shape = x.shape(), axis, at = y.position](const Tensor<T>& dy) {
    Tensor<T> dx = zeros<T>(shape, dy.device());
    const auto around = view_around(dx, axis);
    on_if_floating(dy, "max", [&](auto device) {
      kernel::max_backward(device, View<const T, 2>{dy.device_data(), {around.extent[0], around.extent[2]}},
                           View<const Index, 2>{at.device_data(), {around.extent[0], around.extent[2]}}, around);
    });
    return dx;
  });
}
// Of all elements: a scalar []. Throws ShapeError where there are none.
template <class T>
Tensor<T> max(const Tensor<T>& x) {
  return max(reshape(x, {x.size()}), 0);
}

// Positions of the first of the largest (of the first NaN, where there is one). Throws ShapeError for an empty axis.
template <class T>
Tensor<Index> argmax(const Tensor<T>& x, int axis, bool keepdim = false) {
  return largest("argmax", x, axis, keepdim).position;
}

}  // namespace heddle
