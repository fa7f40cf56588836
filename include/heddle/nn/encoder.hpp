#pragma once
#include <heddle/nn/attention.hpp>
#include <heddle/nn/feed_forward.hpp>
#include <heddle/nn/layer_norm.hpp>
#include <heddle/ops/arithmetic.hpp>
#include <heddle/ops/dropout.hpp>

namespace heddle::nn {

/// The sizes and choices of an encoder's layers.
struct EncoderOptions {
  Index D = 64;                              ///< width of the rows
  int heads = 4;                             ///< attention heads of a layer
  Index head_width = 0;                      ///< 0: D / heads
  Index ff_width = 0;                        ///< 0: 4 * D
  double dropout = 0.1;                      ///< dropout probability after each sublayer, if a generator is passed
  double attention_dropout = 0;              ///< dropout probability of the attention weights, if a generator is passed
  Activation activation = Activation::gelu;  ///< activation of the feed-forward networks
  bool norm_first = false;                   ///< pre-norm, x + f(norm(x)), instead of post-norm, norm(x + f(x))
  double eps = 1e-5;                         ///< added to the variance in the norms
  bool attention_bias = true;                ///< whether the attention's linear maps have biases
};

/// Attention and a feed-forward network, each with a residual connection, dropout and a LayerNorm.
template <Floating T = float>
struct EncoderLayer {
  MultiHeadAttention<T> attention;  ///< self-attention
  LayerNorm<T> norm1;               ///< before or after the attention
  FeedForward<T> ff;                ///< feed-forward network
  LayerNorm<T> norm2;               ///< before or after the feed-forward network
  double dropout;                   ///< dropout probability after each sublayer
  double attention_dropout;         ///< dropout probability of the attention weights
  bool norm_first;                  ///< pre-norm instead of post-norm

  /// Draws the weights. @throws ShapeError for a size below 1, and if no head_width is given and D is not a multiple of
  /// the number of heads; Error for a dropout outside [0, 1), and for an eps that is negative or not finite.
  [[gnu::cold]] EncoderLayer(const EncoderOptions& o, Random& random)
      : attention(o.D, o.heads, random, o.head_width, o.attention_bias),
        norm1(o.D, o.eps),
        ff(o.D, o.ff_width ? o.ff_width : 4 * o.D, random, o.activation),
        norm2(o.D, o.eps),
        dropout(o.dropout),
        attention_dropout(o.attention_dropout),
        norm_first(o.norm_first) {
    heddle::detail::require_fraction("EncoderLayer", "dropout", dropout);
    heddle::detail::require_fraction("EncoderLayer", "attention_dropout", attention_dropout);
  }
  /// Copies the members of `other` for clone().
  EncoderLayer(const EncoderLayer& other, Cloning& c)
      : attention(c(other.attention)),
        norm1(c(other.norm1)),
        ff(c(other.ff)),
        norm2(c(other.norm2)),
        dropout(other.dropout),
        attention_dropout(other.attention_dropout),
        norm_first(other.norm_first) {}

