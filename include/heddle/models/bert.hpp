// BERT and its relatives, BertFamily: encoders, classifiers and masked language models. XLM-RoBERTa and CamemBERT are
// RoBERTa with other vocabularies. The names of weights are those of Hugging Face's transformers, so that folders of
// that library can be loaded.
#pragma once
#include <algorithm>

#include <heddle/models/bert_config.hpp>
#include <heddle/models/forward_options.hpp>
#include <heddle/nn/attention.hpp>
#include <heddle/nn/embed_layer_norm.hpp>
#include <heddle/nn/embedding.hpp>
#include <heddle/nn/feed_forward.hpp>
#include <heddle/nn/layer_norm.hpp>
#include <heddle/nn/positions.hpp>
#include <heddle/nn/relative_positions.hpp>
#include <heddle/ops/arithmetic.hpp>
#include <heddle/ops/dropout.hpp>
#include <heddle/ops/map.hpp>
#include <heddle/ops/rows.hpp>
#include <heddle/ops/slice.hpp>

namespace heddle::models {

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

/// The embedding layer: the norm of the sum of word, position and token type embeddings, of width E (BertConfig).
template <Floating T = float>
struct BertEmbeddings {
  nn::Embedding<T> words;                 ///< [V, E]
  nn::LearnedPositions<T> positions;      ///< [L, E]; [padding_id + 1 + L, E] for RoBERTa and MPNet
  std::optional<nn::Embedding<T>> types;  ///< [types, E]; none for DistilBERT and MPNet
  nn::LayerNorm<T> norm;                  ///< over the sum
  double dropout;                         ///< dropout probability after the norm

