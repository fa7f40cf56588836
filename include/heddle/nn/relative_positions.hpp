#pragma once
#include <heddle/core/sequences.hpp>
#include <heddle/nn/clone.hpp>
#include <heddle/nn/init.hpp>
#include <heddle/ops/embed.hpp>
#include <heddle/ops/permute.hpp>
#include <heddle/ops/reshape.hpp>

namespace heddle::nn {

/// A trained number for each head and distance between a query and a key, which attention adds to their score:
///   layer(x, sequences, {.bias = positions(sequences)})
/// Distances have a sign; those beyond `greatest` in either direction share the number of distance `greatest` in that
/// direction (Shaw et al. 2018, Raffel et al. 2020).
template <Floating T = float>
struct RelativePositionBias {
  Parameter<T> weight;  ///< [2 * greatest + 1, H]; row greatest + d is for a key d positions after its query

  /// Initializes to zeros. @throws ShapeError unless `greatest` is in [0, 2^30) and there is at least one head.
  RelativePositionBias(Index greatest, int heads)
      : weight(constant_init<T>({2 * checked(greatest) + 1, require_size("RelativePositionBias", "heads", heads)}, 0)) {
  }
  /// Copies the members of `other` for clone().
  RelativePositionBias(const RelativePositionBias& other, Cloning& c) : weight(c(other.weight)) {}

  /// Returns the bias [1, H, T, T], where T is the padded length of the sequences, or the length of the longest one if
  /// they are packed.
  template <class A = T>
  Tensor<A> operator()(const Sequences& sequences) const {
    const Index greatest = weight.shape()[0] / 2, H = weight.shape()[1];
    const Index length = sequences.padded_to() ? sequences.padded_to() : sequences.longest();
    Tensor<int> rows({length * length});
    int* out = rows.data();
    for (Index q = 0; q < length; ++q)
      for (Index k = 0; k < length; ++k) *out++ = static_cast<int>(std::clamp(k - q, -greatest, greatest) + greatest);
    const Tensor<A> of_pairs = cast<A>(embed(rows.to(weight.device()), weight));  // [T * T, H]
    return reshape(transpose(of_pairs), Shape{1, H, length, length});
  }

  /// Visits the members.
  static void visit(auto& self, auto&& f) { f("weight", self.weight); }

 private:
  static Index checked(Index greatest) {
    constexpr Index limit = Index{1} << 30;  // rows are numbered by int
    require<ShapeError>(0 <= greatest && greatest < limit, "RelativePositionBias: greatest must be in [0, 2^30), got ",
                        greatest);
    return greatest;
  }
};

}  // namespace heddle::nn
