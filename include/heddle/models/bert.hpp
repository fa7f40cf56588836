// BERT (Devlin et al. 2019), DistilBERT (Sanh et al. 2019) and RoBERTa (Liu et al. 2019): encoders, classifiers and
// masked language models. XLM-RoBERTa and CamemBERT are RoBERTa with other vocabularies. The names of weights are those
// of Hugging Face's transformers, so that folders of that library can be loaded.
#pragma once
#include <algorithm>

#include <heddle/models/forward_options.hpp>
#include <heddle/nn/attention.hpp>
#include <heddle/nn/embed_layer_norm.hpp>
#include <heddle/nn/embedding.hpp>
#include <heddle/nn/feed_forward.hpp>
#include <heddle/nn/layer_norm.hpp>
#include <heddle/nn/positions.hpp>
#include <heddle/ops/arithmetic.hpp>
#include <heddle/ops/dropout.hpp>
#include <heddle/ops/map.hpp>
#include <heddle/ops/rows.hpp>
#include <heddle/ops/slice.hpp>

namespace heddle::models {

/// The model families. DistilBERT differs from BERT in three points: it has no token types, no dropout of the
/// attention's result, and other model heads. RoBERTa differs from BERT in its positions, which are counted from the
/// row behind that of the padding (nn::PositionOptions), and in its heads.
enum class BertFamily { bert, distilbert, roberta };

/// The sizes and dropout probabilities of an encoder; the defaults are those of bert-base-uncased.
struct BertConfig {
  BertFamily family = BertFamily::bert;              ///< which of the models it is
  Index vocabulary = 30522;                          ///< V, the number of tokens
  Index D = 768;                                     ///< width of the rows
  Index layers = 12;                                 ///< number of layers
  Index heads = 12;                                  ///< attention heads of a layer
  Index ff_width = 3072;                             ///< width of the feed-forward networks
  Index positions = 512;                             ///< maximum number of tokens in a text
  Index types = 2;                                   ///< token types; DistilBERT has none
  std::optional<Index> padding_id = 0;               ///< token whose embedding is not trained; RoBERTa needs one
  nn::Activation activation = nn::Activation::gelu;  ///< activation of the feed-forward networks
  double eps = 1e-12;                                ///< constant added to the variance in the norms
  double deviation = 0.02;                           ///< standard deviation of the initial weights
  double dropout = 0.1;                              ///< dropout after the embeddings and each sublayer
  double attention_dropout = 0.1;                    ///< dropout of the attention weights
  double classifier_dropout = 0.1;                   ///< dropout before the classifier
  double answer_dropout = 0.1;                       ///< dropout before the answers of DistilBERT

  /// Returns the row of the table of positions for the first token of a text. In RoBERTa it follows that of padding_id.
  Index first_position() const { return family == BertFamily::roberta ? padding_id.value_or(0) + 1 : 0; }
  /// Returns the rows of the table of positions.
  Index position_rows() const { return first_position() + positions; }
};

namespace detail {

// Draws a module's weights as BERT does: matrices and tables normal with the given deviation, biases zero. Does nothing
// under NoInit.
template <class M>
void draw_as_bert(M& module, Random& random, double deviation) {
  if (nn::NoInit::is_active()) return;
  each_parameter(module, [&](const Name& name, auto& p) {
    const std::string& last = name.blocks[0];
    if (p.shape().rank() >= 2)
      nn::init::normal(p, random, 0, deviation);
    else if (last.ends_with("bias"))
      p.assign(zeros<typename std::remove_cvref_t<decltype(p)>::Element>(p.shape()));
  });
}

}  // namespace detail

/// The embedding layer: the norm of the sum of word, position and token type embeddings.
template <Floating T = float>
struct BertEmbeddings {
  nn::Embedding<T> words;                 ///< [V, D]
  nn::LearnedPositions<T> positions;      ///< [L, D]; [padding_id + 1 + L, D] for RoBERTa
  std::optional<nn::Embedding<T>> types;  ///< [types, D]; none for DistilBERT
  nn::LayerNorm<T> norm;                  ///< over the sum
  double dropout;                         ///< dropout probability after the norm

