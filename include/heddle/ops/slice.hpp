// slice(x, axis, first, last): positions [first, last) of one axis; split(x, sizes, axis): the whole axis in parts.
// Along axis 0 the result is a handle into x's block; along any other axis it is a copy.
#pragma once
#include <heddle/autograd/record.hpp>
#include <heddle/core/create.hpp>
#include <heddle/ops/axes.hpp>

namespace heddle {

namespace detail {
// Views x as a matrix with a row for each position of the axes before `axis`, and returns the columns of [first, last)
// along `axis`.
template <class TensorT>
auto columns_of_axis(TensorT& x, int axis, Index first, Index last) {
  const auto v = view_around(x, axis);
  return MatrixView<std::remove_pointer_t<decltype(v.data)>>{v.data + first * v.extent[2], v.extent[0],
                                                             (last - first) * v.extent[2], v.extent[1] * v.extent[2]};
}

}  // namespace detail

/// Returns positions [first, last) of an axis. A negative first or last counts from the end. Along axis 0 the result
/// shares memory with x. @throws ShapeError if the axis does not exist, and IndexError unless 0 <= first <= last <=
/// extent, both counted from the start.
template <class T>
Tensor<T> slice(const Tensor<T>& x, int axis, Index first, Index last) {
  const int along = detail::require_axis("slice", x, axis);
  const Index n = x.dim(along), from = first < 0 ? first + n : first, to = last < 0 ? last + n : last;
  require<IndexError>(0 <= from && from <= to && to <= n, "slice: [", first, ", ", last, ") is not within axis ", axis,
                      " of ", x.shape());
  Tensor<T> y;
  if (along == 0) {
    y = x.leading(from, to);
  } else {
    y = Tensor<T>(x.shape().with(along, to - from), x.device());
    dispatch(x, [&](auto device) {
      kernel::copy(device, detail::columns_of_axis(x, along, from, to),
                   detail::columns_of_axis(y, along, 0, to - from));
    });
  }

  return record("slice", y, inputs(x), [shape = x.shape(), along, from, to](const Tensor<T>& dy) {
    Tensor<T> dx = zeros<T>(shape, dy.device());
    dispatch(dy, [&](auto device) {
      kernel::copy(device, detail::columns_of_axis(dy, along, 0, to - from),
                   detail::columns_of_axis(dx, along, from, to));
    });
    return dx;
  });
}

/// Returns the parts of x of the given sizes along an axis, like torch.split. The sizes must add up to the extent of
/// the axis. @throws ShapeError if the axis does not exist, a size is negative, or the sizes do not add up to the
/// extent.
template <class T>
std::vector<Tensor<T>> split(const Tensor<T>& x, const std::vector<Index>& sizes, int axis = 0) {
  const int along = detail::require_axis("split", x, axis);
  Index end = 0;
  for (const Index size : sizes) {
    require<ShapeError>(size >= 0, "split: a size must not be negative, got ", size);
    require<ShapeError>(size <= x.dim(along) - end, "split: the sizes add up to more than axis ", axis, " of ",
                        x.shape(), ", whose extent is ", x.dim(along));
    end += size;
  }
  require<ShapeError>(end == x.dim(along), "split: the sizes add up to ", end, ", but axis ", axis, " of ", x.shape(),
                      " has extent ", x.dim(along));
  std::vector<Tensor<T>> parts;
  Index first = 0;
  for (const Index size : sizes) {
    parts.push_back(slice(x, along, first, first + size));
    first += size;
  }
  return parts;
}
/// Splits by the sizes of a braced list: split(x, {2, 4}, axis). @throws ShapeError as for a vector.
template <class T>
std::vector<Tensor<T>> split(const Tensor<T>& x, std::initializer_list<Index> sizes, int axis = 0) {
  return split(x, std::vector<Index>(sizes), axis);
}
/// Returns parts of one size along an axis; the last one may be smaller. @throws ShapeError for a size below 1, and if
/// the axis does not exist.
template <class T>
std::vector<Tensor<T>> split(const Tensor<T>& x, Index size, int axis = 0) {
  require<ShapeError>(size >= 1, "split: a size must be at least 1, got ", size);
  const Index n = x.dim(detail::require_axis("split", x, axis));
  std::vector<Index> sizes(static_cast<std::size_t>(n / size), size);
  if (n % size || n == 0) sizes.push_back(n % size);
  return split(x, sizes, axis);
}

}  // namespace heddle
