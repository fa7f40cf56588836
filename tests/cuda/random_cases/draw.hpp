// The random choices of one case, and their description.
#pragma once
#include <initializer_list>
#include <random>
#include <sstream>

#include "../../harness/numbers.hpp"

namespace heddle::testing {

/// Draws everything that a case needs. It depends on the seed and on the number of the case alone, so that a case can
/// be repeated.
class Draw {
 public:
  Draw(std::uint64_t seed, std::uint64_t number) {
    std::seed_seq words{seed, seed >> 32, number, number >> 32};
    generator_.seed(words);
  }

  Index between(Index least, Index most) {
    return least + static_cast<Index>(generator_() % static_cast<std::uint64_t>(most - least + 1));
  }
  bool once_in(Index n) { return between(1, n) == 1; }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[between(0, static_cast<Index>(values.size()) - 1)];
  }

  /// Returns an extent of 1 to `most`, often a small one or one at the edge of a warp, a tile or a block.
  Index extent(Index most) {
    const Index edge = one_of<Index>({8, 16, 32, 64, 128, 256, 512, 1024, 4096}) + between(-1, 1);
    if (once_in(3) && edge <= most) return edge;
    return between(1, once_in(3) ? most : std::min<Index>(most, 40));
  }
  /// Returns a shape of some axes with at most about `size` elements.
  Shape shape(Index least_axes, Index most_axes, Index size) {
    std::vector<Index> extents(static_cast<std::size_t>(between(least_axes, most_axes)), 1);
    for (Index& e : extents) size /= e = extent(std::max<Index>(size, 1));
    std::shuffle(extents.begin(), extents.end(), generator_);
    return Shape(std::span<const Index>(extents));
  }

  /// Returns standard normal numbers, rounded to T.
  template <class T>
  Tensor<double> numbers(const Shape& shape) {
    return random<T>(shape, generator_());
  }
  /// Returns standard normal numbers whose absolute values are increased by 0.5, rounded to T.
  template <class T>
  Tensor<double> factors(const Shape& shape) {
    Tensor<double> x = numbers<T>(shape);
    for (Index i = 0; i < x.size(); ++i) x.data()[i] += x.data()[i] < 0 ? -0.5 : 0.5;
    return rounded<T>(x);
  }
  /// Returns ids of 0 to `limit` - 1.
  template <class I>
  Tensor<I> ids(const Shape& shape, Index limit) {
    Tensor<I> x(shape);
    for (Index i = 0; i < x.size(); ++i) x.data()[i] = static_cast<I>(between(0, limit - 1));
    return x;
  }

  std::uint64_t seed() { return generator_(); }

  /// Adds to the description of the case.
  template <class... Parts>
  void tell(const Parts&... parts) {
    std::ostringstream words;
    ((words << ' ' << parts), ...);
    text_ += words.str();
  }
  const std::string& text() const { return text_; }

  /// Calls check(T()) with float or bf16.
  template <class F>
  void with_type(F&& check) {
    if (once_in(2)) {
      tell("float");
      check(float());
    } else {
      tell("bf16");
      check(bf16());
    }
  }

 private:
  std::mt19937_64 generator_;
  std::string text_;
};

}  // namespace heddle::testing