  /// Draws the weights; config.types below 1 means no token types. @throws ShapeError for another size below 1, and
  /// Error for a RoBERTa or MPNet without a padding_id, for a dropout outside [0, 1) and for an eps or deviation that
  /// is negative or not finite.
  BertEmbeddings(const BertConfig& config, Random& random)
      : words(config.vocabulary, config.E(), random, {.padding_id = config.padding_id}),
        positions(config.positions, config.E(), random, position_options(config)),
        norm(config.E(), config.eps),
        dropout(config.dropout) {
    heddle::detail::require_fraction("BertEmbeddings", "dropout", dropout);
    if (config.types > 0 && detail::form_of(config.family).has_types) types.emplace(config.types, config.E(), random);
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

  /// Returns the embeddings [N, E] of the token ids [N]. Absent token types are 0. Dropout is active if and only if
  /// `random` is given. @throws IndexError for an id or a type that is out of range, and for a sequence with more
  /// tokens than positions, ShapeError for ids that do not fit the sequences and for token types of another shape than
  /// ids, and Error for token types if the model has none.
  template <class A = T>
  Tensor<A> forward(const Tensor<int>& ids, const Sequences& sequences, const Tensor<int>& token_types = {},
                    Random* random = nullptr) const {  // [N] to [N, E]
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
    if (!config.counts_from_padding()) return {};
    require(config.padding_id.has_value(),
            "BertEmbeddings: RoBERTa and MPNet need a padding_id, from which positions count");
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
    return (*this)(x, sequences, AttentionOptions<A>(), random);
  }
  /// Applies the layer with a bias of the attention, or with keys: sequences of the same rows x, to which the tokens
  /// attend instead. Other options must have their defaults. @throws ShapeError and Error as above and as attention()
  /// does.
  template <Floating A>
  Tensor<A> operator()(const Tensor<A>& x, const Sequences& sequences, AttentionOptions<A> options,
                       Random* random = nullptr) const {  // [N, D]
    set(options, random);
    if (!options.keys) return after_attention(x, attention(x, sequences, options), random);
    const Tensor<A> product = attention.qkv(x);  // [N, 3 * D]
    const Index D = x.dim(1);
    const Tensor<A> y = heddle::attention(columns(product, 0, D), columns(product, D, D), columns(product, 2 * D, D),
                                          sequences, options);
    return after_attention(x, attention.out(y), random);
  }
  template <std::integral A>
  void operator()(const Tensor<A>&, const auto&...) const = delete;  // needs cast<float>(x)

  /// Returns the first row of each sequence of the layer's result, which is all that a classifier reads. Computes keys
  /// and values for all rows, and everything else only for the first rows. A bias is that of their queries,
  /// [1, H, 1, T].
  template <Floating A>
  Tensor<A> first(const Tensor<A>& x, const Sequences& sequences, Random* random = nullptr,
                  const Tensor<A>& bias = {}) const {  // [N, D] to [B, D]
    const Tensor<A> weight = attention.qkv.weight.template as<A>(),
                    qkv_bias = attention.qkv.bias ? attention.qkv.bias->template as<A>() : Tensor<A>();
    const Index D = x.dim(1);
    const Tensor<A> rows = first_rows(x, sequences);                                             // [B, D]
    const auto [query, key_value] = heddle::detail::linear_parts(rows, x, weight, qkv_bias, D);  // [B, D], [N, 2 * D]
    const Sequences queries = Sequences::packed(sequences.count(), 1).to(sequences.device());
    AttentionOptions<A> options{.bias = bias, .keys = &sequences};
    set(options, random);
    const Tensor<A> y = heddle::attention(query, columns(key_value, 0, D), columns(key_value, D, D), queries, options);
    return after_attention(rows, attention.out(y), random);
  }

  /// Returns the attention's queries, keys and weights for the layer's input x, without dropout.
  template <Floating A>
  nn::AttentionRecord<A> record(const Tensor<A>& x, const Sequences& sequences,
                                const Tensor<A>& bias = {}) const {  // [N, D]
    return attention.record(x, sequences, bias);
  }

  /// Visits the members.
  static void visit(auto& self, auto&& f) {
    const detail::FamilyForm& form = detail::form_of(self.family);
    const auto projections = [&](const char* suffix) {
      std::vector<std::string> names{form.query, form.key, form.value};
      for (std::string& name : names) name += suffix;
      return names;
    };
    f(projections(".weight"), self.attention.qkv.weight);
    f(projections(".bias"), self.attention.qkv.bias);
    f(form.out, self.attention.out);
    f(form.attention_norm, self.attention_norm);
    f(form.ff_in, self.ff.in);
    f(form.ff_out, self.ff.out);
    f(form.output_norm, self.output_norm);
  }

 private:
  // Sets the options that the layer decides.
  template <Floating A>
  void set(AttentionOptions<A>& options, Random* random) const {
    options.heads = attention.heads;
    options.dropout = attention_dropout;
    options.random = random;
  }
  template <Floating A>
  Tensor<A> after_attention(const Tensor<A>& x, const Tensor<A>& attended, Random* random) const {
    const detail::FamilyForm& form = detail::form_of(family);
    const Tensor<A> y = attention_norm(x, attended, form.drops_attention ? dropout : 0, random);
    return output_norm(y, ff(y), form.drops_ff ? dropout : 0, random);
  }
};

/// The encoder: embeddings and layers, as in transformers' BertModel without its pooler, DistilBertModel, RobertaModel,
/// MPNetModel, ElectraModel and AlbertModel.
template <Floating T = float>
struct BertEncoder {
  BertConfig config;                                     ///< its sizes
  BertEmbeddings<T> embeddings;                          ///< embedding layer
  std::optional<nn::Linear<T>> projection;               ///< [D, E], after the embeddings of ELECTRA and ALBERT
  std::optional<nn::BucketedPositionBias<T>> distances;  ///< of MPNet's attention, shared by the layers
  std::vector<BertLayer<T>> layers;                      ///< the layers with weights (BertConfig::layer_of_pass)

