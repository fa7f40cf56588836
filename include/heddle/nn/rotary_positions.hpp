#pragma once
#include <heddle/ops/rotary.hpp>

namespace heddle::nn {

/// Positions that rotate queries and keys, so that their scores depend on distances (Su et al. 2021). They have no
/// weights. The layers of an encoder share a table of cosines and sines:
///   const RotaryPositions rotary(K);
///   const auto table = rotary.table<float>(sequences);
///   x = attention(x, sequences, {}, table);
struct RotaryPositions {
  std::vector<float> frequencies;  ///< angle of a position divided by it, for each pair of columns; K / 2

  /// Computes the frequencies of heads of width K (rotary_frequencies()). @throws ShapeError unless K is even and from
  /// 2 to 512, and Error unless base and divisor are finite and above 0.
  explicit RotaryPositions(Index K, double base = 10000, double divisor = 1)
      : frequencies(rotary_frequencies(K, base, divisor)) {}
  /// Takes the frequencies, for a model that scales them.
  explicit RotaryPositions(std::vector<float> given) : frequencies(std::move(given)) {}

  /// Returns the table for the positions of these sequences, on their device (rotary_table()). @throws ShapeError for
  /// no frequency and for more than 256.
  template <Floating A>
  Tensor<Acc<A>> table(const Sequences& sequences) const {  // [longest, K]
    return rotary_table<Acc<A>>(sequences.longest(), frequencies, sequences.device());
  }
};

}  // namespace heddle::nn
