// A pre-norm encoder in the style of BERT, and its classifier. Names of weights are those of
// bench/peers/pre_norm_model.py.
#pragma once
#include <heddle/models/forward_options.hpp>
#include <heddle/nn/attention.hpp>
#include <heddle/nn/embedding.hpp>
#include <heddle/nn/feed_forward.hpp>
#include <heddle/nn/layer_norm.hpp>
#include <heddle/nn/positions.hpp>
#include <heddle/ops/arithmetic.hpp>
#include <heddle/ops/dropout.hpp>
#include <heddle/ops/rows.hpp>

namespace heddle::models {

/// The sizes and dropout probabilities of a pre-norm encoder.
struct PreNormConfig {
  Index vocabulary = 30522;        ///< V, the number of tokens
  Index D = 768;                   ///< width of the rows
  Index layers = 12;               ///< number of layers
  Index heads = 12;                ///< attention heads of a layer
  Index ff_width = 3072;           ///< width of the feed-forward networks
  Index positions = 512;           ///< maximum number of tokens in a text
  double embedding_dropout = 0.5;  ///< dropout after the embeddings
  double dropout = 0.1;            ///< dropout after each feed-forward network and before the classifier
};

/// A layer: x + attention(norm(x)), then the same with the feed-forward network.
template <Floating T = float>
struct PreNormLayer {
  nn::LayerNorm<T> norm1;               ///< before the attention
  nn::LayerNorm<T> norm2;               ///< before the feed-forward network
  nn::MultiHeadAttention<T> attention;  ///< self-attention
  nn::FeedForward<T> ff;                ///< feed-forward network
  double dropout;                       ///< dropout after the feed-forward network

  /// Draws the weights as PyTorch's modules do. @throws ShapeError for a size below 1 and for heads that do
  /// not divide D.
  PreNormLayer(const PreNormConfig& config, Random& random)
      : norm1(config.D),
        norm2(config.D),
        attention(config.D, static_cast<int>(config.heads), random),
        ff(config.D, config.ff_width, random),
        dropout(config.dropout) {}
  /// Copies the members of `other` for clone().
  PreNormLayer(const PreNormLayer& other, Cloning& c)
      : norm1(c(other.norm1)),
        norm2(c(other.norm2)),
        attention(c(other.attention)),
        ff(c(other.ff)),
        dropout(other.dropout) {}

  /// Applies the layer. Dropout is active if and only if `random` is given. @throws ShapeError unless x has D columns
  /// and one row for each row of the sequences, and Error for a dropout outside [0, 1), before or after rounding.
  template <Floating A>
  Tensor<A> operator()(const Tensor<A>& x, const Sequences& sequences, Random* random = nullptr) const {  // [N, D]
    const auto [y, normed] = norm2.with_sum(x, attention(norm1(x), sequences), 0, nullptr);
    return y + heddle::dropout(ff(normed), dropout, random);
  }
  template <std::integral A>
  void operator()(const Tensor<A>&, const auto&...) const = delete;  // needs cast<float>(x)

  /// Returns the attention's queries, keys and weights for the layer's input x.
  template <Floating A>
  nn::AttentionRecord<A> record(const Tensor<A>& x, const Sequences& sequences) const {  // [N, D]
    return attention.record(norm1(x), sequences);
  }

  /// Visits the members.
  static void visit(auto& self, auto&& f) {
    f("layer_norm_1", self.norm1);
    f("layer_norm_2", self.norm2);
    f(heads(self, "weight"), self.attention.qkv.weight);
    f(heads(self, "bias"), self.attention.qkv.bias);
    f("attention.output_linear", self.attention.out);
    f("feed_forward.linear1", self.ff.in);
    f("feed_forward.linear2", self.ff.out);
  }

 private:
  // Returns the names of the tensors of q, k and v. Files store a separate tensor for each head.
  static std::vector<std::string> heads(const auto& self, const std::string& suffix) {
    std::vector<std::string> names;
    for (const char* projection : {".q.", ".k.", ".v."})
      for (int h = 0; h < self.attention.heads; ++h)
        names.push_back("attention.heads." + std::to_string(h) + projection + suffix);
    return names;
  }
};

/// The encoder: the norm of token and position embeddings, then the layers, without a norm at the end.
template <Floating T = float>
struct PreNormEncoder {
  PreNormConfig config;                 ///< its sizes
  nn::Embedding<T> tokens;              ///< [V, D]
  nn::LearnedPositions<T> positions;    ///< [L, D]
  nn::LayerNorm<T> norm;                ///< over the sum of both
  std::vector<PreNormLayer<T>> layers;  ///< all layers, first to last

