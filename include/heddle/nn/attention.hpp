#pragma once
#include <heddle/nn/linear.hpp>
#include <heddle/nn/relative_positions.hpp>
#include <heddle/ops/arithmetic.hpp>
#include <heddle/ops/attention/attention.hpp>
#include <heddle/ops/concat.hpp>
#include <heddle/ops/matmul.hpp>
#include <heddle/ops/padded.hpp>
#include <heddle/ops/reduce.hpp>
#include <heddle/ops/rotary.hpp>
#include <heddle/ops/rows.hpp>
#include <heddle/ops/slice.hpp>

namespace heddle::nn {

/// The queries, keys and weights of a self-attention.
template <Floating A>
struct AttentionRecord {
  Tensor<A> queries;  ///< [N, H * K]
  Tensor<A> keys;     ///< [N, H * K]
  Tensor<A> weights;  ///< [B, H, T, T], without dropout
};

/// Self-attention with H heads of width K: out(attention(query(x), key(x), value(x))). One product with one combined
/// parameter computes the three projections; files hold three weights.
template <Floating T = float>
struct MultiHeadAttention {
  Linear<T> qkv;  ///< D to 3 * H * K: queries, keys and values
  Linear<T> out;  ///< H * K to D
  int heads;      ///< number of heads

  /// Draws the weights. A head width of 0 stands for D / heads. @throws ShapeError if it is 0 and D is not a multiple
  /// of the number of heads, and for a size below 1.
  [[gnu::cold]] MultiHeadAttention(Index D, int head_count, Random& random, Index head_width = 0, bool with_bias = true)
      : qkv(D, 3 * head_count * width(D, head_count, head_width), random, with_bias),
        out(head_count * width(D, head_count, head_width), D, random, with_bias),
        heads(head_count) {}
  /// Copies the members of `other` for clone().
  MultiHeadAttention(const MultiHeadAttention& other, Cloning& c)
      : qkv(c(other.qkv)), out(c(other.out)), heads(other.heads) {}

  /// Returns the attention of x to itself. `heads` of the options is ignored; the other options apply, except keys.
  /// With a table of RotaryPositions, queries and keys are rotated by their positions. @throws ShapeError unless the
  /// last axis of x has extent D, ShapeError and Error as attention() does, ShapeError and IndexError as rotary() does,
  /// and Error for options with keys, which belong to CrossAttention or to among().
  template <Floating A>
  Tensor<A> operator()(const Tensor<A>& x,  // [N, D] or [B, T, D]
                       const Sequences& sequences, const AttentionOptions<A>& options = {},
                       const Tensor<Acc<A>>& table = {}) const {
    require_own_keys(options);
    return attend(x, sequences, options, table);
  }
  /// Returns the attention of x to those of its rows that belong to `keys`, which has as many sequences of the same
  /// rows. @throws ShapeError, IndexError and Error as above.
  template <Floating A>
  Tensor<A> among(const Sequences& keys, const Tensor<A>& x,  // [N, D]
                  const Sequences& sequences, AttentionOptions<A> options = {},
                  const Tensor<Acc<A>>& table = {}) const {
    options.keys = &keys;
    return attend(x, sequences, options, table);
  }
  /// Returns the disentangled attention of x (He et al. 2021) to itself or, as among() does, to those of options.keys.
  /// A score is the sum of the products of query and key, of the query and the key of the distance, and of the key and
  /// the query of the distance, divided by sqrt(3 K). The embeddings of distances pass the same linear map as x. The
  /// bias of the scores takes T^2 numbers for each head and sequence; the options must have neither scale nor bias.
  /// @throws ShapeError and Error as above and as disentangled_bias() does.
  template <Floating A>
  Tensor<A> disentangled(const Tensor<A>& x,  // [N, D] or [B, T, D]
                         const Sequences& sequences, const DistanceRows<A>& distances,
                         const AttentionOptions<A>& options = {}) const {
    return attend(x, sequences, options, Tensor<Acc<A>>(), &distances);
  }
  /// Returns the attention of `rows`, which are first_rows(x, sequences), to the sequences. Computes keys and values
  /// for all rows of x. A bias is that of the first queries, [1, H, 1, T]. With distances, the attention is
  /// disentangled. @throws ShapeError, IndexError and Error as above.
  template <Floating A>
  Tensor<A> first(const Tensor<A>& rows, const Tensor<A>& x,  // [B, D] and [N, D]
                  const Sequences& sequences, AttentionOptions<A> options = {}, const Tensor<Acc<A>>& table = {},
                  const DistanceRows<A>* distances = nullptr) const {
    require_own_keys(options);
    const Index each = qkv.weight.shape()[0] / 3;
    const auto [query, unrotated] = heddle::detail::linear_parts(rows, x, qkv.weight.template as<A>(),
                                                                 qkv.bias ? qkv.bias->template as<A>() : Tensor<A>(),
                                                                 each);  // [B, H * K] and [N, 2 * H * K]
    // The queries are at position 0, where nothing is rotated.
    const Tensor<A> key_value =
        table ? rotary(unrotated, table, sequences, {.heads = 2 * heads, .rotated = heads}) : unrotated;
    const Sequences queries = Sequences::packed(sequences.count(), 1).to(sequences.device());
    options.heads = heads;
    options.keys = &sequences;
    const auto values = columns(key_value, each, each);
    if (!distances) return out(attention(query, columns(key_value, 0, each), values, queries, options));
    const auto [wide_query, wide_key] = with_distances(query, key_value, sequences, *distances, options);
    return out(attention(wide_query, columns(wide_key, 0, wide_key.dim(1)), values, queries, options));
  }
  template <std::integral A>
  void operator()(const Tensor<A>&, const auto&...) const = delete;  // needs cast<float>(x)
  template <std::integral A>
  void operator()(const Tensor<A>&, const Sequences&, const AttentionOptions<float>&,  // needs cast<float>(x)
                  const auto&...) const = delete;