  /// Draws the weights; config.types below 1 means no token types. @throws ShapeError for another size below 1, and
  /// Error for a RoBERTa without a padding_id, for a dropout outside [0, 1) and for an eps or deviation that is
  /// negative or not finite.
  BertEmbeddings(const BertConfig& config, Random& random)
      : words(config.vocabulary, config.D, random, {.padding_id = config.padding_id}),
        positions(config.positions, config.D, random, position_options(config)),
        norm(config.D, config.eps),
        dropout(config.dropout) {
    heddle::detail::require_fraction("BertEmbeddings", "dropout", dropout);
    if (config.types > 0 && config.family != BertFamily::distilbert) types.emplace(config.types, config.D, random);
    detail::draw_as_bert(*this, random, config.deviation);
    words.clear_padding();
    positions.clear_padding();
  }
  /// Copies the members of `other` for clone().
  BertEmbeddings(const BertEmbeddings& other, Cloning& c)
      : words(c(other.words)),
        positions(c(other.positions)),
        types(c(other.types)),
        norm(c(other.norm)),
        dropout(other.dropout) {}

  /// Returns the embeddings [N, D] of the token ids [N]. Absent token types are 0. Dropout is active if and only if
  /// `random` is given. @throws IndexError for an id or a type that is out of range, and for a sequence with more
  /// tokens than positions, ShapeError for ids that do not fit the sequences and for token types of another shape than
  /// ids, and Error for token types if the model has none.
  template <class A = T>
  Tensor<A> forward(const Tensor<int>& ids, const Sequences& sequences, const Tensor<int>& token_types = {},
                    Random* random = nullptr) const {  // [N] to [N, D]
#ifdef HEDDLE_CUDA
    if constexpr (heddle::detail::embeds_on_gpu<T, A>)
      if (nn::detail::embeds_and_norms_on_gpu(words, positions, type_module(), norm))
        return forward_on_gpu<A>(ids, sequences, token_types, random);
#endif
    const Tensor<A> x = positions.template embed<A>(words, ids, sequences);
    require_types(ids, token_types);
    if (!types) return norm.dropped(x, dropout, random);
    if (token_types) return norm.dropped(x, types->template operator()<A>(token_types), 0, dropout, random);
    return norm.dropped(x + slice(types->weight.template as<A>(), 0, 0, 1), dropout, random);
  }

  /// Visits the members.
  static void visit(auto& self, auto&& f) {
    f("word_embeddings", self.words);
    f("position_embeddings", self.positions);
    f("token_type_embeddings", self.types);
    f("LayerNorm", self.norm);
  }

 private:
  static nn::PositionOptions position_options(const BertConfig& config) {
    if (config.family != BertFamily::roberta) return {};
    require(config.padding_id.has_value(), "BertEmbeddings: RoBERTa needs a padding_id, from which positions count");
    return {.padding_id = config.padding_id};
  }
  void require_types(const Tensor<int>& ids, const Tensor<int>& token_types) const {
    require(types || !token_types, "BertEmbeddings: this model has no token types; leave the types empty");
    require<ShapeError>(!token_types || token_types.shape() == ids.shape(), "BertEmbeddings: the token types ",
                        token_types.shape(), " must have the shape of the ids, ", ids.shape());
  }
#ifdef HEDDLE_CUDA
  const nn::Embedding<T>* type_module() const { return types ? &*types : nullptr; }
  // Computes forward() in one kernel.
  template <class A>
  Tensor<A> forward_on_gpu(const Tensor<int>& given, const Sequences& sequences, const Tensor<int>& token_types,
                           Random* random) const {
    using heddle::detail::ids_beside;
    const Tensor<T>& table = words.weight.value();
    nn::detail::require_embedded_positions("LearnedPositions", table, given, positions.weight.value(), sequences,
                                           positions.longest());
    const Tensor<int> ids = ids_beside(table, given, words.padding_id);
    require_types(given, token_types);
    Tensor<int> type;
    if (token_types) type = ids_beside(types->weight.value(), token_types, types->padding_id);
    return nn::detail::embed_layer_norm_on_gpu<A>(token_types ? "residual_layer_norm" : "layer_norm", words, ids,
                                                  positions, positions.rows_of(ids, sequences), type_module(), type,
                                                  norm, dropout, random);
  }
#endif
};

/// A post-norm layer: norm(x + attention(x)), then the same with the feed-forward network.
template <Floating T = float>
struct BertLayer {
  nn::MultiHeadAttention<T> attention;  ///< self-attention
  nn::LayerNorm<T> attention_norm;      ///< after the attention
  nn::FeedForward<T> ff;                ///< feed-forward network
  nn::LayerNorm<T> output_norm;         ///< after the feed-forward network
  BertFamily family;                    ///< which of the models the layer belongs to
  double dropout;                       ///< dropout after each sublayer
  double attention_dropout;             ///< dropout of the attention weights

