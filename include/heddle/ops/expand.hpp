// expand(x, shape): a copy of x, repeated to a shape by the rules of broadcasting.
#pragma once
#include <heddle/ops/reshape.hpp>
#include <heddle/ops/where.hpp>

namespace heddle {

/// Returns x repeated to a shape. @throws ShapeError for a shape that x does not broadcast to.
template <class T>
Tensor<T> expand(const Tensor<T>& x, const Shape& shape) {
  bool fits = x.rank() <= shape.rank();
  for (int axis = -1; fits && axis >= -x.rank(); --axis) fits = x.dim(axis) == 1 || x.dim(axis) == shape[axis];
  require<ShapeError>(fits, "expand: x ", x.shape(), " does not broadcast to ", shape);
  const Tensor<bool> always = full<bool>({}, true, x.device());
  const Tensor<T> y = detail::choose(shape, always, x, x);
  if constexpr (std::is_integral_v<T>)
    return y;
  else
    return record("expand", y, inputs(x),
                  [to_x = detail::GradientTarget(x)](const Tensor<T>& dy) { return detail::sum_to<T>(dy, to_x); });
}

/// Repeats x to a braced shape; -1 keeps the extent of x: expand(x, {3, -1}). @throws ShapeError as expand(x, shape)
/// does, and for -1 on an axis that x does not have.
template <class T>
Tensor<T> expand(const Tensor<T>& x, std::initializer_list<Index> extents) {
  std::vector<Index> wanted(extents);
  const auto missing = static_cast<int>(wanted.size()) - x.rank();
  for (std::size_t a = 0; a < wanted.size(); ++a)
    if (const int axis = static_cast<int>(a) - missing; wanted[a] == -1 && axis >= 0) wanted[a] = x.dim(axis);
  require<ShapeError>(std::all_of(wanted.begin(), wanted.end(), [](Index extent) { return extent >= 0; }),
                      "expand: ", detail::extents_text({extents.begin(), extents.size()}),
                      " has a negative extent on an axis that x ", x.shape(), " does not have, or one below -1");
  return expand(x, Shape(std::span<const Index>(wanted)));
}

}  // namespace heddle
