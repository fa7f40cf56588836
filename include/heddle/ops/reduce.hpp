// sum and mean along one or several axes, or over all elements. A sum is accumulated from partial sums whose bounds
// depend on the shape only: it is the same for any number of threads, and the rounding errors of a float sum hardly
// grow with its length.
#pragma once
#include <numeric>

#include <heddle/base/number_types.hpp>
#include <heddle/cpu/vector.hpp>
#include <heddle/ops/broadcast.hpp>
#include <heddle/ops/merged_axes.hpp>

namespace heddle {

namespace kernel {

template <class T>
SumAcc<T> sum_row(const T* x, Index n) {
  constexpr Index block = 1024;
  if (n <= block) {
    if constexpr (!std::is_integral_v<T>)
      if (n > 2 * scalar_loop_limit) return sum_of<SumAcc<T>>(n, [&](Chunk<SumAcc<T>> at) { return at.load(x); });
    return std::accumulate(x, x + n, SumAcc<T>(0), [](SumAcc<T> sum, T v) { return sum + static_cast<SumAcc<T>>(v); });
  }
  const Index half = (n / block + 1) / 2 * block;
  return sum_row(x, half) + sum_row(x + half, n - half);
}

// Computes y, the sum of x over its middle axis, divided by `divisor`.
template <class T, class Y>
void sum(Cpu, View<const T, 3> x, SumAcc<T> divisor, View<Y, 2> y) {
  const Index outer = x.extent[0], n = x.extent[1], inner = x.extent[2];
  const Pieces pieces(n, element_grain / std::max<Index>(inner, 1) + 1);  // the pieces of one of the `outer` sums
  const Index count = std::max<Index>(pieces.count, 1);
  const Index grain = element_grain / std::max<Index>(std::min(n, pieces.size) * inner, 1) + 1;
  Scratch<SumAcc<T>> parts(outer * count * inner);
  const auto part = [&](Index p) { return parts.data() + p * inner; };  // [inner]
  parallel(outer * count, grain, [&](Index begin, Index end) {
    Scratch<SumAcc<T>> scratch(inner);
    for (Index p = begin; p < end; ++p) {
      const Index o = p / count, first = (p - o * count) * pieces.size, rows = std::min(n - first, pieces.size);
      const T* const piece = x.data + (o * n + first) * inner;
      if (inner == 1)
        *part(p) = sum_row(piece, rows);
      else
        add_rows(
            part(p), rows, inner, [&](Index i) { return piece + i * inner; }, scratch);
    }
  });
  if (count == 1) return divide_row(y.data, parts.data(), outer * inner, divisor);
  for (Index o = 0; o < outer; ++o) {
    SumAcc<T>* const total = part(o * count);
    for (Index p = 1; p < count; ++p) add_row(total, part(o * count + p), inner);
    divide_row(y.data + o * inner, total, inner, divisor);
  }
}

// Computes dx = dy / divisor, repeated as in broadcasting.
template <class T, class Y>
void repeat(Cpu, const BroadcastPlan<1>& plan, const Y* dy, Acc<Y> divisor, T* dx) {
  for_rows(plan, [&](Index i, Index n, const std::array<Index, 1>& at) {
    if (plan.stride[0][0] == 0)
      std::fill_n(dx + i, n, static_cast<T>(static_cast<Acc<Y>>(dy[at[0]]) / divisor));
    else
      divide_row(dx + i, dy + at[0], n, divisor);
  });
}

}  // namespace kernel

namespace detail {

// The properties of an input that a backward needs if it does not read the values.
struct GradientTarget {
  Shape shape;
  bool requires_grad;