  /// Returns the queries, keys and weights for x, which an attention page shows (view/attention_page.hpp). @throws
  /// ShapeError unless x is [N, D] with N = sequences.rows(): a padded batch is refused; ShapeError, IndexError and
  /// Error as above.
  template <Floating A>
  AttentionRecord<A> record(const Tensor<A>& x, const Sequences& sequences, AttentionOptions<A> options = {},
                            const Tensor<Acc<A>>& table = {},
                            const DistanceRows<A>* distances = nullptr) const {  // [N, D]
    require_rank("MultiHeadAttention::record", {"x", x}, 2);
    require_own_keys(options);
    options.heads = heads;
    const Tensor<A> all = product(x, sequences, table);
    const Index each = all.dim(1) / 3;
    if (distances) add_distances(all, sequences, *distances, options);
    return {slice(all, 1, 0, each), slice(all, 1, each, 2 * each),
            attention_weights(columns(all, 0, each), columns(all, each, each), sequences, options)};
  }

  /// Visits the members.
  static void visit(auto& self, auto&& f) {
    f(std::vector<std::string>{"query.weight", "key.weight", "value.weight"}, self.qkv.weight);
    f(std::vector<std::string>{"query.bias", "key.bias", "value.bias"}, self.qkv.bias);
    f("out", self.out);
  }

