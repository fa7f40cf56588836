// Random: where random numbers come from. There is no global generator; whoever draws is handed one.
#pragma once
#include <cmath>

#include <heddle/philox.hpp>
#include <heddle/tensor.hpp>

namespace heddle {

// A position in the sequence of 128-bit draws that (seed, stream) name. Two streams of one seed never meet.
class Random {
 public:
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0) : draws_{seed, stream, 0} {}

  std::uint64_t seed() const { return draws_.seed; }
  std::uint64_t stream() const { return draws_.stream; }
  std::uint64_t position() const { return draws_.first; }
  // To where position() was once.
  void seek(std::uint64_t position) { draws_.first = position; }

  // Takes the next `calls` draws out of the sequence.
  Draws take(std::uint64_t calls) {
    const Draws taken = draws_;
    draws_.first += calls;
    return taken;
  }
  // 64 random bits, for the user's own choices.
  std::uint64_t next() {
    const Words w = take(1)(0);
    return std::uint64_t{w.w[1]} << 32 | w.w[0];
  }

 private:
  Draws draws_;
};

// A probability to drop, in [0, 1). Throws Error otherwise; `op` begins the message.
inline DropoutRule dropout_rule(const char* op, double p) {
  require(p >= 0 && p < 1, op, ": a dropout probability is in [0, 1), got ", p);
  const DropoutRule rule(p);
  require(rule.threshold < 65536, op, ": a dropout probability of ", p, " leaves nothing");
  return rule;
}

namespace kernel {
// 53 random bits in (0, 1]: the logarithm of one is finite.
inline double unit(std::uint32_t high, std::uint32_t low) {
  return (static_cast<double>(high >> 5) * 67108864 + static_cast<double>(low >> 6) + 1) / 9007199254740992.0;
}
}  // namespace kernel

// Uniform in [lo, hi); element i takes half a draw, so every T sees the same numbers, rounded.
template <class T>
Tensor<T> uniform(Shape shape, double lo, double hi, Random& random) {
  Tensor<T> y(shape);
  const Draws draws = random.take(static_cast<std::uint64_t>((y.size() + 1) / 2));
  T* const out = y.data();
  for (Index i = 0; i < y.size(); ++i) {
    const Words w = draws(static_cast<std::uint64_t>(i / 2));
    const double u = 1 - kernel::unit(w.w[i % 2 * 2], w.w[i % 2 * 2 + 1]);
    out[i] = static_cast<T>(lo + (hi - lo) * u);
  }
  return y;
}

// Standard normal (Box and Muller 1958): one draw gives two elements.
template <class T>
Tensor<T> randn(Shape shape, Random& random) {
  Tensor<T> y(shape);
  const Draws draws = random.take(static_cast<std::uint64_t>((y.size() + 1) / 2));
  T* const out = y.data();
  for (Index i = 0; i < y.size(); i += 2) {
    const Words w = draws(static_cast<std::uint64_t>(i / 2));
    const double radius = std::sqrt(-2 * std::log(kernel::unit(w.w[0], w.w[1])));
    const double angle = 6.283185307179586 * kernel::unit(w.w[2], w.w[3]);
    out[i] = static_cast<T>(radius * std::cos(angle));
    if (i + 1 < y.size()) out[i + 1] = static_cast<T>(radius * std::sin(angle));
  }
  return y;
}

}  // namespace heddle
