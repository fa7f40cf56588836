// Axes of a tensor: one, several or all of them, checks of axis numbers, and the view of a tensor around one axis.
#pragma once
#include <concepts>
#include <initializer_list>
#include <vector>

#include <heddle/core/tensor.hpp>

namespace heddle {

/// The axes that a reduction removes: a number, or a list as in sum(x, {0, -1}); -1 is the last. An empty list stands
/// for all axes, as in PyTorch. The reduction throws ShapeError for an axis that does not exist or is named twice.
class Axes {
 public:
  /// Takes one axis.
  template <std::integral Integer>
  requires(!std::is_same_v<Integer, bool>) Axes(Integer axis) : axes_{static_cast<int>(axis)} {}
  /// Takes several axes; an empty list stands for all.
  Axes(std::initializer_list<int> axes) : axes_(axes) {}
  /// Takes several axes; an empty list stands for all.
  Axes(std::vector<int> axes) : axes_(std::move(axes)) {}
  /// Returns all axes.
  static Axes all() { return std::vector<int>(); }

  /// Returns the axes as given; an empty list stands for all.
  const std::vector<int>& list() const { return axes_; }

 private:
  std::vector<int> axes_;
};

namespace detail {

// Returns x as [all axes before, the axis, all axes after]: a kernel's three loops. Throws ShapeError if the axis does
// not exist.
template <class TensorT>
auto view_around(TensorT& x, int axis) {
  const Shape& s = x.shape();
  const int a = s.axis(axis);
  return View<std::remove_pointer_t<decltype(x.device_data())>, 3>{x.device_data(),
                                                                   {s.product(0, a), s[a], s.product(a + 1, s.rank())}};
}

// Returns the index of an axis, counted from 0. The argument may be negative: -1 is the last axis. Throws
// ShapeError, which names the operation, if the axis does not exist.
inline int require_axis(const char* op, const Shape& shape, int axis) {
  require<ShapeError>(-shape.rank() <= axis && axis < shape.rank(), op, ": axis ", axis, " does not exist in shape ",
                      shape);
  return shape.axis(axis);
}
template <class T>
int require_axis(const char* op, const Tensor<T>& x, int axis) {
  return require_axis(op, x.shape(), axis);
}

// Returns the shape without the reduced axis, or with extent 1 on it if `keepdim`.
inline Shape reduced(const Shape& s, int axis, bool keepdim) { return keepdim ? s.with(axis, 1) : s.without(axis); }

}  // namespace detail
}  // namespace heddle