 private:
  static void require_own_keys(const auto& options) {
    require(!options.keys, "MultiHeadAttention: queries and keys are the same rows; use CrossAttention for other keys");
  }
  // Returns queries, keys and values [N, 3 * H * K], the first two rotated if there is a table.
  template <Floating A>
  Tensor<A> product(const Tensor<A>& x, const Sequences& sequences, const Tensor<Acc<A>>& table) const {
    const Tensor<A> all = qkv(x);
    return table ? rotary(all, table, sequences, {.heads = 3 * heads, .rotated = 2 * heads}) : all;
  }
  // Sets the scale of disentangled attention.
  template <Floating A>
  static void set_scale(Index K, AttentionOptions<A>& options) {
    require(!options.scale && !options.bias, "MultiHeadAttention: disentangled attention has its own scale and bias");
    options.scale = 1 / std::sqrt(3.0 * static_cast<double>(K));
  }
  // Returns the queries [B, H * (K + 1)] and keys [N, H * (K + 1)] whose products are the scores of disentangled
  // attention for the first queries [B, H * K]: [query, 1] and [key + key of the distance, key times query of the
  // distance]. The distance from a first row is minus the key's position.
  template <Floating A>
  std::pair<Tensor<A>, Tensor<A>> with_distances(const Tensor<A>& query, const Tensor<A>& key_value,
                                                 const Sequences& sequences, const DistanceRows<A>& distances,
                                                 AttentionOptions<A>& options) const {
    const Index each = query.dim(1), K = each / heads;
    set_scale(K, options);
    const Tensor<A> of_positions = take_rows(qkv(distances.rows), distances.columns.from_first);  // [T, 3 * H * K]
    const Tensor<A> of_keys = take_rows(slice(of_positions, 1, 0, 2 * each), sequences.position());
    const Tensor<A> key = slice(key_value, 1, 0, each);  // [N, H * K]
    const auto by_head = [&](const Tensor<A>& x) { return reshape(x, Shape{x.dim(0), heads, K}); };
    const auto joined = [&](const Tensor<A>& x, const Tensor<A>& last) {  // [rows, H, K] and [rows, H, 1]
      return reshape(concat({x, last}, 2), Shape{x.dim(0), heads * (K + 1)});
    };
    return {joined(by_head(query), ones<A>({query.dim(0), heads, 1}, query.device())),
            joined(by_head(key + slice(of_keys, 1, each, 2 * each)),
                   sum(by_head(key * slice(of_keys, 1, 0, each)), {2}, true))};
  }
  // Sets scale and bias of disentangled attention.
  template <Floating A>
  void add_distances(const Tensor<A>& all, const Sequences& sequences, const DistanceRows<A>& distances,
                     AttentionOptions<A>& options) const {
    const Tensor<A> positions = qkv(distances.rows);  // [R, 3 * H * K]
    const Index each = all.dim(1) / 3, K = each / heads;
    const auto part = [&](const Tensor<A>& of, Index first) {  // [rows, H * K] to [H, rows, K]
      return permute(reshape(slice(of, 1, first, first + each), Shape{of.dim(0), heads, K}), {1, 0, 2});
    };
    set_scale(K, options);
    options.bias = disentangled_bias(matmul(part(all, 0), part(positions, each), {.transpose_b = true}),
                                     matmul(part(all, each), part(positions, 0), {.transpose_b = true}),
                                     distances.columns, sequences, *options.scale);  // [B, H, T, T]
    if (options.keys) options.bias = slice(options.bias, 3, 0, options.keys->extent());
  }
  template <Floating A>
  Tensor<A> attend(const Tensor<A>& x, const Sequences& sequences, AttentionOptions<A> options,
                   const Tensor<Acc<A>>& table, const DistanceRows<A>* distances = nullptr) const {
    require<ShapeError>(x.rank() >= 2, "MultiHeadAttention: x must be [N, D] or [B, T, D], got ", x.shape());
    options.heads = heads;
    const Tensor<A> all = product(heddle::detail::rows_of_batch(x, sequences), sequences, table);
    const Index each = all.dim(-1) / 3;
    if (distances) add_distances(all, sequences, *distances, options);
    const Tensor<A> y = out(attention(columns(all, 0, each), columns(all, each, each), columns(all, 2 * each, each),
                                      sequences, options));  // [N, D]
    return heddle::detail::rows_as_given(y, x.shape(), sequences);
  }
  static Index width(Index D, int heads, Index head_width) {
    require_size("MultiHeadAttention", "D", D);
    require_size("MultiHeadAttention", "heads", heads);
    require<ShapeError>(head_width >= 0, "MultiHeadAttention: head_width must not be negative, got ", head_width);
    require<ShapeError>(head_width > 0 || D % heads == 0, "MultiHeadAttention: D = ", D, " does not divide into ",
                        heads, " heads; give a head_width");
    return head_width > 0 ? head_width : D / heads;
  }
};

}  // namespace heddle::nn