  template <class T>
  explicit GradientTarget(const Tensor<T>& x) : shape(x.shape()), requires_grad(x.requires_grad()) {}
};

// Returns x if a backward reads its values, otherwise an empty tensor, so that the graph does not keep x alive.
template <class T>
Tensor<T> save_if(bool needed, const Tensor<T>& x) {
  return needed ? x : Tensor<T>{};
}

// Returns the gradient of an input that was broadcast to dy's shape: the sum over the repeated axes. Empty if it is not
// required.
template <class T, class Y>
Tensor<T> sum_to(const Tensor<Y>& dy, const GradientTarget& input) {
  if (!input.requires_grad) return {};
  const Shape& s = dy.shape();
  const int rank = s.rank(), missing = rank - input.shape.rank();
  const auto repeated = [&](int axis) { return s[axis] != (axis < missing ? 1 : input.shape[axis - missing]); };
  int first = 0;
  while (first < rank && !repeated(first)) ++first;
  if constexpr (std::is_same_v<T, Y>)
    if (first == rank) return dy.with_shape(input.shape);

  Shape rest = s;  // dy's shape with extent 1 on the first run of repeated axes
  int last = first;
  for (; last < rank && repeated(last); ++last) rest = rest.with(last, 1);
  const View<const Y, 3> around{dy.device_data(), {s.product(0, first), s.product(first, last), s.product(last, rank)}};
  const auto add_up = [&](auto x) {
    View<typename decltype(x)::Element, 2> sums{x.device_data(), {around.extent[0], around.extent[2]}};
    dispatch_if_floating(dy, "backward", [&](auto device) { kernel::sum(device, around, 1, sums); });
    return x;
  };
  for (int axis = last; axis < rank; ++axis)
    if (repeated(axis)) return sum_to<T>(add_up(Tensor<Acc<T>>(rest, dy.device())), input);
  return add_up(Tensor<T>(input.shape, dy.device()));
}

// Returns the sum along an axis, divided by `divisor`.
template <class T>
Tensor<Sum<T>> scaled_sum(const char* op, const Tensor<T>& x, int axis, bool keepdim, Index divisor) {
  using Y = Sum<T>;
  require_axis(op, x, axis);
  const auto around = view_around(x, axis);
  Tensor<Y> y(reduced(x.shape(), axis, keepdim), x.device());
  dispatch(x, [&](auto device) {
    kernel::sum(device, around, static_cast<kernel::SumAcc<T>>(divisor),
                View<Y, 2>{y.device_data(), {around.extent[0], around.extent[2]}});
  });

  if constexpr (std::is_integral_v<T>) {
    return y;
  } else {
    return record(op, y, inputs(x), [shape = x.shape(), axis, divisor](const Tensor<T>& dy) {
      Tensor<T> dx(shape, dy.device());
      dispatch(dy, [&](auto device) {
        kernel::repeat(device, broadcast_plan(shape, shape.with(axis, 1)), dy.device_data(),
                       static_cast<Acc<T>>(divisor), dx.device_data());
      });
      return dx;
    });
  }
}

}  // namespace detail

/// Returns the sum along an axis or several, as in sum(x, {0, 2}); an empty sum is 0. @throws ShapeError if an axis
/// does not exist.
template <class T>
Tensor<Sum<T>> sum(const Tensor<T>& x, const Axes& axes, bool keepdim = false) {
  return detail::reduce_axes("sum", x, axes, keepdim, [](const Tensor<T>& merged, int axis, bool keep) {
    return detail::scaled_sum("sum", merged, axis, keep, 1);
  });
}
/// Returns the sum of all elements, a scalar [].
template <class T>
Tensor<Sum<T>> sum(const Tensor<T>& x) {
  return detail::scaled_sum("sum", reshape(x, Shape{x.size()}), 0, false, 1);
}

/// Returns the mean along an axis or several; an empty mean is NaN. @throws ShapeError if an axis does not exist.
template <Floating T>
Tensor<T> mean(const Tensor<T>& x, const Axes& axes, bool keepdim = false) {
  return detail::reduce_axes("mean", x, axes, keepdim, [](const Tensor<T>& merged, int axis, bool keep) {
    return detail::scaled_sum("mean", merged, axis, keep, merged.dim(axis));
  });
}
/// Returns the mean of all elements, a scalar [].
template <Floating T>
Tensor<T> mean(const Tensor<T>& x) {
  return detail::scaled_sum("mean", reshape(x, Shape{x.size()}), 0, false, x.size());
}

template <std::integral T>
void mean(const Tensor<T>&, const Axes& = {}, bool = false) = delete;  // needs cast<float>(x)

}  // namespace heddle
