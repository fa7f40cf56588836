// The errors that heddle throws, and the one place where a shape error is worded.
#pragma once
#include <heddle/shape.hpp>
#include <iomanip>
#include <sstream>

namespace heddle {

// Where a tensor lives. Without HEDDLE_CUDA a build has the CPU only.
enum class Device { cpu, cuda };

// cpu or cuda, as in messages and in what is printed.
inline const char* name(Device device) { return device == Device::cpu ? "cpu" : "cuda"; }
inline std::ostream& operator<<(std::ostream& out, Device device) { return out << name(device); }

// An id outside its table, or an axis position outside a tensor.
struct IndexError : Error {
  using Error::Error;
};
// A file that cannot be read or written, or whose content is refused.
struct FileError : Error {
  using Error::Error;
};
// Memory for a tensor, or for a file while it is written.
struct OutOfMemory : Error {
  using Error::Error;
};
// A call of CUDA that failed.
struct CudaError : Error {
  using Error::Error;
};

// Throws E with all parts streamed into one text.
template <class E = Error, class... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void fail(const Parts&... parts) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  (text << ... << parts);
  throw E(text.str());
}

// fail<E>(parts...) unless ok. The parts are evaluated in any case, the text is made only where it is thrown.
template <class E = Error, class... Parts>
void require(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail<E>(parts...);
}

// One operand's axis, as it appears in an error message.
struct Axis {
  const char* operand;
  Shape shape;
  Device device;
  int axis;

  // `which` may be negative: -1 is the last.
  template <class TensorT>
  Axis(const char* name, const TensorT& x, int which)
      : operand(name), shape(x.shape()), device(x.device()), axis(which) {}
};

// Two operands on the same device. Throws Error that names both.
inline void require_same_device(const char* op, const Axis& a, const Axis& b) {
  require(a.device == b.device, op, ": ", a.operand, ' ', a.shape, " is on ", a.device, ", ", b.operand, ' ', b.shape,
          " is on ", b.device, "; move one of them with .to(Device)");
}

// Two axes of operands on the same device that must have the same extent, as in
// require_same("linear", "in", {"x", x, -1}, {"weight", weight, 1}). Throws ShapeError with both shapes.
inline void require_same(const char* op, const char* axis_name, const Axis& a, const Axis& b, const char* remedy = "") {
  require_same_device(op, a, b);
  for (const Axis* o : {&a, &b})
    require<ShapeError>(o->axis < o->shape.rank() && -o->axis <= o->shape.rank(), op, ": ", o->operand, ' ', o->shape,
                        " has no axis ", o->axis, " for '", axis_name, '\'');
  if (a.shape[a.axis] == b.shape[b.axis]) return;
  std::ostringstream text;
  text << op << ": '" << axis_name << "' disagrees between " << a.operand << " and " << b.operand;
  const auto width = static_cast<int>(std::max({std::string(a.operand).size(), std::string(b.operand).size()}) + 2);
  const auto shape_width = static_cast<int>(std::max(a.shape.str().size(), b.shape.str().size()) + 4);
  for (const Axis* o : {&a, &b})
    text << "\n  " << std::left << std::setw(width) << o->operand << std::setw(shape_width) << o->shape.str() << "axis "
         << o->shape.axis(o->axis) << " is " << o->shape[o->axis];
  if (*remedy) text << "\n  " << remedy;
  throw ShapeError(text.str());
}

// An operand with a fixed number of axes.
inline void require_rank(const char* op, const Axis& x, int rank) {
  require<ShapeError>(x.shape.rank() == rank, op, ": ", x.operand, ' ', x.shape, " must have ", rank,
                      rank == 1 ? " axis" : " axes");
}

}  // namespace heddle
