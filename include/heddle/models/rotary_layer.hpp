// The layers of the encoders with rotary positions: ModernBERT, NomicBERT and GTE; and the head of ModernBERT.
#pragma once
#include <heddle/models/bert_config.hpp>
#include <heddle/models/draw_as_bert.hpp>
#include <heddle/nn/attention.hpp>
#include <heddle/nn/layer_norm.hpp>
#include <heddle/nn/rotary_positions.hpp>
#include <heddle/ops/arithmetic.hpp>
#include <heddle/ops/map.hpp>
#include <heddle/ops/rows.hpp>

namespace heddle::models {

/// The cosines and sines of the rotary positions in a pass through an encoder.
template <Floating A>
struct RotaryTables {
  Tensor<Acc<A>> global;  ///< [longest, D / heads], for layers where each token sees all others
  Tensor<Acc<A>> local;   ///< for the other layers, if there are any

  RotaryTables() = default;
  /// Computes the tables. @throws ShapeError unless the width of a head is even and at most 512, and Error unless the
  /// bases are finite and above 0.
  RotaryTables(const BertConfig& config, const Sequences& sequences)
      : global(table(config, config.rotary.global_base, sequences)) {
    if (config.rotary.global_every > 1) local = table(config, config.rotary.local_base, sequences);
  }

 private:
  static Tensor<Acc<A>> table(const BertConfig& config, double base, const Sequences& sequences) {
    return nn::RotaryPositions(config.D / config.heads, base, config.rotary.divisor).template table<A>(sequences);
  }
};

/// A layer with rotary positions and a gated feed-forward network. With norm_first, the norms stand before the
/// sublayers: y = x + attention(norm(x)), then y + ff(norm(y)), where the first layer has no norm before the attention,
/// because the embeddings end with one. Otherwise they stand behind: y = norm(x + attention(x)), then norm(y + ff(y)).
template <Floating T = float>
struct RotaryLayer {
  nn::MultiHeadAttention<T> attention;             ///< self-attention with rotary positions
  std::optional<nn::LayerNorm<T>> attention_norm;  ///< before or behind the attention
  nn::LayerNorm<T> ff_norm;                        ///< before or behind the feed-forward network
  nn::GatedFeedForward<T> ff;                      ///< feed-forward network
  BertFamily family;                               ///< which of the models the layer belongs to
  bool norm_first;                                 ///< whether norms stand before the sublayers
  bool is_global;                                  ///< whether each token sees all others
  Index window;                                    ///< otherwise the greatest distance of those that it sees
  double attention_dropout;                        ///< dropout of the attention weights
  double ff_dropout;                               ///< dropout in the feed-forward network
  double dropout;                                  ///< dropout behind the sublayers; in ModernBERT there is another one

  /// Draws the weights of layer `number`. @throws ShapeError for a size below 1 and for heads that do not divide D, and
  /// Error for a dropout outside [0, 1), for global_every below 1, for a negative window, and for an eps or deviation
  /// that is negative or not finite.
  RotaryLayer(const BertConfig& config, Index number, Random& random)
      : attention(config.D, static_cast<int>(config.heads), random, 0, config.rotary.attention_bias),
        ff_norm(config.D, config.eps, config.rotary.norm_bias),
        ff(config.D, config.ff_width, random,
           {.activation = config.activation,
            .gate = config.rotary.gate,
            .in_bias = config.rotary.ff_in_bias,
            .out_bias = config.rotary.ff_out_bias}),
        family(config.family),
        norm_first(config.rotary.norm_first),
        is_global(sees_all(config.rotary, number)),
        window(config.rotary.window),
        attention_dropout(config.attention_dropout),
        ff_dropout(config.rotary.ff_dropout),
        dropout(config.dropout) {
    heddle::detail::require_fraction("RotaryLayer", "attention_dropout", attention_dropout);
    heddle::detail::require_fraction("RotaryLayer", "ff_dropout", ff_dropout);
    require(window >= 0, "RotaryLayer: the window must not be negative, got ", window);
    if (number > 0 || !norm_first) attention_norm.emplace(config.D, config.eps, config.rotary.norm_bias);
    detail::draw_as_bert(attention.qkv, random, config);
    detail::draw_as_bert(attention.out, random, config, detail::MapPlace::last);
    detail::draw_as_bert(ff.in, random, config);
    detail::draw_as_bert(ff.out, random, config, detail::MapPlace::last);
  }
  /// Copies the members of `other` for clone().
  RotaryLayer(const RotaryLayer& other, Cloning& c)
      : attention(c(other.attention)),
        attention_norm(c(other.attention_norm)),
        ff_norm(c(other.ff_norm)),
        ff(c(other.ff)),
        family(other.family),
        norm_first(other.norm_first),
        is_global(other.is_global),
        window(other.window),
        attention_dropout(other.attention_dropout),
        ff_dropout(other.ff_dropout),
        dropout(other.dropout) {}