  /// Draws the weights. @throws ShapeError and Error as the layers do, ShapeError for a negative number of layers, and
  /// Error for groups or inner layers of ALBERT below 1 and for more groups than layers.
  BertEncoder(const BertConfig& sizes, Random& random) : config(sizes), embeddings(sizes, random) {
    require<ShapeError>(sizes.layers >= 0, "BertEncoder: the number of layers must not be negative, got ",
                        sizes.layers);
    if (sizes.family == BertFamily::albert)
      require(sizes.groups >= 1 && sizes.groups <= std::max<Index>(sizes.layers, 1) && sizes.inner_layers >= 1,
              "BertEncoder: groups must be from 1 to the number of layers, ", sizes.layers,
              ", and inner_layers at least 1, got ", sizes.groups, " and ", sizes.inner_layers);
    if (sizes.has_projection()) {
      projection.emplace(sizes.E(), sizes.D, random);
      detail::draw_as_bert(*projection, random, sizes.deviation);
    }
    if (sizes.family == BertFamily::mpnet) {
      distances.emplace(detail::mpnet_buckets, detail::mpnet_greatest_distance, static_cast<int>(sizes.heads));
      detail::draw_as_bert(*distances, random, sizes.deviation);
    }
    for (Index i = 0; i < sizes.layers_with_weights(); ++i) layers.emplace_back(sizes, random);
  }
  /// Copies the members of `other` for clone().
  BertEncoder(const BertEncoder& other, Cloning& c)
      : config(other.config),
        embeddings(c(other.embeddings)),
        projection(c(other.projection)),
        distances(c(other.distances)),
        layers(c(other.layers)) {}

  /// Returns the last hidden state. @throws IndexError, ShapeError and Error as BertEmbeddings::forward does.
  template <class A = T>
  Tensor<A> forward(const Tensor<int>& ids, const Sequences& sequences,
                    const ForwardOptions<A>& options = {}) const {  // [N] to [N, D]
    return run(ids, sequences, options, config.passes(), bias<A>(sequences, sequences));
  }

  /// Returns the last hidden state of tokens that attend only to the rows of `keys`, sequences of the same rows.
  /// @throws IndexError, ShapeError and Error as forward() and attention() do.
  template <class A = T>
  Tensor<A> attending_to(const Tensor<int>& ids, const Sequences& sequences, const Sequences& keys,
                         const ForwardOptions<A>& options = {}) const {  // [N] to [N, D]
    return run(ids, sequences, options, config.passes(), bias<A>(sequences, keys), &keys);
  }

  /// Returns the first row of each sequence of the last hidden state, that of [CLS]; zeros for an empty sequence. The
  /// last layer computes only these rows, unless options.hidden_states requests them all or a sequence is empty.
  /// @throws IndexError, ShapeError and Error as forward() does.
  template <class A = T>
  Tensor<A> first(const Tensor<int>& ids, const Sequences& sequences,
                  const ForwardOptions<A>& options = {}) const {  // [N] to [B, D]
    if (config.passes() == 0 || options.hidden_states || sequences.has_empty())
      return first_rows(forward(ids, sequences, options), sequences);
    const Tensor<A> of_all = bias<A>(sequences, sequences);
    const Index last = config.passes() - 1;
    const Tensor<A> x = run(ids, sequences, options, last, of_all);
    const BertLayer<T>& layer = layer_of_pass(last);
    options.record(layer, x, sequences, of_all);
    return layer.first(x, sequences, options.random, of_all ? slice(of_all, 2, 0, 1) : of_all);
  }

  /// Visits the members.
  static void visit(auto& self, auto&& f) {
    f("embeddings", self.embeddings);
    f(detail::projection_name(self.config.family), self.projection);
    f(detail::bias_name, self.distances);
    for (std::size_t i = 0; i < self.layers.size(); ++i)
      f(detail::layer_name(self.config, static_cast<Index>(i)), self.layers[i]);
  }

