// softmax and log_softmax along an axis. Both save only their result. A row whose elements are all masked gives zeros; an
// unmasked row of -infinity gives NaN, as in PyTorch.
#pragma once
#include <heddle/autograd/record.hpp>
#include <heddle/base/softmax_functions.hpp>
#include <heddle/cpu/eigen.hpp>
#include <heddle/ops/axis.hpp>
#include <heddle/ops/where.hpp>

namespace heddle {

namespace kernel {

// Computes the softmax along an axis whose elements are contiguous.
template <class F, class T>
void softmax_rows(F, View<const T, 2> x, bool empty_gives_zeros, View<T, 2> y) {
  using A = Acc<T>;
  parallel(x.extent[0], rows_per_piece(x.extent[1]), [&](Index first, Index last) {
    RowArray<A> e(x.extent[1]);
    RowReader<T> x_row(x.extent[1]);
    for (Index n = first; n < last; ++n) {
      const auto xn = x_row(x, n);
      const A greatest = xn.maxCoeff();
      const A top = empty_gives_zeros && greatest == -std::numeric_limits<A>::infinity() ? A(0) : greatest;
      e = exp_or_zero(xn - top);
      const A sum = e.sum();  // NaN if an element is NaN, which maxCoeff() may miss
      store(row(y, n), F::value(xn - top, e, empty_gives_zeros && sum == 0 ? A(1) : sum));
    }
  });
}

template <class F, class T>
void softmax_rows_backward(F, View<const T, 2> dy, View<const T, 2> y, View<T, 2> dx) {
  parallel(y.extent[0], rows_per_piece(y.extent[1]), [&](Index first, Index last) {
    RowReader<T> dy_row(y.extent[1]), y_row(y.extent[1]);
    for (Index n = first; n < last; ++n) {
      const auto dyn = dy_row(dy, n);
      const auto yn = y_row(y, n);
      store(row(dx, n), F::gradient(dyn, yn, F::weight(dyn, yn).sum()));
    }
  });
}

// Computes the softmax along an axis that is not the last, for all positions on the axes after it at once.
template <class F, class T>
void softmax_middle(F, View<const T, 3> x, bool empty_gives_zeros, View<T, 3> y) {
  using A = Acc<T>;
  const Index n = x.extent[1], inner = x.extent[2];
  parallel(x.extent[0], rows_per_piece(n * inner), [&](Index first, Index last) {
    RowArray<A> top(inner), sum(inner);
    RowReader<T> x_row(inner);
    for (Index o = first; o < last; ++o) {
      const View<const T, 2> xo{x.data + o * n * inner, {n, inner}};
      const View<T, 2> yo{y.data + o * n * inner, {n, inner}};
      top = x_row(xo, 0);
      for (Index k = 1; k < n; ++k) top = top.max(x_row(xo, k));
      if (empty_gives_zeros) top = (top == -std::numeric_limits<A>::infinity()).select(A(0), top);
      sum.setZero();
      for (Index k = 0; k < n; ++k) sum += exp_or_zero(x_row(xo, k) - top);
      if (empty_gives_zeros) sum = (sum == 0).select(A(1), sum);
      for (Index k = 0; k < n; ++k)
        store(row(yo, k), F::value(x_row(xo, k) - top, exp_or_zero(x_row(xo, k) - top), sum));
    }
  });
}

template <class F, class T>
void softmax_middle_backward(F, View<const T, 3> dy, View<const T, 3> y, View<T, 3> dx) {
  const Index n = y.extent[1], inner = y.extent[2];
  parallel(y.extent[0], rows_per_piece(n * inner), [&](Index first, Index last) {
    RowArray<Acc<T>> sum(inner);
    RowReader<T> dy_row(inner), y_row(inner);
    for (Index o = first; o < last; ++o) {
      const auto matrix_at = [&](auto v) {
        return View<std::remove_pointer_t<decltype(v.data)>, 2>{v.data + o * n * inner, {n, inner}};
      };
      const auto dyo = matrix_at(dy), yo = matrix_at(y);
      const View<T, 2> dxo = matrix_at(dx);
      sum.setZero();
      for (Index k = 0; k < n; ++k) sum += F::weight(dy_row(dyo, k), y_row(yo, k));
      for (Index k = 0; k < n; ++k) store(row(dxo, k), F::gradient(dy_row(dyo, k), y_row(yo, k), sum));
    }
  });
}

template <class F, class T>
void softmax(Cpu, F f, View<const T, 3> x, bool empty_gives_zeros, View<T, 3> y) {
  const auto [outer, n, inner] = x.extent;
  if (outer * n * inner == 0) return;
  if (inner > 1) return softmax_middle(f, x, empty_gives_zeros, y);
  softmax_rows(f, View<const T, 2>{x.data, {outer, n}}, empty_gives_zeros, View<T, 2>{y.data, {outer, n}});
}
template <class F, class T>
void softmax_backward(Cpu, F f, View<const T, 3> dy, View<const T, 3> y, View<T, 3> dx) {
  const auto [outer, n, inner] = y.extent;
  if (outer * n * inner == 0) return;
  if (inner > 1) return softmax_middle_backward(f, dy, y, dx);
  const auto rows = [&](auto v) {
    return View<std::remove_pointer_t<decltype(v.data)>, 2>{v.data, {v.extent[0], v.extent[1]}};
  };
  softmax_rows_backward(f, rows(dy), rows(y), rows(dx));
}

}  // namespace kernel

namespace detail {
// Returns Softmax or LogSoftmax (F) of x. The gradient goes to `input`: x itself, or the tensor that x was masked from.
template <class F, class T>
Tensor<T> softmax_along(const char* op, const Tensor<T>& x, const Tensor<T>& input, int axis, bool empty_gives_zeros) {
  require_axis(op, x, axis);
  Tensor<T> y = empty_like(x);
  dispatch(x, [&](auto device) {
    kernel::softmax(device, F{}, view_around(x, axis), empty_gives_zeros, view_around(y, axis));
  });

  return record(op, y, inputs(input), [y, axis](const Tensor<T>& dy) {
    Tensor<T> dx = empty_like(y);
    dispatch(y, [&](auto device) {
      kernel::softmax_backward(device, F{}, view_around(dy, axis), view_around(y, axis), view_around(dx, axis));
    });
    return dx;
  });
}

}  // namespace detail

/// Returns exp(x) divided by its sum along the axis. @throws ShapeError if the axis does not exist.
template <class T>
Tensor<T> softmax(const Tensor<T>& x, int axis = -1) {
  return detail::softmax_along<kernel::Softmax>("softmax", x, x, axis, false);
}
/// Returns the softmax over the elements where the mask is true. The other elements are 0 and get the gradient 0. A NaN where the mask
/// is true makes its whole row NaN. The mask broadcasts to x. @throws ShapeError.
template <class T>
Tensor<T> softmax(const Tensor<T>& x, const Tensor<bool>& mask, int axis = -1) {
  const Shape shape = detail::broadcast_shape("softmax", {{"x", x, 0}, {"mask", mask, 0}});
  require<ShapeError>(shape == x.shape(), "softmax: mask ", mask.shape(), " does not broadcast to x ", x.shape());
  const auto masked = full<T>({}, -std::numeric_limits<Acc<T>>::infinity(), x.device());
  return detail::softmax_along<kernel::Softmax>("softmax", detail::select(shape, mask, x, masked), x, axis, true);
}
/// Returns the logarithm of softmax. @throws ShapeError if the axis does not exist.
template <class T>
Tensor<T> log_softmax(const Tensor<T>& x, int axis = -1) {
  return detail::softmax_along<kernel::LogSoftmax>("log_softmax", x, x, axis, false);
}

}  // namespace heddle