  /// Applies the layer. Dropout is active if and only if `random` is given. If `keys` is given, tokens attend only to
  /// its rows, sequences of the same rows x. @throws ShapeError unless x has D columns and one row for each row of the
  /// sequences, IndexError for a sequence that is longer than the tables, and Error for a dropout outside [0, 1),
  /// before or after rounding.
  template <Floating A>
  Tensor<A> operator()(const Tensor<A>& x, const Sequences& sequences, const RotaryTables<A>& turns,
                       Random* random = nullptr, const Sequences* keys = nullptr) const {  // [N, D]
    const AttentionOptions<A> options = this->options<A>(random);
    const Tensor<A> before = normed(x),
                    attended = keys ? attention.among(*keys, before, sequences, options, table(turns))
                                    : attention(before, sequences, options, table(turns));
    return after_attention(x, attended, random);
  }
  template <std::integral A>
  void operator()(const Tensor<A>&, const auto&...) const = delete;  // needs cast<float>(x)

  /// Returns the first row of each sequence of the layer's result. Computes keys and values for all rows that these
  /// see, and everything else only for the first rows. @throws ShapeError and IndexError as above.
  template <Floating A>
  Tensor<A> first(const Tensor<A>& x, const Sequences& sequences, const RotaryTables<A>& turns,
                  Random* random = nullptr) const {  // [N, D] to [B, D]
    const Tensor<A> y = normed(x);                   // [N, D]
    const Tensor<A> attended =
        attention.first(first_rows(y, sequences), y, sequences, options<A>(random), table(turns));  // [B, D]
    return after_attention(first_rows(x, sequences), attended, random);
  }

  /// Returns the attention's rotated queries and keys and its weights for the layer's input x, without dropout.
  template <Floating A>
  nn::AttentionRecord<A> record(const Tensor<A>& x, const Sequences& sequences,
                                const RotaryTables<A>& turns) const {  // [N, D]
    return attention.record(normed(x), sequences, options<A>(nullptr, 0), table(turns));
  }

  /// Visits the members.
  static void visit(auto& self, auto&& f) {
    const detail::FamilyForm& form = detail::form_of(self.family);
    const auto visit_map = [&](std::vector<std::string> names, auto& map) {
      std::erase(names, "");
      const auto with = [&](const char* suffix) {
        std::vector<std::string> all = names;
        for (std::string& name : all) name += suffix;
        return all;
      };
      f(with(".weight"), map.weight);
      f(with(".bias"), map.bias);
    };
    f(form.attention_norm, self.attention_norm);
    visit_map({form.query, form.key, form.value}, self.attention.qkv);
    f(form.out, self.attention.out);
    f(form.output_norm, self.ff_norm);
    visit_map({form.ff_in, form.ff_values}, self.ff.in);
    f(form.ff_out, self.ff.out);
  }

 private:
  static bool sees_all(const RotaryConfig& config, Index number) {
    require(config.global_every >= 1, "RotaryLayer: global_every must be at least 1, got ", config.global_every);
    return number % config.global_every == 0;
  }
  template <Floating A>
  AttentionOptions<A> options(Random* random, double p) const {
    AttentionOptions<A> options{.dropout = p, .random = random};
    if (!is_global) options.window = window;
    return options;
  }
  template <Floating A>
  AttentionOptions<A> options(Random* random) const {
    return options<A>(random, attention_dropout);
  }
  template <Floating A>
  const Tensor<Acc<A>>& table(const RotaryTables<A>& turns) const {
    return is_global ? turns.global : turns.local;
  }
  template <Floating A>
  Tensor<A> normed(const Tensor<A>& x) const {
    return attention_norm && norm_first ? (*attention_norm)(x) : x;
  }
  template <Floating A>
  Tensor<A> after_attention(const Tensor<A>& x, const Tensor<A>& attended, Random* random) const {
    if (norm_first) {
      const auto [y, before_ff] = ff_norm.with_sum(x, attended, attention_dropout, random);
      return y + ff(before_ff, ff_dropout, random);
    }
    const Tensor<A> y = (*attention_norm)(x, attended, dropout, random);
    return ff_norm(y, ff(y, ff_dropout, random), dropout, random);
  }
};

/// The first part of every head of ModernBERT: a linear map, an activation and a norm.
template <Floating T = float>
struct ModernBertHead {
  nn::Linear<T> dense;        ///< [D, D]
  nn::LayerNorm<T> norm;      ///< after the activation
  nn::Activation activation;  ///< between the two

  /// Draws the weights. @throws ShapeError for a D below 1, and Error for an eps or deviation that is negative or not
  /// finite.
  ModernBertHead(const BertConfig& config, Random& random)
      : dense(config.D, config.D, random, config.rotary.head_bias),
        norm(config.D, config.eps, config.rotary.norm_bias),
        activation(config.rotary.head_activation) {
    detail::draw_as_bert(dense, random, config, detail::MapPlace::last);
  }
  /// Copies the members of `other` for clone().
  ModernBertHead(const ModernBertHead& other, Cloning& c)
      : dense(c(other.dense)), norm(c(other.norm)), activation(other.activation) {}

  /// Returns norm(activation(dense(x))). @throws ShapeError unless the last axis of x has extent D.
  template <Floating A>
  Tensor<A> operator()(const Tensor<A>& x) const {  // [..., D]
    return norm(nn::activated(dense(x), activation));
  }
  template <std::integral A>
  void operator()(const Tensor<A>&, const auto&...) const = delete;  // needs cast<float>(x)

  /// Visits the members.
  static void visit(auto& self, auto&& f) {
    f("dense", self.dense);
    f("norm", self.norm);
  }
};

}  // namespace heddle::models
