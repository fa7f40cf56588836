// topk(x, k): the largest or the smallest elements along an axis, in order.
#pragma once
#include <heddle/ops/gather.hpp>
#include <heddle/ops/max.hpp>

namespace heddle {

namespace kernel {

// Stores in position [N, k] the positions of the k largest elements of each row in descending order, or of the k
// smallest in ascending order. Equal elements keep the order of their positions, and a NaN is larger than all numbers.
template <class T>
void topk(Cpu, bool largest, View<const T, 2> x, View<Index, 2> position) {
  const Index n = x.extent[1], k = position.extent[1];
  parallel(x.extent[0], 1, [&](Index first, Index last) {
    std::vector<Index> order(static_cast<std::size_t>(n));
    for (Index row = first; row < last; ++row) {
      std::iota(order.begin(), order.end(), Index{0});
      std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](Index a, Index b) {
        const T from = largest ? x(row, a) : x(row, b), to = largest ? x(row, b) : x(row, a);
        if (from > to || (is_nan(from) && !is_nan(to))) return true;
        const bool is_equal = !(to > from) && is_nan(from) == is_nan(to);
        return is_equal && a < b;
      });
      std::copy_n(order.begin(), k, &position(row, 0));
    }
  });
}

}  // namespace kernel

/// The options of topk.
struct TopKOptions {
  int axis = -1;        ///< the axis to select from; -1 is the last
  bool largest = true;  ///< select the largest values, otherwise the smallest
};
/// The selected elements, and their positions along the axis.
template <class T>
struct TopK {
  Tensor<T> values;       ///< the values, sorted
  Tensor<Index> indices;  ///< their positions along the axis
};

/// Returns the k largest elements along an axis in descending order, or the k smallest in ascending order, and their
/// positions. Both have x's shape with extent k on the axis. Equal elements are in the order of their positions, and a
/// NaN counts as the largest. On a GPU x must be float or bf16 and have fewer than 2^32 elements. @throws ShapeError if
/// the axis does not exist or k is not in [0, its extent], and Error if x breaks these limits on a GPU.
template <class T>
TopK<T> topk(const Tensor<T>& x, Index k, const TopKOptions& options = {}) {
  const int along = detail::require_axis("topk", x, options.axis);
  require<ShapeError>(0 <= k && k <= x.dim(along), "topk: k must be in [0, ", x.dim(along), "], the extent of axis ",
                      options.axis, " of ", x.shape(), ", got ", k);
  const bool is_last = along == x.rank() - 1;
  const Tensor<T> rows = is_last ? detach(x) : transpose(detach(x), along, -1);  // [..., n]
  Tensor<Index> indices(rows.shape().with(-1, k), x.device());
  if (indices.size() > 0)
    detail::dispatch_if_floating(
        x, "topk", [&](auto device) { kernel::topk(device, options.largest, view<2>(rows), view<2>(indices)); });
  if (!is_last) indices = transpose(indices, along, -1);
  return {gather(x, along, indices), indices};
}

}  // namespace heddle
