// softmax and log_softmax along an axis. Both save only their result. With a mask, a row without visible elements gives
// zeros, and so does one whose visible elements are all -infinity. Without a mask, a row of -infinity gives NaN, as in
// PyTorch.
#pragma once
#include <heddle/autograd/record.hpp>
#include <heddle/base/softmax_functions.hpp>
#include <heddle/cpu/vector.hpp>
#include <heddle/ops/axes.hpp>
#include <heddle/ops/where.hpp>

namespace heddle {

namespace kernel {

// Computes the softmax along an axis whose elements are contiguous.
template <class F, class T>
void softmax_rows(F, View<const T, 2> x, bool empty_gives_zeros, View<T, 2> y) {
  using A = Acc<T>;
  parallel(x.extent[0], row_grain(x.extent[1]), [&](Index first, Index last) {
    const Index C = x.extent[1];
    Scratch<A> exponentials(C);
    A* const e = exponentials.data();
    WideRow<T> x_row(C);
    for (Index n = first; n < last; ++n) {
      const A* const xn = x_row(&x(n, 0));
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
  parallel(y.extent[0], row_grain(y.extent[1]), [&](Index first, Index last) {
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

// Computes the softmax along an axis that is not the last, for all positions on the axes after it at once.
template <class F, class T>
void softmax_middle(F, View<const T, 3> x, bool empty_gives_zeros, View<T, 3> y) {
  using A = Acc<T>;
  const Index n = x.extent[1], inner = x.extent[2];
  parallel(x.extent[0], row_grain(n * inner), [&](Index first, Index last) {
    Scratch<A> tops(inner), sums(inner);
    A *const top = tops.data(), *const sum = sums.data();  // the sums become normalizers
    for (Index o = first; o < last; ++o) {
      std::fill_n(top, inner, -std::numeric_limits<A>::infinity());
      for (Index k = 0; k < n; ++k)
        for_each_chunk<A>(inner,
                          [top, xk = &x(o, k, 0)](Chunk<A> at) { at.store(top, max(at.load(top), at.load(xk))); });
      if (empty_gives_zeros) std::replace(top, top + inner, -std::numeric_limits<A>::infinity(), A(0));
      sums.zeroed();
      for (Index k = 0; k < n; ++k)
        for_each_chunk<A>(inner, [top, sum, xk = &x(o, k, 0)](Chunk<A> at) {
          at.store(sum, at.load(sum) + exp_or_zero(at.load(xk) - at.load(top)));
        });
      if (empty_gives_zeros) std::replace(sum, sum + inner, A(0), A(1));
      for_each_chunk<A>(inner, [sum](Chunk<A> at) { at.store(sum, F::normalizer(at.load(sum))); });
      for (Index k = 0; k < n; ++k)
        for_each_chunk<A>(inner, [top, sum, xk = &x(o, k, 0), yk = &y(o, k, 0)](Chunk<A> at) {
          const Vector<A> difference = at.load(xk) - at.load(top);
          at.store(yk, F::value(difference, exp_or_zero(difference), at.load(sum)));
        });
    }
  });
}

template <class F, class T>
void softmax_middle_backward(F, View<const T, 3> dy, View<const T, 3> y, View<T, 3> dx) {
  using A = Acc<T>;
  const Index n = y.extent[1], inner = y.extent[2];
  parallel(y.extent[0], row_grain(n * inner), [&](Index first, Index last) {
    Scratch<A> sums(inner);
    for (Index o = first; o < last; ++o) {
      A* const sum = sums.zeroed();
      for (Index k = 0; k < n; ++k)
        for_each_chunk<A>(inner, [sum, dyk = &dy(o, k, 0), yk = &y(o, k, 0)](Chunk<A> at) {
          at.store(sum, at.load(sum) + F::weight(at.load(dyk), at.load(yk)));
        });
      for (Index k = 0; k < n; ++k)
        for_each_chunk<A>(inner, [sum, dyk = &dy(o, k, 0), yk = &y(o, k, 0), dxk = &dx(o, k, 0)](Chunk<A> at) {
          at.store(dxk, F::gradient(at.load(dyk), at.load(yk), at.load(sum)));
        });
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
// Returns Softmax or LogSoftmax (F) of x. The gradient goes to `input`: x itself, or the tensor of which x is a
// masked copy.
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
template <Floating T>
Tensor<T> softmax(const Tensor<T>& x, int axis = -1) {
  return detail::softmax_along<kernel::Softmax>("softmax", x, x, axis, false);
}
/// Returns the softmax over the elements where the mask is true. The other elements are 0 and get the gradient 0. A NaN
/// where the mask is true makes its whole row NaN. @throws ShapeError if the mask does not broadcast to x or the axis
/// does not exist.
template <Floating T>
Tensor<T> softmax(const Tensor<T>& x, const Tensor<bool>& mask, int axis = -1) {
  const Shape shape = detail::broadcast_shape("softmax", {{"x", x}, {"mask", mask}});
  require<ShapeError>(shape == x.shape(), "softmax: mask ", mask.shape(), " does not broadcast to x ", x.shape());
  const auto masked = full<T>({}, -std::numeric_limits<Acc<T>>::infinity(), x.device());
  return detail::softmax_along<kernel::Softmax>("softmax", detail::choose(shape, mask, x, masked), x, axis, true);
}
/// Returns the logarithm of softmax. @throws ShapeError if the axis does not exist.
template <Floating T>
Tensor<T> log_softmax(const Tensor<T>& x, int axis = -1) {
  return detail::softmax_along<kernel::LogSoftmax>("log_softmax", x, x, axis, false);
}

template <std::integral T, class... Others>
void softmax(const Tensor<T>&, const Others&...) = delete;  // needs cast<float>(x)
template <Floating T, class M>
requires(!std::is_same_v<M, bool>) void softmax(const Tensor<T>&, const Tensor<M>&, int = -1) = delete;  // mask: bool
template <std::integral T, class... Others>
void log_softmax(const Tensor<T>&, const Others&...) = delete;  // needs cast<float>(x)

}  // namespace heddle
