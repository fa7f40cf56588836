// softmax and log_softmax along an axis. Both save only their result. A row whose elements are all masked gives zeros; an
// unmasked row of -infinity gives NaN, as in PyTorch.
#pragma once
#include <heddle/autograd/record.hpp>
#include <heddle/base/softmax_functions.hpp>
#include <heddle/cpu/vector.hpp>
#include <heddle/ops/axis.hpp>
#include <heddle/ops/where.hpp>

namespace heddle {

namespace kernel {

// Computes the softmax along an axis whose elements are contiguous.
template <class F, class T>
void softmax_rows(F, View<const T, 2> x, bool empty_gives_zeros, View<T, 2> y) {
  using A = Acc<T>;
  parallel(x.extent[0], rows_per_piece(x.extent[1]), [&](Index first, Index last) {
    const Index C = x.extent[1];
    Scratch<A> exponentials(C);
    A* const e = exponentials.data();
    for (Index n = first; n < last; ++n) {
      const T* const xn = &x(n, 0);
      T* const yn = &y(n, 0);
      const A greatest = max_of<A>(C, [&](Chunk<A> at) { return at.load(xn); });
      const A top = empty_gives_zeros && greatest == -std::numeric_limits<A>::infinity() ? A(0) : greatest;
      const A sum = sum_of<A>(C, [&](Chunk<A> at) {  // NaN if an element is NaN, which max_of() ignores
        const Vector<A> en = exp_or_zero(at.load(xn) - top);
        at.store(e, en);
        return en;
      });
      const A normalizer = F::normalizer(empty_gives_zeros && sum == 0 ? A(1) : sum);
      for_each_chunk<A>(
          C, [&](Chunk<A> at) { at.store(yn, F::value(at.load(xn) - top, at.load(e), Vector<A>(normalizer))); });
    }
  });
}

template <class F, class T>
void softmax_rows_backward(F, View<const T, 2> dy, View<const T, 2> y, View<T, 2> dx) {
  parallel(y.extent[0], rows_per_piece(y.extent[1]), [&](Index first, Index last) {
    using A = Acc<T>;
    const Index C = y.extent[1];
    for (Index n = first; n < last; ++n) {
      const T *const dyn = &dy(n, 0), *const yn = &y(n, 0);
      T* const dxn = &dx(n, 0);
      const A sum = sum_of<A>(C, [&](Chunk<A> at) { return F::weight(at.load(dyn), at.load(yn)); });
      for_each_chunk<A>(C, [&](Chunk<A> at) { at.store(dxn, F::gradient(at.load(dyn), at.load(yn), Vector<A>(sum))); });
    }
  });
}

// Computes the softmax along an axis that is not the last, for a chunk of positions on the axes after it at once.
template <class F, class T>
void softmax_middle(F, View<const T, 3> x, bool empty_gives_zeros, View<T, 3> y) {
  using A = Acc<T>;
  const Index n = x.extent[1], inner = x.extent[2];
  parallel(x.extent[0], rows_per_piece(n * inner), [&](Index first, Index last) {
    for (Index o = first; o < last; ++o)
      for_each_chunk<A>(inner, [&](Chunk<A> at) {
        const auto x_at = [&](Index k) { return at.load(&x(o, k, 0)); };
        Vector<A> top = x_at(0), sum(0);
        for (Index k = 1; k < n; ++k) top = max(top, x_at(k));
        if (empty_gives_zeros) top = select(top == -std::numeric_limits<A>::infinity(), A(0), top);
        for (Index k = 0; k < n; ++k) sum += exp_or_zero(x_at(k) - top);
        if (empty_gives_zeros) sum = select(sum == A(0), A(1), sum);
        const Vector<A> normalizer = F::normalizer(sum);
        for (Index k = 0; k < n; ++k)
          at.store(&y(o, k, 0), F::value(x_at(k) - top, exp_or_zero(x_at(k) - top), normalizer));
      });
  });
}

template <class F, class T>
void softmax_middle_backward(F, View<const T, 3> dy, View<const T, 3> y, View<T, 3> dx) {
  const Index n = y.extent[1], inner = y.extent[2];
  parallel(y.extent[0], rows_per_piece(n * inner), [&](Index first, Index last) {
    for (Index o = first; o < last; ++o)
      for_each_chunk<Acc<T>>(inner, [&](Chunk<Acc<T>> at) {
        const auto dy_at = [&](Index k) { return at.load(&dy(o, k, 0)); };
        const auto y_at = [&](Index k) { return at.load(&y(o, k, 0)); };
        Vector<Acc<T>> sum(0);
        for (Index k = 0; k < n; ++k) sum += F::weight(dy_at(k), y_at(k));
        for (Index k = 0; k < n; ++k) at.store(&dx(o, k, 0), F::gradient(dy_at(k), y_at(k), sum));
      });
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
