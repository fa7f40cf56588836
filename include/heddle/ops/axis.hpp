// Helpers for operations along one axis: a view of a tensor around that axis, and checks of axis numbers.
#pragma once
#include <heddle/core/tensor.hpp>

namespace heddle::detail {

// Returns x as [all axes before, the axis, all axes after]: a kernel's three loops. Throws ShapeError if the axis does
// not exist.
template <class TensorT>
auto view_around(TensorT& x, int axis) {
  const Shape& s = x.shape();
  const int a = s.axis(axis);
  return View<std::remove_pointer_t<decltype(x.device_data())>, 3>{x.device_data(),
                                                                   {s.product(0, a), s[a], s.product(a + 1, s.rank())}};
}

// Returns the index of an axis of x, counted from 0. The argument may be negative: -1 is the last axis. Throws
// ShapeError, which names the operation, if the axis does not exist.
template <class T>
int require_axis(const char* op, const Tensor<T>& x, int axis) {
  require<ShapeError>(-x.rank() <= axis && axis < x.rank(), op, ": axis ", axis, " does not exist in shape ",
                      x.shape());
  return x.shape().axis(axis);
}

// Returns the shape without the reduced axis, or with extent 1 on it if `keepdim`.
inline Shape reduced(const Shape& s, int axis, bool keepdim) { return keepdim ? s.with(axis, 1) : s.without(axis); }

}  // namespace heddle::detail