  /// Draws the weights. @throws ShapeError for a size below 1 and for heads that do not divide D, and Error for a
  /// dropout outside [0, 1) and for an eps or deviation that is negative or not finite.
  BertLayer(const BertConfig& config, Random& random)
      : attention(config.D, static_cast<int>(config.heads), random),
        attention_norm(config.D, config.eps),
        ff(config.D, config.ff_width, random, config.activation),
        output_norm(config.D, config.eps),
        family(config.family),
        dropout(config.dropout),
        attention_dropout(config.attention_dropout) {
    heddle::detail::require_fraction("BertLayer", "dropout", dropout);
    heddle::detail::require_fraction("BertLayer", "attention_dropout", attention_dropout);
    detail::draw_as_bert(*this, random, config.deviation);
  }
  /// Copies the members of `other` for clone().
  BertLayer(const BertLayer& other, Cloning& c)
      : attention(c(other.attention)),
        attention_norm(c(other.attention_norm)),
        ff(c(other.ff)),
        output_norm(c(other.output_norm)),
        family(other.family),
        dropout(other.dropout),
        attention_dropout(other.attention_dropout) {}

  /// Applies the layer. Dropout is active if and only if `random` is given. @throws ShapeError unless x has D columns
  /// and one row for each row of the sequences, and Error for a dropout outside [0, 1), before or after rounding.
  template <Floating A>
  Tensor<A> operator()(const Tensor<A>& x, const Sequences& sequences, Random* random = nullptr) const {  // [N, D]
    return after_attention(x, attention(x, sequences, options<A>(random)), random);
  }
  template <std::integral A>
  void operator()(const Tensor<A>&, const auto&...) const = delete;  // needs cast<float>(x)

  /// Returns the first row of each sequence of the layer's result, which is all that a classifier reads. Computes keys
  /// and values for all rows, and everything else only for the first rows.
  template <Floating A>
  Tensor<A> first(const Tensor<A>& x, const Sequences& sequences, Random* random = nullptr) const {  // [N, D] to [B, D]
    const Tensor<A> weight = attention.qkv.weight.template as<A>(),
                    bias = attention.qkv.bias ? attention.qkv.bias->template as<A>() : Tensor<A>();
    const Index D = x.dim(1);
    const Tensor<A> rows = first_rows(x, sequences);                                         // [B, D]
    const auto [query, key_value] = heddle::detail::linear_parts(rows, x, weight, bias, D);  // [B, D] and [N, 2 * D]
    const Sequences queries = Sequences::packed(sequences.count(), 1).to(sequences.device());
    AttentionOptions<A> o = options<A>(random);
    o.heads = attention.heads;
    o.keys = &sequences;
    const Tensor<A> y = heddle::attention(query, columns(key_value, 0, D), columns(key_value, D, D), queries, o);
    return after_attention(rows, attention.out(y), random);
  }

  /// Returns the attention's queries, keys and weights for the layer's input x, without dropout.
  template <Floating A>
  nn::AttentionRecord<A> record(const Tensor<A>& x, const Sequences& sequences) const {  // [N, D]
    return attention.record(x, sequences);
  }

  /// Visits the members.
  static void visit(auto& self, auto&& f) {
    const auto projections = [](const std::string& prefix, const std::string& q, const std::string& k,
                                const std::string& v, const char* suffix) {
      return std::vector<std::string>{prefix + q + suffix, prefix + k + suffix, prefix + v + suffix};
    };
    if (self.family != BertFamily::distilbert) {
      f(projections("attention.self.", "query", "key", "value", ".weight"), self.attention.qkv.weight);
      f(projections("attention.self.", "query", "key", "value", ".bias"), self.attention.qkv.bias);
      f("attention.output.dense", self.attention.out);
      f("attention.output.LayerNorm", self.attention_norm);
      f("intermediate.dense", self.ff.in);
      f("output.dense", self.ff.out);
      f("output.LayerNorm", self.output_norm);
    } else {
      f(projections("attention.", "q_lin", "k_lin", "v_lin", ".weight"), self.attention.qkv.weight);
      f(projections("attention.", "q_lin", "k_lin", "v_lin", ".bias"), self.attention.qkv.bias);
      f("attention.out_lin", self.attention.out);
      f("sa_layer_norm", self.attention_norm);
      f("ffn.lin1", self.ff.in);
      f("ffn.lin2", self.ff.out);
      f("output_layer_norm", self.output_norm);
    }
  }

