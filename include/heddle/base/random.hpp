// Random: a source of random numbers. There is no global generator; functions that draw take one as an argument.
#pragma once
#include <algorithm>
#include <optional>

#include <heddle/base/error.hpp>
#include <heddle/base/philox.hpp>

namespace heddle {

/// The place of a batch that is a part of a larger one: some consecutive sequences, with their rows.
struct BatchPart {
  Index number = 0;          ///< the number of the part, from 0
  Index first_row = 0;       ///< the first row, as numbered in the larger batch
  Index rows = 0;            ///< the number of rows, padding included
  Index first_sequence = 0;  ///< the first sequence, as numbered in the larger batch
  Index sequences = 0;       ///< the number of sequences
  Index longest = 0;         ///< the rows of the longest sequence of the larger batch
};

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
  /// do not depend on the sizes of those before it. A stream serves 2^32 operations. The generator of a part skips the
  /// `before` draws that the operation uses for earlier parts; each of the 1,024 first parts has draws of its own if
  /// their number is not given.
  kernel::Draws take_for_operation(std::uint64_t calls, std::optional<std::uint64_t> before = {}) {
    constexpr std::uint64_t unit = std::uint64_t{1} << 32, unit_of_part = unit >> 10;
    const std::uint64_t skipped = before.value_or(part_ ? static_cast<std::uint64_t>(part_->number) * unit_of_part : 0);
    kernel::Draws taken = take(std::max((skipped + calls + unit - 1) / unit, std::uint64_t{1}) * unit);
    taken.first += skipped;
    return taken;
  }
  /// Returns 64 random bits. @throws Error in a recorded run of a cuda::Graph.
  std::uint64_t next() {
    require(!draws_.further, "Random: a run of cuda::Graph draws numbers on the host, which its replays cannot repeat");
    const kernel::PhiloxWords words = take(1)(0);
    return std::uint64_t{words.w[1]} << 32 | words.w[0];
  }

  /// Returns the generator for a batch that is a part of a larger one. Dropout of its rows, of one row for each of its
  /// sequences, and of its attention then draws what it draws for them in the larger batch. This needs rows of a
  /// multiple of eight elements, and more rows than sequences. Otherwise draws differ from those of the larger batch.
  Random for_part(const BatchPart& part) const {
    Random of_part = *this;
    of_part.part_ = part;
    return of_part;
  }
  /// Returns the part whose generator this is, if it is that of a part.
  const std::optional<BatchPart>& part() const { return part_; }

  /// @private Returns the generator for a recorded run of a cuda::Graph, whose replays begin `*further` draws further.
  Random with_further(const std::uint64_t* further) const {
    Random recorded = *this;
    recorded.draws_.further = further;
    return recorded;
  }

 private:
  kernel::Draws draws_;
  std::optional<BatchPart> part_;
};

}  // namespace heddle
