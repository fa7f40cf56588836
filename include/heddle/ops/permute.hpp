// permute(x, {axes}) and transpose(x, a, b): a copy with the axes in another order.
#pragma once
#include <numeric>

#include <heddle/autograd/record.hpp>
#include <heddle/base/threads.hpp>
#include <heddle/kernel/permutation.hpp>
#include <heddle/ops/axes.hpp>

namespace heddle {

namespace kernel {

// Copies the permuted x to y. y is contiguous along its last axis; x is contiguous along the axis that becomes y's
// axis `lane`. If these axes differ, elements are copied in square tiles, so that each cache line of x and y is
// used as a whole.
template <class T>
void permute(Cpu, const Permutation& p, const T* x, View<T, 1> y) {
  if (y.extent[0] == 0) return;
  constexpr Index square = 32;  // two squares of doubles fit in the L1 cache
  const int last = p.rank - 1, lane = static_cast<int>(std::find(p.stride, p.stride + last, 1) - p.stride);
  const Index width = p.extent[last], step = p.stride[last];
  const Index lanes = lane == last ? 1 : p.extent[lane], strips = (lanes + square - 1) / square;
  const Index others = y.extent[0] / (width * lanes);  // positions on all the other axes

  parallel(others * strips, element_grain / (std::min(lanes, square) * width) + 1, [&](Index first, Index end) {
    for (Index task = first; task < end; ++task) {
      const T* from = x;
      T* to = y.data;
      Index rest = task / strips, size = 1, lane_step = 0;
      for (int a = last; a >= 0; size *= p.extent[a--]) {
        if (a == lane) lane_step = size;
        if (a == lane || a == last) continue;
        from += rest % p.extent[a] * p.stride[a];
        to += rest % p.extent[a] * size;
        rest /= p.extent[a];
      }
      if (lane == last) {
        std::copy_n(from, width, to);
        continue;
      }
      const Index begin = task % strips * square, until = std::min(lanes, begin + square);
      for (Index j = 0; j < width; j += square) {
        const Index stop = std::min(width, j + square);
        for (Index i = begin; i < until; ++i)
          for (Index k = j; k < stop; ++k) to[i * lane_step + k] = from[i + k * step];
      }
    }
  });
}

}  // namespace kernel

/// Returns a copy whose axis a is axis axes[a] of x. @throws ShapeError unless each axis is named once.
template <class T>
Tensor<T> permute(const Tensor<T>& x, std::vector<int> axes) {
  std::vector<Index> extents;
  std::vector<int> inverse(axes.size(), -1);
  for (std::size_t a = 0; a < axes.size(); ++a) {
    axes[a] = detail::require_axis("permute", x, axes[a]);
    extents.push_back(x.dim(axes[a]));
    if (axes.size() == static_cast<std::size_t>(x.rank()))
      inverse[static_cast<std::size_t>(axes[a])] = static_cast<int>(a);
  }
  require<ShapeError>(
      axes.size() == static_cast<std::size_t>(x.rank()) && std::count(inverse.begin(), inverse.end(), -1) == 0,
      "permute: each axis of ", x.shape(), " must be named once");

  Tensor<T> y(Shape(std::span<const Index>(extents)), x.device());
  dispatch(x, [&](auto device) {
    kernel::permute(device, kernel::Permutation(x.shape(), axes), x.device_data(), view<1>(y));
  });
  return record("permute", y, inputs(x), [inverse](const Tensor<T>& dy) { return permute(dy, inverse); });
}

/// Returns a copy with axes a and b exchanged. @throws ShapeError if an axis does not exist.
template <class T>
Tensor<T> transpose(const Tensor<T>& x, int a, int b) {
  std::vector<int> axes(static_cast<std::size_t>(x.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  a = detail::require_axis("transpose", x, a);
  b = detail::require_axis("transpose", x, b);
  std::swap(axes[static_cast<std::size_t>(a)], axes[static_cast<std::size_t>(b)]);
  return permute(x, axes);
}
/// Returns the transpose of a matrix. @throws ShapeError unless x has two axes.
template <class T>
Tensor<T> transpose(const Tensor<T>& x) {  // [M, N] -> [N, M]
  require_rank("transpose", {"x", x}, 2);
  return transpose(x, 0, 1);
}

}  // namespace heddle
