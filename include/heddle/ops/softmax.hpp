// softmax and log_softmax along an axis. Both save their result alone. The masked form gives zeros where nothing is
// kept; without a mask such a row (of -infinity only) is NaN, as its formula says.
#pragma once
#include <heddle/autograd.hpp>
#include <heddle/eigen.hpp>
#include <heddle/ops/axis.hpp>
#include <heddle/ops/softmax_forms.hpp>
#include <heddle/ops/where.hpp>

namespace heddle {

namespace kernel {

// Along an axis whose elements are neighbours.
template <class F, class T>
void softmax_rows(F, View<const T, 2> x, bool nothing_gives_zeros, View<T, 2> y) {
  using A = Acc<T>;
  parallel(x.extent[0], rows_per_piece(x.extent[1]), [&](Index first, Index last) {
    RowArray<A> e(x.extent[1]);
    for (Index n = first; n < last; ++n) {
      const auto xn = load(row(x, n));
      const A greatest = xn.maxCoeff();
      const bool nothing = nothing_gives_zeros && greatest == -std::numeric_limits<A>::infinity();
      const A top = nothing ? A(0) : greatest;
      e = exp_or_zero(xn - top);
      const A sum = nothing ? A(1) : e.sum();
      store(row(y, n), F::value(xn - top, e, sum));
    }
  });
}

template <class F, class T>
void softmax_rows_backward(F, View<const T, 2> dy, View<const T, 2> y, View<T, 2> dx) {
  parallel(y.extent[0], rows_per_piece(y.extent[1]), [&](Index first, Index last) {
    for (Index n = first; n < last; ++n) {
      const auto dyn = load(row(dy, n));
      const auto yn = load(row(y, n));
      store(row(dx, n), F::gradient(dyn, yn, F::weight(dyn, yn).sum()));
    }
  });
}

// Along an axis that has others after it: the same for all of those at once.
template <class F, class T>
void softmax_middle(F, View<const T, 3> x, bool nothing_gives_zeros, View<T, 3> y) {
  using A = Acc<T>;
  const Index n = x.extent[1], inner = x.extent[2];
  parallel(x.extent[0], rows_per_piece(n * inner), [&](Index first, Index last) {
    RowArray<A> top(inner), sum(inner);
    for (Index o = first; o < last; ++o) {
      const View<const T, 2> xo{x.data + o * n * inner, {n, inner}};
      const View<T, 2> yo{y.data + o * n * inner, {n, inner}};
      top = load(row(xo, 0));
      for (Index k = 1; k < n; ++k) top = top.max(load(row(xo, k)));
      if (nothing_gives_zeros) top = (top == -std::numeric_limits<A>::infinity()).select(A(0), top);
      sum.setZero();
      for (Index k = 0; k < n; ++k) sum += exp_or_zero(load(row(xo, k)) - top);
      if (nothing_gives_zeros) sum = (sum == 0).select(A(1), sum);
      for (Index k = 0; k < n; ++k)
        store(row(yo, k), F::value(load(row(xo, k)) - top, exp_or_zero(load(row(xo, k)) - top), sum));
    }
  });
}

template <class F, class T>
void softmax_middle_backward(F, View<const T, 3> dy, View<const T, 3> y, View<T, 3> dx) {
  const Index n = y.extent[1], inner = y.extent[2];
  parallel(y.extent[0], rows_per_piece(n * inner), [&](Index first, Index last) {
    RowArray<Acc<T>> sum(inner);
    for (Index o = first; o < last; ++o) {
      const auto at = [&](auto v, Index k) { return array(v.data + (o * n + k) * inner, inner); };
      sum.setZero();
      for (Index k = 0; k < n; ++k) sum += F::weight(load(at(dy, k)), load(at(y, k)));
      for (Index k = 0; k < n; ++k) store(at(dx, k), F::gradient(load(at(dy, k)), load(at(y, k)), sum));
    }
  });
}

template <class F, class T>
void softmax(Cpu, F f, View<const T, 3> x, bool nothing_gives_zeros, View<T, 3> y) {
  const auto [outer, n, inner] = x.extent;
  if (outer * n * inner == 0) return;
  if (inner > 1) return softmax_middle(f, x, nothing_gives_zeros, y);
  softmax_rows(f, View<const T, 2>{x.data, {outer, n}}, nothing_gives_zeros, View<T, 2>{y.data, {outer, n}});
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

// F is Softmax or LogSoftmax of x, whose gradient goes to `input`: x itself, or what a mask made x of.
template <class F, class T>
Tensor<T> softmax_of(const char* op, const Tensor<T>& x, const Tensor<T>& input, int axis, bool nothing_gives_zeros) {
  Tensor<T> y = like(x);
  on(x, [&](auto device) {
    kernel::softmax(device, F{}, view_around(x, axis), nothing_gives_zeros, view_around(y, axis));
  });

  return record(op, y, inputs(input), [y, axis](const Tensor<T>& dy) {
    Tensor<T> dx = like(y);
    on(y, [&](auto device) {
      kernel::softmax_backward(device, F{}, view_around(dy, axis), view_around(y, axis), view_around(dx, axis));
    });
    return dx;
  });
}

// exp(x) over the sum of exp(x) along the axis. Throws ShapeError when there is no such axis.
template <class T>
Tensor<T> softmax(const Tensor<T>& x, int axis = -1) {
  return softmax_of<kernel::Softmax>("softmax", x, x, axis, false);
}
// Of the elements where the mask is true; 0, with gradient 0, elsewhere. The mask broadcasts to x. Throws ShapeError.
template <class T>
Tensor<T> softmax(const Tensor<T>& x, const Tensor<bool>& mask, int axis = -1) {
  const Shape shape = broadcast_shape("softmax", {{"x", x, 0}, {"mask", mask, 0}});
  require<ShapeError>(shape == x.shape(), "softmax: mask ", mask.shape(), " does not broadcast to x ", x.shape());
  const auto never = full<T>({}, -std::numeric_limits<Acc<T>>::infinity(), x.device());
  return softmax_of<kernel::Softmax>("softmax", select(shape, mask, x, never), x, axis, true);
}
// The logarithm of softmax. Throws ShapeError when there is no such axis.
template <class T>
Tensor<T> log_softmax(const Tensor<T>& x, int axis = -1) {
  return softmax_of<kernel::LogSoftmax>("log_softmax", x, x, axis, false);
}

}  // namespace heddle