 private:
  template <Floating A>
  AttentionOptions<A> options(Random* random) const {
    return {.dropout = attention_dropout, .random = random};
  }
  template <Floating A>
  Tensor<A> after_attention(const Tensor<A>& x, const Tensor<A>& attended, Random* random) const {
    const Tensor<A> y = attention_norm(x, attended, family == BertFamily::distilbert ? 0 : dropout, random);
    return output_norm(y, ff(y), dropout, random);
  }
};

/// The encoder: embeddings and layers, as in transformers' DistilBertModel, or in BertModel and RobertaModel without
/// their poolers.
template <Floating T = float>
struct BertEncoder {
  BertConfig config;                 ///< its sizes
  BertEmbeddings<T> embeddings;      ///< embedding layer
  std::vector<BertLayer<T>> layers;  ///< all layers, first to last

  /// Draws the weights. @throws ShapeError and Error as the layers do, and ShapeError for a negative number of layers.
  BertEncoder(const BertConfig& sizes, Random& random) : config(sizes), embeddings(sizes, random) {
    require<ShapeError>(sizes.layers >= 0, "BertEncoder: the number of layers must not be negative, got ",
                        sizes.layers);
    for (Index i = 0; i < sizes.layers; ++i) layers.emplace_back(sizes, random);
  }
  /// Copies the members of `other` for clone().
  BertEncoder(const BertEncoder& other, Cloning& c)
      : config(other.config), embeddings(c(other.embeddings)), layers(c(other.layers)) {}

  /// Returns the last hidden state. @throws IndexError, ShapeError and Error as BertEmbeddings::forward does.
  template <class A = T>
  Tensor<A> forward(const Tensor<int>& ids, const Sequences& sequences,
                    const ForwardOptions<A>& options = {}) const {  // [N] to [N, D]
    return run(ids, sequences, options, layers.size());
  }

  /// Returns the first row of each sequence of the last hidden state, that of [CLS]; zeros for an empty sequence. The
  /// last layer computes only these rows, unless options.hidden_states requests them all or a sequence is empty.
  /// @throws IndexError, ShapeError and Error as forward() does.
  template <class A = T>
  Tensor<A> first(const Tensor<int>& ids, const Sequences& sequences,
                  const ForwardOptions<A>& options = {}) const {  // [N] to [B, D]
    if (layers.empty() || options.hidden_states || sequences.has_empty())
      return first_rows(forward(ids, sequences, options), sequences);
    const Tensor<A> x = run(ids, sequences, options, layers.size() - 1);
    options.record(layers.back(), x, sequences);
    return layers.back().first(x, sequences, options.random);
  }

  /// Visits the members.
  static void visit(auto& self, auto&& f) {
    f("embeddings", self.embeddings);
    f(self.config.family == BertFamily::distilbert ? "transformer.layer" : "encoder.layer", self.layers);
  }

 private:
  // Runs the first `count` layers.
  template <Floating A>
  Tensor<A> run(const Tensor<int>& ids, const Sequences& sequences, const ForwardOptions<A>& o,
                std::size_t count) const {
    Tensor<A> x = embeddings.template forward<A>(ids, sequences, o.types, o.random);  // [N, D]
    if (o.hidden_states) o.hidden_states->push_back(x);
    for (std::size_t i = 0; i < count; ++i) {
      o.record(layers[i], x, sequences);
      x = layers[i](x, sequences, o.random);
      if (o.hidden_states) o.hidden_states->push_back(x);
    }
    return x;
  }
};

/// Returns the name under which a classifier holds its encoder: "bert", "distilbert" or "roberta".
inline const char* encoder_name(BertFamily family) {
  switch (family) {
    case BertFamily::distilbert: return "distilbert";
    case BertFamily::roberta: return "roberta";
    case BertFamily::bert: break;
  }
  return "bert";
}

namespace detail {

// The names of the weights of each family's heads.
struct HeadNames {
  const char *pooler, *classifier;      // of a classifier of texts
  const char *transform, *norm, *bias;  // of a masked language model
  const char *decoder, *decoder_bias;   // copies of the word embeddings and of the bias, which files may have
};
inline HeadNames head_names(BertFamily family) {
  switch (family) {
    case BertFamily::distilbert:
      return {"pre_classifier",
              "classifier",
              "vocab_transform",
              "vocab_layer_norm",
              "vocab_projector.bias",
              "vocab_projector.weight",
              ""};
    case BertFamily::roberta:
      return {"classifier.dense", "classifier.out_proj",    "lm_head.dense",       "lm_head.layer_norm",
              "lm_head.bias",     "lm_head.decoder.weight", "lm_head.decoder.bias"};
    case BertFamily::bert: break;
  }
  return {"bert.pooler.dense",
          "classifier",
          "cls.predictions.transform.dense",
          "cls.predictions.transform.LayerNorm",
          "cls.predictions.bias",
          "cls.predictions.decoder.weight",
          "cls.predictions.decoder.bias"};
}

}  // namespace detail

/// An encoder with the head of transformers' BertForSequenceClassification (a pooler with tanh),
/// DistilBertForSequenceClassification (a linear map with ReLU) or RobertaForSequenceClassification (a linear map with
/// tanh, and a dropout before it, too).
template <Floating T = float>
struct BertClassifier {
  BertEncoder<T> encoder;    ///< encoder
  nn::Linear<T> pooler;      ///< pre_classifier in DistilBERT, classifier.dense in RoBERTa, [D, D]
  nn::Linear<T> classifier;  ///< [C, D]

