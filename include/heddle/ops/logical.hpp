// logical_and, logical_or, logical_not of each element, with broadcasting, and any and all along axes. A nonzero
// element is true, as in PyTorch. The result is Tensor<bool>.
#pragma once
#include <heddle/ops/cast.hpp>
#include <heddle/ops/max.hpp>
#include <heddle/ops/where.hpp>

namespace heddle {

/// Returns whether each element is zero.
template <class T>
Tensor<bool> logical_not(const Tensor<T>& x) {
  return detail::choose(x.shape(), cast<bool>(x), full<bool>({}, false, x.device()), full<bool>({}, true, x.device()));
}
/// Returns whether a and b are both nonzero, for each element. @throws ShapeError for shapes that do not broadcast.
template <class A, class B>
Tensor<bool> logical_and(const Tensor<A>& a, const Tensor<B>& b) {
  const Shape shape = detail::broadcast_shape("logical_and", {{"a", a}, {"b", b}});
  return detail::choose(shape, cast<bool>(a), cast<bool>(b), full<bool>({}, false, a.device()));
}
/// Returns whether a or b is nonzero, for each element. @throws ShapeError for shapes that do not broadcast.
template <class A, class B>
Tensor<bool> logical_or(const Tensor<A>& a, const Tensor<B>& b) {
  const Shape shape = detail::broadcast_shape("logical_or", {{"a", a}, {"b", b}});
  return detail::choose(shape, cast<bool>(a), full<bool>({}, true, a.device()), cast<bool>(b));
}

/// Returns whether any element along the axes is nonzero; false if there are no elements. @throws ShapeError if an axis
/// does not exist.
template <class T>
Tensor<bool> any(const Tensor<T>& x, const Axes& axes, bool keepdim = false) {
  const detail::MergedAxes<bool> merged("any", cast<bool>(x), axes, keepdim);
  if (merged.extent() == 0) return full<bool>(merged.reduced, false, x.device());
  return detail::extremum_along("any", false, merged.x, merged.axis, false).value.with_shape(merged.reduced);
}
/// Returns whether any element is nonzero, a scalar [].
template <class T>
Tensor<bool> any(const Tensor<T>& x) {
  return any(x, Axes::all());
}

/// Returns whether all elements along the axes are nonzero; true if there are no elements. @throws ShapeError if an
/// axis does not exist.
template <class T>
Tensor<bool> all(const Tensor<T>& x, const Axes& axes, bool keepdim = false) {
  return logical_not(any(logical_not(x), axes, keepdim));
}
/// Returns whether all elements are nonzero, a scalar [].
template <class T>
Tensor<bool> all(const Tensor<T>& x) {
  return all(x, Axes::all());
}

}  // namespace heddle
