// reshape(x, shape): the same elements in another shape, as a handle on the same block.
#pragma once
#include <heddle/autograd/record.hpp>

namespace heddle {

/// Returns the same elements in another shape. Shares memory with x. @throws ShapeError unless the sizes are equal.
template <class T>
Tensor<T> reshape(const Tensor<T>& x, const Shape& shape) {
  return record("reshape", x.with_shape(shape), inputs(x),
                [before = x.shape()](const Tensor<T>& dy) { return dy.with_shape(before); });
}

/// The same with one extent that may be -1 and is computed from the others. @throws ShapeError if no extent, or more than one,
/// is possible.
template <class T>
Tensor<T> reshape(const Tensor<T>& x, std::initializer_list<Index> extents) {
  std::vector<Index> known(extents);
  const auto open = std::find(known.begin(), known.end(), -1);
  if (open == known.end()) return reshape(x, Shape(extents));
  const auto asked = [&] {
    std::string text = "[";
    for (const Index extent : extents) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
    return text + ']';
  };
  require<ShapeError>(std::count(open, known.end(), -1) == 1, "reshape: ", asked(), " has more than one -1");
  *open = 1;
  const Shape rest{std::span<const Index>(known)};
  require<ShapeError>(rest.size() > 0 && x.size() % rest.size() == 0, "reshape: ", x.shape(), " has ", x.size(),
                      " elements, which do not divide into ", asked());
  return reshape(x, rest.with(static_cast<int>(open - known.begin()), x.size() / rest.size()));
}

}  // namespace heddle