  /// Returns the rows after the layer. Dropout is active if and only if `random` is given. @throws ShapeError unless x
  /// is [sequences.rows(), D] or a padded batch [B, T, D] of these sequences, and Error for a dropout outside [0, 1),
  /// before or after rounding.
  template <Floating A>
  Tensor<A> operator()(const Tensor<A>& x,  // [N, D] or [B, T, D]
                       const Sequences& sequences, Random* random = nullptr) const {
    return (*this)(x, sequences, AttentionOptions<A>(), random);
  }
  /// Returns the rows after the layer, with options for the attention, such as a mask or a bias: layer(x, sequences,
  /// {.causal = true}, &random). @throws ShapeError and Error as above and as MultiHeadAttention does, and Error if the
  /// options have dropout or a generator, because the layer sets them itself.
  template <Floating A>
  Tensor<A> operator()(const Tensor<A>& x,  // [N, D] or [B, T, D]
                       const Sequences& sequences, AttentionOptions<A> options, Random* random = nullptr) const {
    require(
        options.dropout == 0 && !options.random,
        "EncoderLayer: dropout and random are not options of a call; give EncoderOptions::attention_dropout, and the "
        "generator as the last argument");
    options.dropout = attention_dropout;
    options.random = random;
    if (norm_first) {
      const auto [y, normed] = norm2.with_sum(x, attention(norm1(x), sequences, options), dropout, random);
      return y + heddle::dropout(ff(normed), dropout, random);
    }
    const Tensor<A> y = norm1(x, attention(x, sequences, options), dropout, random);
    return norm2(y, ff(y), dropout, random);
  }
  template <std::integral A>
  void operator()(const Tensor<A>&, const auto&...) const = delete;  // needs cast<float>(x)
  template <std::integral A>
  void operator()(const Tensor<A>&, const Sequences&, const AttentionOptions<float>&,  // needs cast<float>(x)
                  const auto&...) const = delete;

  /// Visits the members.
  static void visit(auto& self, auto&& f) {
    f("attention", self.attention);
    f("norm1", self.norm1);
    f("ff", self.ff);
    f("norm2", self.norm2);
  }
};

/// A stack of layers; a pre-norm encoder ends with an additional LayerNorm.
template <Floating T = float>
struct Encoder {
  std::vector<EncoderLayer<T>> layers;  ///< all layers, first to last
  std::optional<LayerNorm<T>> norm;     ///< after the last layer of a pre-norm encoder

  /// Draws the weights of `depth` layers. @throws ShapeError for a negative depth, and the errors of
  /// EncoderLayer's constructor.
  [[gnu::cold]] Encoder(int depth, const EncoderOptions& options, Random& random);
  /// Copies the members of `other` for clone().
  Encoder(const Encoder& other, Cloning& c);

  /// Returns the rows after all layers. Dropout is active if and only if `random` is given. @throws ShapeError and
  /// Error as EncoderLayer does.
  template <Floating A>
  Tensor<A> operator()(Tensor<A> x,  // [N, D] or [B, T, D]
                       const Sequences& sequences, Random* random = nullptr) const {
    return (*this)(std::move(x), sequences, AttentionOptions<A>(), random);
  }
  /// Returns the rows after all layers, with options for every layer's attention. @throws ShapeError and Error as
  /// EncoderLayer does.
  template <Floating A>
  Tensor<A> operator()(Tensor<A> x,  // [N, D] or [B, T, D]
                       const Sequences& sequences, const AttentionOptions<A>& options, Random* random = nullptr) const;

  /// Visits the members.
  static void visit(auto& self, auto&& f) {
    f("layers", self.layers);
    f("norm", self.norm);
  }
  template <std::integral A>
  void operator()(const Tensor<A>&, const auto&...) const = delete;  // needs cast<float>(x)
  template <std::integral A>
  void operator()(const Tensor<A>&, const Sequences&, const AttentionOptions<float>&,  // needs cast<float>(x)
                  const auto&...) const = delete;
};

template <Floating T>
Encoder<T>::Encoder(int depth, const EncoderOptions& options, Random& random) {
  require<ShapeError>(depth >= 0, "Encoder: the number of layers must not be negative, got ", depth);
  for (int i = 0; i < depth; ++i) layers.emplace_back(options, random);
  if (options.norm_first) norm.emplace(options.D, options.eps);
}
template <Floating T>
Encoder<T>::Encoder(const Encoder& other, Cloning& c) : layers(c(other.layers)), norm(c(other.norm)) {}

template <Floating T>
template <Floating A>
Tensor<A> Encoder<T>::operator()(Tensor<A> x, const Sequences& sequences, const AttentionOptions<A>& options,
                                 Random* random) const {
  for (const auto& layer : layers) x = layer(x, sequences, options, random);
  return norm ? (*norm)(x) : x;
}

}  // namespace heddle::nn