 private:
  const BertLayer<T>& layer_of_pass(Index i) const { return layers[static_cast<std::size_t>(config.layer_of_pass(i))]; }
  // Returns the bias of the attention [1, H, Tq, Tk], or an empty tensor.
  template <Floating A>
  Tensor<A> bias(const Sequences& queries, const Sequences& keys) const {
    return distances ? distances->template operator()<A>(queries, keys) : Tensor<A>();
  }
  // Runs the first `count` passes.
  template <Floating A>
  Tensor<A> run(const Tensor<int>& ids, const Sequences& sequences, const ForwardOptions<A>& o, Index count,
                const Tensor<A>& bias, const Sequences* keys = nullptr) const {
    Tensor<A> x = embeddings.template forward<A>(ids, sequences, o.types, o.random);  // [N, E]
    if (projection) x = (*projection)(x);                                             // [N, D]
    if (o.hidden_states) o.hidden_states->push_back(x);
    for (Index i = 0; i < count; ++i) {
      const BertLayer<T>& layer = layer_of_pass(i);
      o.record(layer, x, sequences, bias);
      x = layer(x, sequences, {.bias = bias, .keys = keys}, o.random);
      if (o.hidden_states) o.hidden_states->push_back(x);
    }
    return x;
  }
};

/// An encoder with the head of transformers' BertForSequenceClassification, DistilBertForSequenceClassification and so
/// on: dropout before the first linear map (RoBERTa, MPNet, ELECTRA); the map; tanh, ReLU (DistilBERT) or GELU
/// (ELECTRA); dropout; the second map.
template <Floating T = float>
struct BertClassifier {
  BertEncoder<T> encoder;    ///< encoder
  nn::Linear<T> pooler;      ///< [D, D]: bert.pooler.dense, DistilBERT's pre_classifier, RoBERTa's classifier.dense
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
    const detail::FamilyForm& form = detail::form_of(config().family);
    const double p = config().classifier_dropout;
    Tensor<A> x = encoder.template first<A>(ids, sequences, options);  // [B, D]
    if (form.drops_first_row) x = dropout(x, p, options.random);
    x = pooler(x);
    switch (form.between) {
      case detail::FamilyForm::relu: x = relu(x); break;
      case detail::FamilyForm::gelu: x = gelu(x); break;
      case detail::FamilyForm::tanh: x = tanh(x); break;
    }
    return classifier(dropout(x, p, options.random));
  }

  /// Visits the members.
  static void visit(auto& self, auto&& f) {
    const detail::FamilyForm& form = detail::form_of(self.encoder.config.family);
    f(form.name, self.encoder);
    f(form.dense, self.pooler);
    f(form.classifier, self.classifier);
  }
};

/// What the linear map of a BertTokenClassifier computes: the labels of tokens, or the beginning and the end of an
/// answer.
enum class TokenHead { labels, answer };

/// An encoder with a linear map on each row, as in transformers' BertForTokenClassification and
/// BertForQuestionAnswering, and in those of the other families.
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

/// A masked language model, as in transformers' BertForMaskedLM, DistilBertForMaskedLM and so on. The decoder shares
/// its matrix with the word embeddings.
template <Floating T = float>
struct BertMaskedLm {
  BertEncoder<T> encoder;   ///< encoder
  nn::Linear<T> transform;  ///< [E, D], before the decoder
  nn::LayerNorm<T> norm;    ///< over the transformed rows
  Parameter<T> bias;        ///< bias of the decoder, [V]

  /// Draws the weights. @throws ShapeError and Error as BertEncoder does.
  BertMaskedLm(const BertConfig& config, Random& random)
      : encoder(config, random),
        transform(config.D, config.E(), random),
        norm(config.E(), config.eps),
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
    const detail::FamilyForm& form = detail::form_of(self.encoder.config.family);
    f(form.name, self.encoder);
    f(form.transform, self.transform);
    f(form.norm, self.norm);
    f(form.bias, self.bias);
  }

 private:
  template <Floating A>
  Tensor<A> decode(const Tensor<A>& x) const {  // [M, D] to [M, V]
    return linear(norm(activated(transform(x))), encoder.embeddings.words.weight.template as<A>(),
                  bias.template as<A>());
  }
  template <Floating A>
  Tensor<A> activated(const Tensor<A>& x) const {
    if (detail::form_of(config().family).decodes_with_gelu) return gelu(x);
    switch (config().activation) {
      case nn::Activation::gelu_tanh: return gelu_tanh(x);
      case nn::Activation::relu: return relu(x);
      case nn::Activation::silu: return silu(x);
      case nn::Activation::gelu: break;
    }
    return gelu(x);
  }
};

}  // namespace heddle::models