  /// Draws the weights. @throws ShapeError and Error as BertEncoder does, ShapeError for fewer than one class, and
  /// Error for a classifier_dropout outside [0, 1).
  BertClassifier(const BertConfig& config, Index classes, Random& random)
      : encoder(config, random), pooler(config.D, config.D, random), classifier(config.D, classes, random) {
    heddle::detail::require_fraction("BertClassifier", "classifier_dropout", config.classifier_dropout);
    draw_head(random);
  }
  /// Copies the members of `other` for clone().
  BertClassifier(const BertClassifier& other, Cloning& c)
      : encoder(c(other.encoder)), pooler(c(other.pooler)), classifier(c(other.classifier)) {}

  /// Returns the sizes of the encoder.
  const BertConfig& config() const { return encoder.config; }
  /// Draws the weights of both layers after the encoder.
  void draw_head(Random& random) {
    detail::draw_as_bert(pooler, random, config().deviation);
    detail::draw_as_bert(classifier, random, config().deviation);
  }

  /// Returns the logits of the classes. @throws IndexError, ShapeError and Error as BertEncoder::forward does.
  template <class A = T>
  Tensor<A> forward(const Tensor<int>& ids, const Sequences& sequences,
                    const ForwardOptions<A>& options = {}) const {  // [N] to [B, C]
    const double p = config().classifier_dropout;
    Tensor<A> x = encoder.template first<A>(ids, sequences, options);  // [B, D]
    if (config().family == BertFamily::roberta) x = dropout(x, p, options.random);
    x = pooler(x);
    x = config().family == BertFamily::distilbert ? relu(x) : tanh(x);
    return classifier(dropout(x, p, options.random));
  }

  /// Visits the members.
  static void visit(auto& self, auto&& f) {
    const detail::HeadNames names = detail::head_names(self.encoder.config.family);
    f(encoder_name(self.encoder.config.family), self.encoder);
    f(names.pooler, self.pooler);
    f(names.classifier, self.classifier);
  }
};

/// What the linear map of a BertTokenClassifier computes: the labels of tokens, or the beginning and the end of an
/// answer.
enum class TokenHead { labels, answer };

/// An encoder with a linear map on each row, as in transformers' BertForTokenClassification and
/// BertForQuestionAnswering, and in those of DistilBERT and RoBERTa.
template <Floating T = float>
struct BertTokenClassifier {
  BertEncoder<T> encoder;    ///< encoder
  nn::Linear<T> classifier;  ///< [C, D]
  TokenHead head;            ///< which head it is
  double head_dropout;       ///< dropout before the linear map

  /// Draws the weights. @throws ShapeError and Error as BertEncoder does, ShapeError for fewer than one output, and
  /// Error for a dropout outside [0, 1).
  BertTokenClassifier(const BertConfig& config, TokenHead kind, Index outputs, Random& random)
      : encoder(config, random),
        classifier(config.D, outputs, random),
        head(kind),
        head_dropout(dropout_of(config, kind)) {
    heddle::detail::require_fraction("BertTokenClassifier", "dropout", head_dropout);
    draw_head(random);
  }
  /// Copies the members of `other` for clone().
  BertTokenClassifier(const BertTokenClassifier& other, Cloning& c)
      : encoder(c(other.encoder)),
        classifier(c(other.classifier)),
        head(other.head),
        head_dropout(other.head_dropout) {}

