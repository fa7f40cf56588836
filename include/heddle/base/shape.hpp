// Shape: the extents of a tensor, checked on construction.
#pragma once
#include <algorithm>
#include <array>
#include <initializer_list>
#include <limits>
#include <ostream>
#include <span>
#include <string>

#include <heddle/base/build.hpp>
#include <heddle/base/error.hpp>

namespace heddle {

namespace detail {
// Returns extents as text: "[2, -1]".
[[gnu::cold]] inline std::string extents_text(std::span<const Index> extents) {
  std::string text = "[";
  for (const Index extent : extents) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + ']';
}
}  // namespace detail

/// The extents of a tensor: up to eight axes, as in {B, T, D}; a scalar has none. A negative axis counts from the end.
/// @throws ShapeError for a negative extent, more than eight axes, or extents whose running product does not
/// fit in 63 bits.
class Shape {
 public:
  static constexpr int max_rank = 8;  ///< the maximum number of axes

  Shape() = default;
  /// Takes the extents of the axes, in order.
  constexpr Shape(std::initializer_list<Index> extents) : Shape(extents.begin(), extents.size()) {}
  /// Takes the extents of the axes, in order.
  constexpr explicit Shape(std::span<const Index> extents) : Shape(extents.data(), extents.size()) {}

  /// Returns the number of axes.
  int rank() const { return rank_; }
  /// Returns the product of the extents; 1 for a scalar.
  Index size() const { return size_; }
  /// Returns the extent of an axis; -1 is the last. @throws ShapeError if the axis does not exist.
  Index operator[](int axis) const { return extent_[static_cast<std::size_t>(this->axis(axis))]; }
  /// Returns a pointer to the first extent.
  constexpr const Index* begin() const { return extent_.data(); }
  /// Returns a pointer past the last extent.
  constexpr const Index* end() const { return extent_.data() + rank_; }

  /// Returns an axis counted from 0; -1 is the last. @throws ShapeError if the axis does not exist.
  int axis(int a) const {
    const int counted = a < 0 ? a + rank_ : a;
    if (counted < 0 || counted >= rank_)
      throw ShapeError("axis " + std::to_string(a) + " does not exist in shape " + str());
    return counted;
  }

  /// Returns the shape with another extent: {B, T, D}.with(-1, E) is {B, T, E}. @throws ShapeError if the axis does not
  /// exist, the extent is negative, or the size does not fit in 63 bits.
  Shape with(int axis, Index extent) const {
    Shape s = *this;
    s.extent_[static_cast<std::size_t>(this->axis(axis))] = extent;
    s.check();
    return s;
  }
  /// Returns the shape without an axis: {B, T, D}.without(1) is {B, D}. @throws ShapeError if the axis does not exist,
  /// or if the size does not fit in 63 bits without it.
  Shape without(int axis) const {
    Shape s = *this;
    std::copy(begin() + this->axis(axis) + 1, end(), s.extent_.begin() + this->axis(axis));
    s.extent_[static_cast<std::size_t>(--s.rank_)] = 0;
    s.check();
    return s;
  }
  /// Returns the product of the extents of axes [first, last). `first` and `last` count from 0 and are not checked.
  Index product(int first, int last) const {
    Index n = 1;
    for (int a = first; a < last; ++a) n *= extent_[static_cast<std::size_t>(a)];
    return n;
  }

  /// Returns the shape as text: "[2, 3]".
  std::string str() const { return detail::extents_text({begin(), end()}); }
  /// Returns whether both have the same axes.
  friend bool operator==(const Shape&, const Shape&) = default;
  /// Prints the shape as str() returns it.
  friend std::ostream& operator<<(std::ostream& out, const Shape& s) { return out << s.str(); }

 private:
  // A loop, because libstdc++'s debug mode cannot check ranges at compile time.
  constexpr Shape(const Index* extents, std::size_t count) {
    if (count > max_rank) throw ShapeError("Shape: " + std::to_string(count) + " axes given, at most 8 are supported");
    rank_ = static_cast<int>(count);
    for (std::size_t i = 0; i < count; ++i) extent_[i] = extents[i];
    check();
  }
  constexpr void check() {
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
