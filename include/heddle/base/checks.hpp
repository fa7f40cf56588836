// The checks that operations make of their operands, and the wording of their errors.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>
#include <type_traits>

#include <heddle/base/device.hpp>
#include <heddle/base/error.hpp>
#include <heddle/base/shape.hpp>

namespace heddle {

/// An operand of an operation, as an error message shows it: {"x", x}, or {"x", x, -1} for one of its axes.
struct Operand {
  const char* name;  ///< its name in the message
  Shape shape;       ///< its shape
  Device device;     ///< its device
  int axis;          ///< one of its axes, where a check compares two; -1 is the last
  bool is_present;   ///< whether the tensor has data; every check requires it

  /// Takes a tensor. Not inlined: copies of the shape for all checks would be 1 % of the code of README's program.
  template <class TensorT>
  [[gnu::noinline]] Operand(const char* shown, const TensorT& x, int which = 0)
      : name(shown), shape(x.shape()), device(x.device()), axis(which), is_present(has_data(x)) {}

 private:
  template <class TensorT>
  static bool has_data(const TensorT& x) {
    if constexpr (requires { x.has_data(); })
      return x.has_data();
    else if constexpr (std::is_constructible_v<bool, const TensorT&>)
      return static_cast<bool>(x);
    else
      return true;
  }
};

namespace detail {

// Checks that an operand is not an empty tensor. Throws Error.
inline void require_present(const char* op, const Operand& x) {
  require(x.is_present, op, ": '", x.name, "' is an empty tensor: it was made without a shape, or moved from");
}

// Returns the text with blanks after it, so that it has at least `width` bytes.
inline std::string left_aligned(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

// Throws ShapeError for two axes whose extents differ.
[[noreturn, gnu::cold, gnu::noinline]] inline void fail_different(const char* op, const char* axis_name,
                                                                  const Operand& a, const Operand& b,
                                                                  const char* remedy) {
  const std::size_t width = std::max(std::string_view(a.name).size(), std::string_view(b.name).size()) + 2;
  const std::size_t shape_width = std::max(a.shape.str().size(), b.shape.str().size()) + 4;
  const auto line = [&](const Operand& o) {
    return message({"\n  ", left_aligned(o.name, width), left_aligned(o.shape.str(), shape_width), "axis ",
                    o.shape.axis(o.axis), " is ", o.shape[o.axis]});
  };
  fail<ShapeError>(op, ": '", axis_name, "' disagrees between ", a.name, " and ", b.name, line(a), line(b),
                   *remedy ? "\n  " : "", remedy);
}

}  // namespace detail

/// Checks that two operands are on the same device. @throws Error that names both if the devices differ, and for an
/// empty tensor.
inline void require_same_device(const char* op, const Operand& a, const Operand& b) {
  detail::require_present(op, a);
  detail::require_present(op, b);
  require(a.device == b.device, op, ": ", a.name, ' ', a.shape, " is on ", a.device, ", ", b.name, ' ', b.shape,
          " is on ", b.device, "; move one of them with .to(Device)");
}

/// Checks that two axes have the same extent and their operands the same device, as in
/// require_same("linear", "in", {"x", x, -1}, {"weight", weight, 1}). @throws ShapeError with both shapes for different
/// extents, ShapeError for an axis that does not exist, and Error for different devices.
inline void require_same(const char* op, const char* axis_name, const Operand& a, const Operand& b,
                         const char* remedy = "") {
  require_same_device(op, a, b);
  for (const Operand* o : {&a, &b})
    require<ShapeError>(o->axis < o->shape.rank() && -o->axis <= o->shape.rank(), op, ": ", o->name, ' ', o->shape,
                        " has no axis ", o->axis, " for '", axis_name, '\'');
  if (a.shape[a.axis] != b.shape[b.axis]) detail::fail_different(op, axis_name, a, b, remedy);
}

namespace detail {

// Checks that a number from the user is finite and not negative. Throws Error that names the number and its range.
inline void require_nonnegative(const char* op, const char* name, double value) {
  require(value >= 0 && value < std::numeric_limits<double>::infinity(), op, ": ", name,
          " must be finite and not negative, got ", value);
}
// Checks that a number from the user is in [0, 1). Throws Error as above.
inline void require_fraction(const char* op, const char* name, double value) {
  require(value >= 0 && value < 1, op, ": ", name, " must be in [0, 1), got ", value);
}

}  // namespace detail

/// Checks that an operand has `rank` axes. @throws ShapeError for another number of axes.
inline void require_rank(const char* op, const Operand& x, int rank) {
  detail::require_present(op, x);
  require<ShapeError>(x.shape.rank() == rank, op, ": ", x.name, ' ', x.shape, " must have ", rank,
                      rank == 1 ? " axis" : " axes");
}

}  // namespace heddle
