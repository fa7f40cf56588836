// A tensor seen around one of its axes, for the ops that work along any of them.
#pragma once
#include <heddle/tensor.hpp>

namespace heddle {

// [all axes before, the axis, all axes after]: a kernel's three loops. Throws ShapeError when there is no such axis.
template <class TensorT>
auto view_around(TensorT& x, int axis) {
  const Shape& s = x.shape();
  const int a = s.axis(axis);
  return View<std::remove_pointer_t<decltype(x.device_data())>, 3>{x.device_data(),
                                                                   {s.product(0, a), s[a], s.product(a + 1, s.rank())}};
}

// An axis of x, counted from 0; -1 is the last. Throws ShapeError that names the op.
template <class T>
int require_axis(const char* op, const Tensor<T>& x, int axis) {
  require<ShapeError>(-x.rank() <= axis && axis < x.rank(), op, ": there is no axis ", axis, " in ", x.shape());
  return x.shape().axis(axis);
}

// A shape without the axis that was reduced, or with extent 1 there.
inline Shape reduced(const Shape& s, int axis, bool keepdim) { return keepdim ? s.with(axis, 1) : s.without(axis); }

}  // namespace heddle