  /// Draws the weights as PyTorch's modules do. A `layers` below 1 means no layers. @throws ShapeError for another size
  /// below 1 and for heads that do not divide D, and Error for a dropout outside [0, 1).
  PreNormEncoder(const PreNormConfig& sizes, Random& random)
      : config(sizes),
        tokens(sizes.vocabulary, sizes.D, random),
        positions(sizes.positions, sizes.D, random),
        norm(sizes.D, 1e-12) {
    heddle::detail::require_fraction("PreNormEncoder", "embedding_dropout", sizes.embedding_dropout);
    heddle::detail::require_fraction("PreNormEncoder", "dropout", sizes.dropout);
    for (Index i = 0; i < sizes.layers; ++i) layers.emplace_back(sizes, random);
  }
  /// Copies the members of `other` for clone().
  PreNormEncoder(const PreNormEncoder& other, Cloning& c)
      : config(other.config),
        tokens(c(other.tokens)),
        positions(c(other.positions)),
        norm(c(other.norm)),
        layers(c(other.layers)) {}

  /// Returns the last hidden state. @throws IndexError for an id that is out of range and for a sequence with more
  /// tokens than positions, ShapeError for ids that do not fit the sequences, and Error for token types, which the
  /// model does not have.
  template <class A = T>
  Tensor<A> forward(const Tensor<int>& ids, const Sequences& sequences,
                    const ForwardOptions<A>& o = {}) const {  // [N] to [N, D]
    require(!o.types, "PreNormEncoder: this model has no token types; leave the types empty");
    Tensor<A> x = norm.dropped(positions.template embed<A>(tokens, ids, sequences), config.embedding_dropout, o.random);
    if (o.hidden_states) o.hidden_states->push_back(x);
    for (const auto& layer : layers) {
      o.record(layer, x, sequences);
      x = layer(x, sequences, o.random);
      if (o.hidden_states) o.hidden_states->push_back(x);
    }
    return x;
  }

  /// Visits the members.
  static void visit(auto& self, auto&& f) {
    f("embeddings.token_embeddings", self.tokens);
    f("embeddings.position_embeddings", self.positions);
    f("embeddings.layer_norm", self.norm);
    f("layers", self.layers);
  }
};

/// The encoder and a classifier, a linear map of the first row of each sequence.
template <Floating T = float>
struct PreNormClassifier {
  PreNormEncoder<T> encoder;  ///< encoder
  nn::Linear<T> classifier;   ///< [C, D]

  /// Draws the weights. @throws ShapeError and Error as PreNormEncoder does, and ShapeError for fewer than one class.
  PreNormClassifier(const PreNormConfig& config, Index classes, Random& random)
      : encoder(config, random), classifier(config.D, classes, random) {}
  /// Copies the members of `other` for clone().
  PreNormClassifier(const PreNormClassifier& other, Cloning& c)
      : encoder(c(other.encoder)), classifier(c(other.classifier)) {}

  /// Returns the sizes of the encoder.
  const PreNormConfig& config() const { return encoder.config; }
  /// Draws the weights of the linear map.
  void draw_head(Random& random) {
    const nn::Linear<T> drawn(config().D, classifier.weight.shape()[0], random);
    classifier.weight.assign(drawn.weight);
    classifier.bias->assign(*drawn.bias);
  }

  /// Returns the logits of the classes. @throws IndexError, ShapeError and Error as PreNormEncoder::forward does.
  template <class A = T>
  Tensor<A> forward(const Tensor<int>& ids, const Sequences& sequences,
                    const ForwardOptions<A>& options = {}) const {  // [N] to [B, C]
    const Tensor<A> x = first_rows(encoder.template forward<A>(ids, sequences, options), sequences);
    return classifier(dropout(x, config().dropout, options.random));
  }

  /// Visits the members.
  static void visit(auto& self, auto&& f) {
    f("encoder", self.encoder);
    f("classifier", self.classifier);
  }
};

}  // namespace heddle::models
