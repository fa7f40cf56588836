// Reductions along several axes, which see them merged into one axis.
#pragma once
#include <heddle/ops/permute.hpp>
#include <heddle/ops/reshape.hpp>

namespace heddle {

namespace detail {

// A tensor with some of its axes merged into one. If the axes are adjacent, x shares memory with the given tensor;
// otherwise x is a permuted copy.
template <class T>
struct MergedAxes {
  Tensor<T> x;
  int axis;       // the merged axis of x
  Shape reduced;  // the given shape without these axes, or with extent 1 on them if keepdim

  // Throws ShapeError if an axis does not exist or is named twice.
  MergedAxes(const char* op, const Tensor<T>& given, const Axes& axes, bool keepdim) : reduced(given.shape()) {
    const int rank = given.rank();
    std::vector<bool> is_reduced(static_cast<std::size_t>(rank), axes.list().empty());
    for (const int a : axes.list()) {
      const auto counted = static_cast<std::size_t>(require_axis(op, given, a));
      require<ShapeError>(!is_reduced[counted], op, ": axis ", a, " of ", given.shape(), " is named twice");
      is_reduced[counted] = true;
    }
    std::vector<int> order, merged;
    for (int a = rank - 1; a >= 0; --a)
      if (is_reduced[static_cast<std::size_t>(a)]) reduced = heddle::detail::reduced(reduced, a, keepdim);
    for (int a = 0; a < rank; ++a) (is_reduced[static_cast<std::size_t>(a)] ? merged : order).push_back(a);

    const auto count = static_cast<int>(merged.size()), first = count ? merged.front() : 0;
    axis = 1;
    if (count == 0 || merged.back() - first + 1 == count) {
      const Shape& s = given.shape();
      x = reshape(given, Shape{s.product(0, first), s.product(first, first + count), s.product(first + count, rank)});
    } else {
      const auto kept = static_cast<int>(order.size());
      order.insert(order.end(), merged.begin(), merged.end());
      const Tensor<T> last = permute(given, order);
      x = reshape(last, Shape{last.shape().product(0, kept), last.shape().product(kept, rank)});
    }
  }
  Index extent() const { return x.dim(axis); }
};

// Reduces x along any axes with reduce(x, axis, keepdim), which reduces along one axis.
template <class T, class F>
auto reduce_axes(const char* op, const Tensor<T>& x, const Axes& axes, bool keepdim, const F& reduce) {
  if (axes.list().size() == 1) return reduce(x, require_axis(op, x, axes.list()[0]), keepdim);
  const MergedAxes<T> merged(op, x, axes, keepdim);
  return reshape(reduce(merged.x, merged.axis, false), merged.reduced);
}

}  // namespace detail
}  // namespace heddle
