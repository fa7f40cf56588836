// Random: a source of random numbers. There is no global generator; functions that draw take one as an argument.
#pragma once
#include <heddle/base/error.hpp>
#include <heddle/base/philox.hpp>

namespace heddle {

/// A random number generator: a position in the sequence of 128-bit draws that a seed and a stream define. Two streams
/// of one seed never overlap.
class Random {
 public:
  /// Begins the sequence of draws of a seed and a stream.
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0) : draws_{seed, stream, 0, nullptr} {}

  /// Returns the seed.
  std::uint64_t seed() const { return draws_.seed; }
  /// Returns the stream.
  std::uint64_t stream() const { return draws_.stream; }
  /// Returns the position in the sequence: the number of draws before the next one.
  std::uint64_t position() const { return draws_.first; }
  /// Restores a position returned by position().
  void seek(std::uint64_t position) { draws_.first = position; }

  /// Takes the next `calls` draws of 128 bits from the sequence; a draw is one call of Philox.
  kernel::Draws take(std::uint64_t calls) {
    const kernel::Draws taken = draws_;
    draws_.first += calls;
    return taken;
  }
  /// Takes the draws of an operation that uses `calls` of them: a multiple of 2^32, so that the draws of an operation
  /// do not depend on the sizes of those before it. A stream serves 2^32 operations.
  kernel::Draws take_for_operation(std::uint64_t calls) {
    constexpr std::uint64_t unit = std::uint64_t{1} << 32;
    return take(calls <= unit ? unit : (calls + unit - 1) / unit * unit);
  }
  /// Returns 64 random bits. @throws Error in a recorded run of a cuda::Graph.
  std::uint64_t next() {
    require(!draws_.further, "Random: a run of cuda::Graph draws numbers on the host, which its replays cannot repeat");
    const kernel::PhiloxWords words = take(1)(0);
    return std::uint64_t{words.w[1]} << 32 | words.w[0];
  }

  /// @private Returns the generator for a recorded run of a cuda::Graph, whose replays begin `*further` draws further.
  Random with_further(const std::uint64_t* further) const {
    Random recorded = *this;
    recorded.draws_.further = further;
    return recorded;
  }

 private:
  kernel::Draws draws_;
};

}  // namespace heddle
