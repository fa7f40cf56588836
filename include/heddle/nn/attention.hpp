#pragma once
#include <heddle/nn/linear.hpp>
#include <heddle/ops/attention/attention.hpp>
#include <heddle/ops/padded.hpp>
#include <heddle/ops/rotary.hpp>
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
  /// @throws ShapeError unless the last axis of x has extent D, ShapeError and Error as attention() does, and Error for
  /// options with keys, which belong to CrossAttention.
  template <Floating A>
  Tensor<A> operator()(const Tensor<A>& x,  // [N, D] or [B, T, D]
                       const Sequences& sequences, AttentionOptions<A> options = {}) const {
    return attend(x, sequences, options, [](const Tensor<A>& product) { return product; });
  }
  /// Returns the attention of x to itself, whose queries and keys are rotated by their positions. `table` is that of
  /// RotaryPositions. @throws ShapeError and Error as above, and ShapeError and IndexError as rotary() does.
  template <Floating A>
  Tensor<A> rotated(const Tensor<A>& x,  // [N, D] or [B, T, D]
                    const Sequences& sequences, const Tensor<Acc<A>>& table,
                    const AttentionOptions<A>& options = {}) const {
    return attend(x, sequences, options,
                  [&](const Tensor<A>& product) { return rotated_product(product, sequences, table); });
  }
  template <std::integral A>
  void operator()(const Tensor<A>&, const auto&...) const = delete;  // needs cast<float>(x)
  template <std::integral A>
  void operator()(const Tensor<A>&, const Sequences&, const AttentionOptions<float>&,  // needs cast<float>(x)
                  const auto&...) const = delete;

  /// Returns the queries, keys and weights for x, which an attention page shows (view/attention_page.hpp). A bias is
  /// added to the scores, as AttentionOptions says. @throws ShapeError unless x is [N, D] with N = sequences.rows(): a
  /// padded batch is refused; and as attention_weights() does.
  template <Floating A>
  AttentionRecord<A> record(const Tensor<A>& x, const Sequences& sequences,
                            const Tensor<A>& bias = {}) const {  // [N, D]
    return recorded(x, sequences, {.bias = bias}, [](const Tensor<A>& product) { return product; });
  }
  /// Returns the rotated queries and keys of x and their weights. @throws ShapeError and IndexError as rotated() and
  /// record() do.
  template <Floating A>
  AttentionRecord<A> record_rotated(const Tensor<A>& x, const Sequences& sequences, const Tensor<Acc<A>>& table,
                                    const AttentionOptions<A>& options = {}) const {  // [N, D]
    return recorded(x, sequences, options,
                    [&](const Tensor<A>& product) { return rotated_product(product, sequences, table); });
  }

  /// Visits the members.
  static void visit(auto& self, auto&& f) {
    f(std::vector<std::string>{"query.weight", "key.weight", "value.weight"}, self.qkv.weight);
    f(std::vector<std::string>{"query.bias", "key.bias", "value.bias"}, self.qkv.bias);
    f("out", self.out);
  }

 private:
  template <Floating A>
  Tensor<A> rotated_product(const Tensor<A>& product, const Sequences& sequences, const Tensor<Acc<A>>& table) const {
    return rotary(product, table, sequences, {.heads = 3 * heads, .rotated = 2 * heads});
  }
  // Attends with the changed product of qkv.
  template <Floating A, class Change>
  Tensor<A> attend(const Tensor<A>& x, const Sequences& sequences, AttentionOptions<A> options, Change&& change) const {
    require<ShapeError>(x.rank() >= 2, "MultiHeadAttention: x must be [N, D] or [B, T, D], got ", x.shape());
    require(!options.keys, "MultiHeadAttention: queries and keys are the same rows; use CrossAttention for other keys");
    options.heads = heads;
    const Tensor<A> product = change(qkv(heddle::detail::rows_of_batch(x, sequences)));  // [N, 3 * H * K]
    const Index each = product.dim(-1) / 3;
    const Tensor<A> y = out(attention(columns(product, 0, each), columns(product, each, each),
                                      columns(product, 2 * each, each), sequences, options));  // [N, D]
    return heddle::detail::rows_as_given(y, x.shape(), sequences);
  }
  template <Floating A, class Change>
  AttentionRecord<A> recorded(const Tensor<A>& x, const Sequences& sequences, AttentionOptions<A> options,
                              Change&& change) const {
    require_rank("MultiHeadAttention::record", {"x", x}, 2);
    require(!options.keys, "MultiHeadAttention: queries and keys are the same rows; use CrossAttention for other keys");
    options.heads = heads;
    const Tensor<A> product = change(qkv(x));  // [N, 3 * H * K]
    const Index each = product.dim(1) / 3;
    return {slice(product, 1, 0, each), slice(product, 1, each, 2 * each),
            attention_weights(columns(product, 0, each), columns(product, each, each), sequences, options)};
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
