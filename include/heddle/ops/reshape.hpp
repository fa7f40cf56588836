// reshape, unsqueeze and squeeze: the same elements in another shape, as a handle to the same block.
#pragma once
#include <iterator>
#include <span>

#include <heddle/autograd/record.hpp>
#include <heddle/ops/axes.hpp>

namespace heddle {

/// Returns the same elements in another shape. Shares memory with x. @throws ShapeError unless the sizes are equal.
template <class T>
Tensor<T> reshape(const Tensor<T>& x, const Shape& shape) {
  return record("reshape", x.with_shape(shape), inputs(x),
                [before = x.shape()](const Tensor<T>& dy) { return dy.with_shape(before); });
}

/// Reshapes x to these extents; one of them may be -1 and is then computed from the others. @throws ShapeError if the
/// sizes differ, if an extent is below -1, if more than one is -1, or if the other extents do not determine it.
template <class T>
Tensor<T> reshape(const Tensor<T>& x, std::span<const Index> extents) {
  std::vector<Index> known(extents.begin(), extents.end());
  const auto open = std::find_if(known.begin(), known.end(), [](Index extent) { return extent < 0; });
  if (open == known.end()) return reshape(x, Shape(extents));
  const auto asked = [&] { return detail::extents_text(extents); };
  const Index least = *std::min_element(open, known.end());
  require<ShapeError>(least == -1, "reshape: ", asked(), " has the extent ", least, "; only -1 stands for another");
  require<ShapeError>(std::count(open, known.end(), -1) == 1, "reshape: ", asked(), " has more than one -1");
  *open = 1;
  const Shape rest{std::span<const Index>(known)};
  require<ShapeError>(rest.size() > 0 && x.size() % rest.size() == 0, "reshape: ", x.shape(), " has ", x.size(),
                      " elements, which do not divide into ", asked());
  return reshape(x, rest.with(static_cast<int>(open - known.begin()), x.size() / rest.size()));
}
/// Reshapes x to these extents, as above: reshape(x, {3, -1}).
template <class T>
Tensor<T> reshape(const Tensor<T>& x, std::initializer_list<Index> extents) {
  return reshape(x, std::span<const Index>(extents.begin(), extents.size()));
}

/// Returns x with an axis of extent 1 inserted before an axis; -1 inserts it after the last. Shares memory with x.
/// @throws ShapeError unless -rank - 1 <= axis <= rank, and if x has eight axes.
template <class T>
Tensor<T> unsqueeze(const Tensor<T>& x, int axis) {
  require<ShapeError>(-x.rank() - 1 <= axis && axis <= x.rank(), "unsqueeze: axis ", axis, " does not exist in shape ",
                      x.shape(), " with one more axis");
  std::vector<Index> extents(x.shape().begin(), x.shape().end());
  extents.insert(extents.begin() + (axis < 0 ? axis + x.rank() + 1 : axis), 1);
  return reshape(x, Shape(std::span<const Index>(extents)));
}

/// Returns x without an axis, if its extent is 1; otherwise x. Shares memory with x. @throws ShapeError if the axis
/// does not exist.
template <class T>
Tensor<T> squeeze(const Tensor<T>& x, int axis) {
  const int along = detail::require_axis("squeeze", x, axis);
  return x.dim(along) == 1 ? reshape(x, x.shape().without(along)) : x;
}
/// Returns x without all its axes of extent 1. Shares memory with x.
template <class T>
Tensor<T> squeeze(const Tensor<T>& x) {
  std::vector<Index> extents;
  std::copy_if(x.shape().begin(), x.shape().end(), std::back_inserter(extents), [](Index e) { return e != 1; });
  return reshape(x, Shape(std::span<const Index>(extents)));
}

}  // namespace heddle