  /// Returns the sizes of the encoder.
  const BertConfig& config() const { return encoder.config; }
  /// Draws the weights of the linear map.
  void draw_head(Random& random) { detail::draw_as_bert(classifier, random, config().deviation); }

  /// Returns the logits of each row. @throws IndexError, ShapeError and Error as BertEncoder::forward does.
  template <class A = T>
  Tensor<A> forward(const Tensor<int>& ids, const Sequences& sequences,
                    const ForwardOptions<A>& options = {}) const {  // [N] to [N, C]
    return classifier(dropout(encoder.template forward<A>(ids, sequences, options), head_dropout, options.random));
  }

  /// Visits the members.
  static void visit(auto& self, auto&& f) {
    f(encoder_name(self.encoder.config.family), self.encoder);
    f(self.head == TokenHead::labels ? "classifier" : "qa_outputs", self.classifier);
  }

 private:
  // transformers has another dropout for each family and head.
  static double dropout_of(const BertConfig& config, TokenHead kind) {
    if (config.family == BertFamily::distilbert)
      return kind == TokenHead::labels ? config.dropout : config.answer_dropout;
    return kind == TokenHead::labels ? config.classifier_dropout : 0;
  }
};

/// A masked language model, as in transformers' BertForMaskedLM, DistilBertForMaskedLM and RobertaForMaskedLM. The
/// decoder shares its matrix with the word embeddings.
template <Floating T = float>
struct BertMaskedLm {
  BertEncoder<T> encoder;   ///< encoder
  nn::Linear<T> transform;  ///< [D, D], before the decoder
  nn::LayerNorm<T> norm;    ///< over the transformed rows
  Parameter<T> bias;        ///< bias of the decoder, [V]

  /// Draws the weights. @throws ShapeError and Error as BertEncoder does.
  BertMaskedLm(const BertConfig& config, Random& random)
      : encoder(config, random),
        transform(config.D, config.D, random),
        norm(config.D, config.eps),
        bias(zeros<T>({config.vocabulary})) {
    detail::draw_as_bert(transform, random, config.deviation);
  }
  /// Copies the members of `other` for clone().
  BertMaskedLm(const BertMaskedLm& other, Cloning& c)
      : encoder(c(other.encoder)), transform(c(other.transform)), norm(c(other.norm)), bias(c(other.bias)) {}

  /// Returns the sizes of the encoder.
  const BertConfig& config() const { return encoder.config; }

  /// Returns the logits of all tokens of the vocabulary for the given rows of the batch. @throws IndexError, ShapeError
  /// and Error as BertEncoder::forward does, and IndexError for a row that the batch does not have.
  template <class A = T>
  Tensor<A> forward(const Tensor<int>& ids, const Sequences& sequences, const Tensor<int>& rows,
                    const ForwardOptions<A>& options = {}) const {  // ids [N], rows [M], to [M, V]
    return decode(take_rows(encoder.template forward<A>(ids, sequences, options), rows));
  }
  /// Returns the logits of all tokens of the vocabulary for each row. @throws IndexError, ShapeError and Error as
  /// BertEncoder::forward does.
  template <class A = T>
  Tensor<A> forward(const Tensor<int>& ids, const Sequences& sequences,
                    const ForwardOptions<A>& options = {}) const {  // [N] to [N, V]
    return decode(encoder.template forward<A>(ids, sequences, options));
  }

  /// Visits the members.
  static void visit(auto& self, auto&& f) {
    const detail::HeadNames names = detail::head_names(self.encoder.config.family);
    f(encoder_name(self.encoder.config.family), self.encoder);
    f(names.transform, self.transform);
    f(names.norm, self.norm);
    f(names.bias, self.bias);
  }

 private:
  template <Floating A>
  Tensor<A> decode(const Tensor<A>& x) const {  // [M, D] to [M, V]
    return linear(norm(activated(transform(x))), encoder.embeddings.words.weight.template as<A>(),
                  bias.template as<A>());
  }
  template <Floating A>
  Tensor<A> activated(const Tensor<A>& x) const {
    if (config().family == BertFamily::roberta) return gelu(x);  // in transformers, too
    switch (config().activation) {
      case nn::Activation::gelu_tanh: return gelu_tanh(x);
      case nn::Activation::relu: return relu(x);
      case nn::Activation::gelu: break;
    }
    return gelu(x);
  }
};

}  // namespace heddle::models
