// Shape: the extents of a tensor, checked when made.
#pragma once
#include <algorithm>
#include <array>
#include <initializer_list>
#include <limits>
#include <ostream>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>

#include <heddle/view.hpp>

namespace heddle {

// The base of every exception that heddle throws. what() names the operation, the operands and their shapes.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// Shapes or axes that do not fit, or a size that is out of range.
struct ShapeError : Error {
  using Error::Error;
};

// Up to eight extents, e.g. {B, T, D}; none at all is a scalar. A negative axis counts from the end. Throws ShapeError for
// a negative extent, more than eight axes, or a size that does not fit in 63 bits.
class Shape {
 public:
  static constexpr int max_rank = 8;

  Shape() = default;
  // Throw as said above.
  Shape(std::initializer_list<Index> extents) : Shape(std::span<const Index>(extents.begin(), extents.size())) {}
  explicit Shape(std::span<const Index> extents) {
    if (extents.size() > max_rank)
      throw ShapeError("Shape: " + std::to_string(extents.size()) + " axes given, at most 8 are supported");
    rank_ = static_cast<int>(extents.size());
    std::copy(extents.begin(), extents.end(), extent_.begin());
    check();
  }

  int rank() const { return rank_; }
  Index size() const { return size_; }
  // The extent of an axis; -1 is the last. Throws ShapeError when there is no such axis.
  Index operator[](int axis) const { return extent_[static_cast<std::size_t>(this->axis(axis))]; }
  const Index* begin() const { return extent_.data(); }
  const Index* end() const { return extent_.data() + rank_; }

  // -1 is the last axis. Throws ShapeError when there is no such axis.
  int axis(int a) const {
    const int counted = a < 0 ? a + rank_ : a;
    if (counted < 0 || counted >= rank_)
      throw ShapeError("axis " + std::to_string(a) + " does not exist in shape " + str());
    return counted;
  }

  // {B, T, D}.with(-1, E) == {B, T, E}
  Shape with(int axis, Index extent) const {
    Shape s = *this;
    s.extent_[static_cast<std::size_t>(this->axis(axis))] = extent;
    s.check();
    return s;
  }
  // {B, T, D}.without(1) == {B, D}
  Shape without(int axis) const {
    Shape s = *this;
    std::copy(begin() + this->axis(axis) + 1, end(), s.extent_.begin() + this->axis(axis));
    s.extent_[static_cast<std::size_t>(--s.rank_)] = 0;
    s.check();
    return s;
  }
  // The product of the extents in [first, last).
  Index product(int first, int last) const {
    Index n = 1;
    for (int a = first; a < last; ++a) n *= extent_[static_cast<std::size_t>(a)];
    return n;
  }

  std::string str() const {
    std::string s = "[";
    for (const Index e : *this) s += (s.size() > 1 ? ", " : "") + std::to_string(e);
    return s + ']';
  }
  friend bool operator==(const Shape&, const Shape&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Shape& s) { return out << s.str(); }

 private:
  void check() {
    size_ = 1;
    for (const Index e : *this) {
      if (e < 0) throw ShapeError("Shape: an extent is negative in " + str());
      if (e > 0 && size_ > std::numeric_limits<Index>::max() / e)
        throw ShapeError("Shape: the number of elements of " + str() + " does not fit in 63 bits");
      size_ *= e;
    }
  }

  std::array<Index, max_rank> extent_{};
  int rank_ = 0;
  Index size_ = 1;
};

}  // namespace heddle
