#pragma once
#include <algorithm>
#include <cmath>

#include <heddle/core/sequences.hpp>
#include <heddle/nn/clone.hpp>
#include <heddle/nn/init.hpp>
#include <heddle/ops/embed.hpp>
#include <heddle/ops/permute.hpp>
#include <heddle/ops/reshape.hpp>

namespace heddle::nn {

namespace detail {

// Returns the bias [1, H, Tq, Tk] of queries and keys that begin at the same position: the row of the table
// [rows, H] that row_of(distance) gives for each pair, whose distance is the key's position minus the query's. Tq and
// Tk are the padded lengths of the sequences, or the lengths of the longest ones if they are packed.
template <class A, class T, class RowOf>
Tensor<A> bias_of_distances(const Parameter<T>& table, const Sequences& queries, const Sequences& keys,
                            RowOf&& row_of) {
  const auto extent = [](const Sequences& s) { return s.padded_to() ? s.padded_to() : s.longest(); };
  const Index Tq = extent(queries), Tk = extent(keys);
  std::vector<int> of_distance;  // for the distances from 1 - Tq to Tk - 1
  for (Index distance = 1 - Tq; distance < Tk; ++distance) of_distance.push_back(static_cast<int>(row_of(distance)));
  Tensor<int> rows({Tq * Tk});
  int* out = rows.data();
  for (Index q = 0; q < Tq; ++q) out = std::copy_n(of_distance.data() + (Tq - 1 - q), Tk, out);
  const Tensor<A> of_pairs = cast<A>(embed(rows.to(table.device()), table));  // [Tq * Tk, H]
  return reshape(transpose(of_pairs), Shape{1, table.shape()[1], Tq, Tk});
}

}  // namespace detail

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
    const Index greatest = weight.shape()[0] / 2;
    return detail::bias_of_distances<A>(weight, sequences, sequences, [=](Index distance) {
      return std::clamp(distance, -greatest, greatest) + greatest;
    });
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

/// A trained number for each head and bucket of distances between a query and a key, which attention adds to their
/// score (Raffel et al. 2020, as in T5 and MPNet). Half of the buckets are for keys behind their query. Of each half,
/// the first half has one distance for each bucket, and the rest grows as the logarithm up to `greatest`; greater
/// distances share the last bucket.
template <Floating T = float>
struct BucketedPositionBias {
  Parameter<T> weight;  ///< [buckets, H]
  Index greatest;       ///< the distance from which on all share a bucket

  /// Initializes to zeros. @throws ShapeError unless the number of buckets is a multiple of 4 from 4 to 2^30, greatest
  /// is in (buckets / 4, 2^30), and there is at least one head.
  BucketedPositionBias(Index buckets, Index greatest_distance, int heads)
      : weight(constant_init<T>(
            {checked(buckets, greatest_distance), require_size("BucketedPositionBias", "heads", heads)}, 0)),
        greatest(greatest_distance) {}
  /// Copies the members of `other` for clone().
  BucketedPositionBias(const BucketedPositionBias& other, Cloning& c)
      : weight(c(other.weight)), greatest(other.greatest) {}

  /// Returns the bucket of a distance: the key's position minus the query's.
  Index bucket(Index distance) const {
    const Index half = weight.shape()[0] / 2, exact = half / 2;
    const Index first = distance > 0 ? half : 0, d = std::abs(distance);
    if (d < exact) return first + d;
    const auto of_exact = static_cast<float>(exact);
    const float part = std::log(static_cast<float>(d) / of_exact) /  // in float, as the originals compute it
                       static_cast<float>(std::log(static_cast<double>(greatest) / static_cast<double>(exact)));
    return first + std::min(exact + static_cast<Index>(part * static_cast<float>(half - exact)), half - 1);
  }

  /// Returns the bias [1, H, Tq, Tk] of queries and keys that begin at the same position. Tq and Tk are the padded
  /// lengths of the sequences, or the lengths of the longest ones if they are packed.
  template <class A = T>
  Tensor<A> operator()(const Sequences& queries, const Sequences& keys) const {
    return detail::bias_of_distances<A>(weight, queries, keys, [&](Index distance) { return bucket(distance); });
  }
  /// Returns the bias [1, H, T, T] of sequences that attend to themselves.
  template <class A = T>
  Tensor<A> operator()(const Sequences& sequences) const {
    return (*this).template operator()<A>(sequences, sequences);
  }

  /// Visits the members.
  static void visit(auto& self, auto&& f) { f("weight", self.weight); }

 private:
  static Index checked(Index buckets, Index greatest) {
    constexpr Index limit = Index{1} << 30;  // rows are numbered by int
    require<ShapeError>(4 <= buckets && buckets <= limit && buckets % 4 == 0,
                        "BucketedPositionBias: buckets must be a multiple of 4 from 4 to 2^30, got ", buckets);
    require<ShapeError>(buckets / 4 < greatest && greatest < limit, "BucketedPositionBias: greatest must be in (",
                        buckets / 4, ", 2^30), got ", greatest);
    return buckets;
  }
};

}  // namespace heddle::nn
