#pragma once
#include <algorithm>
#include <cmath>

#include <heddle/core/sequences.hpp>
#include <heddle/nn/clone.hpp>
#include <heddle/nn/init.hpp>
#include <heddle/nn/layer_norm.hpp>
#include <heddle/ops/disentangled_bias.hpp>
#include <heddle/ops/dropout.hpp>
#include <heddle/ops/embed.hpp>
#include <heddle/ops/permute.hpp>
#include <heddle/ops/reshape.hpp>
#include <heddle/ops/slice.hpp>

namespace heddle::nn {

namespace detail {

// Returns the bias [1, H, Tq, Tk] of queries and keys that begin at the same position: the row of the table
// [rows, H] that row_of(distance) gives for each pair, whose distance is the key's position minus the query's. Tq and
// Tk are the padded lengths of the sequences, or the lengths of the longest ones if they are packed.
template <class A, class T, class RowOf>
Tensor<A> bias_of_distances(const Parameter<T>& table, const Sequences& queries, const Sequences& keys,
                            RowOf&& row_of) {
  const Index Tq = queries.extent(), Tk = keys.extent();
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

/// The embeddings of the distances in a batch, for the disentangled attention of MultiHeadAttention.
template <Floating A>
struct DistanceRows {
  Tensor<A> rows;           ///< [R, D], one for each column
  DistanceColumns columns;  ///< which row each distance has
};

/// The embeddings of distances that the layers of a DeBERTa share (He et al. 2021). A distance is the query's position
/// minus the key's. The distances up to half of the buckets have a bucket each, and the rest of the buckets grow as the
/// logarithm up to `greatest`; without buckets, each distance has its own row. Row span + bucket is for a bucket, and
/// distances beyond the table share its ends.
template <Floating T = float>
struct DistanceEmbeddings {
  Parameter<T> weight;               ///< [2 * span, D]
  std::optional<LayerNorm<T>> norm;  ///< over each row
  bool has_buckets;                  ///< whether distances share buckets
  Index greatest;                    ///< the distance from which on all share a bucket

  /// Initializes to zeros. The span is the number of buckets, or `greatest` without buckets (0). @throws ShapeError for
  /// a D below 1, and unless the number of buckets is even, from 0 to 2^29, and at least 4 if it is not 0, and greatest
  /// is in [buckets / 2 + 2, 2^29), or in [1, 2^29) without buckets; Error for an eps that is negative or not finite.
  DistanceEmbeddings(Index buckets, Index greatest_distance, Index D, double eps, bool has_norm)
      : weight(constant_init<T>(
            {2 * checked_span(buckets, greatest_distance), require_size("DistanceEmbeddings", "D", D)}, 0)),
        has_buckets(buckets > 0),
        greatest(greatest_distance) {
    if (has_norm) norm.emplace(D, eps);
  }
  /// Copies the members of `other` for clone().
  DistanceEmbeddings(const DistanceEmbeddings& other, Cloning& c)
      : weight(c(other.weight)), norm(c(other.norm)), has_buckets(other.has_buckets), greatest(other.greatest) {}

  /// Returns the number of rows for distances of one direction.
  Index span() const { return weight.shape()[0] / 2; }
  /// Returns the row of a distance.
  Index row_of(Index distance) const { return std::clamp(bucket(distance) + span(), Index{0}, 2 * span() - 1); }
  /// Returns the embeddings of the distances within sequences. @throws ShapeError if all sequences are empty.
  template <class A = T>
  DistanceRows<A> operator()(const Sequences& sequences) const {
    DistanceColumns columns(
        sequences.extent(), [&](Index distance) { return row_of(distance); }, weight.device());
    const Tensor<A> rows = slice(weight.template as<A>(), 0, columns.offset, columns.offset + columns.count());
    return {norm ? (*norm)(rows) : rows, std::move(columns)};
  }

  /// Visits the members.
  static void visit(auto& self, auto&& f) {
    f("rel_embeddings.weight", self.weight);
    f("LayerNorm", self.norm);
  }

 private:
  Index bucket(Index distance) const {
    const Index half = span() / 2, d = std::abs(distance);
    if (!has_buckets || d <= half) return distance;
    const float of_half = static_cast<float>(half);  // in float, as the original computes it
    const float part = std::log(static_cast<float>(d) / of_half) /
                       std::log(static_cast<float>(static_cast<double>(greatest - 1) / static_cast<double>(half)));
    const Index beyond = static_cast<Index>(std::ceil(part * static_cast<float>(half - 1))) + half;
    return distance > 0 ? beyond : -beyond;
  }
  static Index checked_span(Index buckets, Index greatest) {
    constexpr Index limit = Index{1} << 29;  // rows are numbered by int
    require<ShapeError>(buckets == 0 || (4 <= buckets && buckets <= limit && buckets % 2 == 0),
                        "DistanceEmbeddings: buckets must be 0 or even and from 4 to 2^29, got ", buckets);
    const Index least = buckets > 0 ? buckets / 2 + 2 : 1;
    require<ShapeError>(least <= greatest && greatest < limit, "DistanceEmbeddings: greatest must be in [", least,
                        ", 2^29), got ", greatest);
    return buckets > 0 ? buckets : greatest;
  }
};

}  // namespace heddle::nn
