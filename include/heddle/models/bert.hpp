// BERT and its relatives, BertFamily: encoders, classifiers and masked language models. XLM-RoBERTa and CamemBERT are
// RoBERTa with other vocabularies. The names of weights are those of Hugging Face's transformers, so that folders of
// that library can be loaded.
#pragma once
#include <algorithm>

#include <heddle/models/bert_config.hpp>
#include <heddle/models/forward_options.hpp>
#include <heddle/models/rotary_layer.hpp>
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

/// The embedding layer: the norm of the sum of word, position and token type embeddings, of width E (BertConfig).
template <Floating T = float>
struct BertEmbeddings {
  nn::Embedding<T> words;                            ///< [V, E]
  std::optional<nn::LearnedPositions<T>> positions;  ///< [L, E]; [padding_id + 1 + L, E] for RoBERTa and MPNet
  std::optional<nn::Embedding<T>> types;             ///< [types, E]; if the family has some
  nn::LayerNorm<T> norm;                             ///< over the sum
  BertFamily family;                                 ///< which of the models the layer belongs to
  Index longest;                                     ///< L, the greatest length of a text
  double dropout;                                    ///< dropout probability after the norm

  /// Draws the weights; config.types below 1 means no token types. @throws ShapeError for another size below 1, and
  /// Error for a RoBERTa or MPNet without a padding_id, for a dropout outside [0, 1) and for an eps or deviation that
  /// is negative or not finite.
  BertEmbeddings(const BertConfig& config, Random& random)
      : words(config.vocabulary, config.E(), random, {.padding_id = config.padding_id}),
        norm(config.E(), config.eps, has_norm_bias(config)),
        family(config.family),
        longest(config.positions),
        dropout(config.dropout) {
    heddle::detail::require_fraction("BertEmbeddings", "dropout", dropout);
    if (config.has_position_table()) positions.emplace(config.positions, config.E(), random, position_options(config));
    if (config.types > 0 && detail::form_of(config.family).has_types) types.emplace(config.types, config.E(), random);
    detail::draw_as_bert(*this, random, config);
    words.clear_padding();
    if (positions) positions->clear_padding();
  }
  /// Copies the members of `other` for clone().
  BertEmbeddings(const BertEmbeddings& other, Cloning& c)
      : words(c(other.words)),
        positions(c(other.positions)),
        types(c(other.types)),
        norm(c(other.norm)),
        family(other.family),
        longest(other.longest),
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
      if (positions && nn::detail::embeds_and_norms_on_gpu(words, *positions, type_module(), norm))
        return forward_on_gpu<A>(ids, sequences, token_types, random);
#endif
    const Tensor<A> x = at_positions<A>(ids, sequences);
    require_types(ids, token_types);
    if (!types) return norm.dropped(x, dropout, random);
    if (token_types) return norm.dropped(x, types->template operator()<A>(token_types), 0, dropout, random);
    return norm.dropped(x + slice(types->weight.template as<A>(), 0, 0, 1), dropout, random);
  }

  /// Visits the members. The norm of NomicBERT is a member of its encoder.
  static void visit(auto& self, auto&& f) {
    const detail::FamilyForm& form = detail::form_of(self.family);
    f(form.words, self.words);
    f("position_embeddings", self.positions);
    f("token_type_embeddings", self.types);
    if (*form.embedding_norm) f(form.embedding_norm, self.norm);
  }

 private:
  static bool has_norm_bias(const BertConfig& config) { return !config.has_rotary() || config.rotary.norm_bias; }
  // Returns the word embeddings, with those of the positions added if there are any.
  template <class A>
  Tensor<A> at_positions(const Tensor<int>& ids, const Sequences& sequences) const {
    if (positions) return positions->template embed<A>(words, ids, sequences);
    nn::require_positions("BertEmbeddings", sequences, longest);
    const Tensor<A> x = words.template operator()<A>(ids);
    require_rows("BertEmbeddings", {"ids", heddle::detail::rows_of_batch(x, sequences)}, sequences);
    return x;
  }
  static nn::PositionOptions position_options(const BertConfig& config) {
    if (!config.counts_from_padding()) return {};
    require(config.padding_id.has_value(),
            "BertEmbeddings: RoBERTa and MPNet need a padding_id, from which positions count");
    require(config.family != BertFamily::mpnet || config.padding_id == 1,
            "BertEmbeddings: the padding_id of MPNet must be 1, as in transformers, got ", *config.padding_id);
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
    nn::detail::require_embedded_positions("LearnedPositions", table, given, positions->weight.value(), sequences,
                                           positions->longest());
    const Tensor<int> ids = ids_beside(table, given, words.padding_id);
    require_types(given, token_types);
    Tensor<int> type;
    if (token_types) type = ids_beside(types->weight.value(), token_types, types->padding_id);
    return nn::detail::embed_layer_norm_on_gpu<A>(token_types ? "residual_layer_norm" : "layer_norm", words, ids,
                                                  *positions, positions->rows_of(ids, sequences), type_module(), type,
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
    detail::draw_as_bert(*this, random, config);
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
  /// Applies the layer with a bias of the attention, or with the embeddings of distances that DeBERTa has. If
  /// options.keys is given, tokens attend to the rows of these sequences of x only. Other options must have their
  /// defaults. @throws ShapeError and Error as above and as attention() and disentangled_bias() do.
  template <Floating A>
  Tensor<A> operator()(const Tensor<A>& x, const Sequences& sequences, AttentionOptions<A> options,
                       Random* random = nullptr, const nn::DistanceRows<A>* distances = nullptr) const {  // [N, D]
    options.dropout = attention_dropout;
    options.random = random;
    const auto attend = [&] {
      if (distances) return attention.disentangled(x, sequences, dropped(*distances, random), options);
      return options.keys ? attention.among(*options.keys, x, sequences, options) : attention(x, sequences, options);
    };
    return after_attention(x, attend(), random);
  }
  template <std::integral A>
  void operator()(const Tensor<A>&, const auto&...) const = delete;  // needs cast<float>(x)

  /// Returns the first row of each sequence of the layer's result, which is all that a classifier reads. Computes keys
  /// and values for all rows, and everything else only for the first rows. A bias is that of their queries,
  /// [1, H, 1, T]; the embeddings of distances are those that DeBERTa has.
  template <Floating A>
  Tensor<A> first(const Tensor<A>& x, const Sequences& sequences, Random* random = nullptr, const Tensor<A>& bias = {},
                  const nn::DistanceRows<A>* distances = nullptr) const {  // [N, D] to [B, D]
    const AttentionOptions<A> options{.dropout = attention_dropout, .random = random, .bias = bias};
    const Tensor<A> rows = first_rows(x, sequences);  // [B, D]
    const Tensor<Acc<A>> no_table;
    const auto attended = [&] {
      if (!distances) return attention.first(rows, x, sequences, options);
      const nn::DistanceRows<A> of_layer = dropped(*distances, random);
      return attention.first(rows, x, sequences, options, no_table, &of_layer);
    };
    return after_attention(rows, attended(), random);
  }

  /// Returns the attention's queries, keys and weights for the layer's input x, without dropout.
  template <Floating A>
  nn::AttentionRecord<A> record(const Tensor<A>& x, const Sequences& sequences, const Tensor<A>& bias = {},
                                const nn::DistanceRows<A>* distances = nullptr) const {  // [N, D]
    return attention.record(x, sequences, {.bias = bias}, {}, distances);
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
  template <Floating A>
  nn::DistanceRows<A> dropped(const nn::DistanceRows<A>& distances, Random* random) const {
    return {heddle::dropout(distances.rows, dropout, random), distances.columns};
  }
  template <Floating A>
  Tensor<A> after_attention(const Tensor<A>& x, const Tensor<A>& attended, Random* random) const {
    const detail::FamilyForm& form = detail::form_of(family);
    const Tensor<A> y = attention_norm(x, attended, form.drops_attention ? dropout : 0, random);
    return output_norm(y, ff(y), form.drops_ff ? dropout : 0, random);
  }
};

/// The encoder: embeddings and layers, as in transformers' BertModel without its pooler, DistilBertModel, RobertaModel,
/// MPNetModel, ElectraModel, AlbertModel, ModernBertModel, NomicBertModel, GteModel and DebertaV2Model without their
/// poolers.
template <Floating T = float>
struct BertEncoder {
  BertConfig config;                                     ///< its sizes
  BertEmbeddings<T> embeddings;                          ///< embedding layer
  std::optional<nn::Linear<T>> projection;               ///< [D, E], after the embeddings of ELECTRA and ALBERT
  std::optional<nn::BucketedPositionBias<T>> distances;  ///< of MPNet's attention, shared by the layers
  std::optional<nn::DistanceEmbeddings<T>> relative;     ///< embeddings of distances of DeBERTa, shared by the layers
  std::vector<BertLayer<T>> layers;                      ///< the layers with weights (BertConfig::layer_of_pass)
  std::vector<RotaryLayer<T>> rotary_layers;             ///< those of families with rotary positions
  std::optional<nn::LayerNorm<T>> final_norm;            ///< after the layers of ModernBERT

  /// Draws the weights. @throws ShapeError and Error as the layers do, ShapeError for a negative number of layers and
  /// for heads of ModernBERT whose width is odd or above 512, and Error for groups or inner layers of ALBERT below 1,
  /// for more groups than layers, and for a base of ModernBERT that is not finite and above 0.
  BertEncoder(const BertConfig& sizes, Random& random) : config(sizes), embeddings(sizes, random) {
    require<ShapeError>(sizes.layers >= 0, "BertEncoder: the number of layers must not be negative, got ",
                        sizes.layers);
    if (sizes.family == BertFamily::albert)
      require(sizes.groups >= 1 && sizes.groups <= std::max<Index>(sizes.layers, 1) && sizes.inner_layers >= 1,
              "BertEncoder: groups must be from 1 to the number of layers, ", sizes.layers,
              ", and inner_layers at least 1, got ", sizes.groups, " and ", sizes.inner_layers);
    if (sizes.has_projection()) {
      projection.emplace(sizes.E(), sizes.D, random);
      detail::draw_as_bert(*projection, random, sizes);
    }
    if (sizes.family == BertFamily::mpnet) {
      distances.emplace(detail::mpnet_buckets, detail::mpnet_greatest_distance, static_cast<int>(sizes.heads));
      detail::draw_as_bert(*distances, random, sizes);
    }
    if (sizes.family == BertFamily::deberta) {
      relative.emplace(sizes.deberta.buckets, sizes.deberta.greatest_distance, sizes.D, sizes.eps,
                       sizes.deberta.norms_distances);
      detail::draw_as_bert(*relative, random, sizes);
    }
    if (!sizes.has_rotary()) {
      for (Index i = 0; i < sizes.layers_with_weights(); ++i) layers.emplace_back(sizes, random);
      return;
    }
    nn::require_size("BertEncoder", "heads", sizes.heads);
    for (const double base : {sizes.rotary.global_base, sizes.rotary.local_base})
      nn::RotaryPositions(sizes.D / sizes.heads, base, sizes.rotary.divisor);  // refuses an odd width and a wrong base
    for (Index i = 0; i < sizes.layers; ++i) rotary_layers.emplace_back(sizes, i, random);
    if (sizes.rotary.norm_first) final_norm.emplace(sizes.D, sizes.eps, sizes.rotary.norm_bias);
  }
  /// Copies the members of `other` for clone().
  BertEncoder(const BertEncoder& other, Cloning& c)
      : config(other.config),
        embeddings(c(other.embeddings)),
        projection(c(other.projection)),
        distances(c(other.distances)),
        relative(c(other.relative)),
        layers(c(other.layers)),
        rotary_layers(c(other.rotary_layers)),
        final_norm(c(other.final_norm)) {}

  /// Returns the last hidden state. @throws IndexError, ShapeError and Error as BertEmbeddings::forward does.
  template <class A = T>
  Tensor<A> forward(const Tensor<int>& ids, const Sequences& sequences,
                    const ForwardOptions<A>& options = {}) const {  // [N] to [N, D]
    return run(ids, options, Attending<A>(*this, sequences));
  }

  /// Returns the last hidden state of tokens that attend only to the rows of `keys`, sequences of the same rows.
  /// @throws IndexError, ShapeError and Error as forward() and attention() do.
  template <class A = T>
  Tensor<A> attending_to(const Tensor<int>& ids, const Sequences& sequences, const Sequences& keys,
                         const ForwardOptions<A>& options = {}) const {  // [N] to [N, D]
    return run(ids, options, Attending<A>(*this, sequences, &keys));
  }

  /// Returns the first row of each sequence of the last hidden state, that of [CLS]; zeros for an empty sequence. The
  /// last layer computes only these rows, unless options.hidden_states requests them all or a sequence is empty.
  /// @throws IndexError, ShapeError and Error as forward() does.
  template <class A = T>
  Tensor<A> first(const Tensor<int>& ids, const Sequences& sequences,
                  const ForwardOptions<A>& options = {}) const {  // [N] to [B, D]
    if (config.passes() == 0 || options.hidden_states || sequences.has_empty() || sequences.count() == 0)
      return first_rows(forward(ids, sequences, options), sequences);
    const Attending<A> attending(*this, sequences);
    const Index last = config.passes() - 1;
    const Tensor<A> x = run_layers(ids, options, attending, last);
    if (config.has_rotary()) {
      const RotaryLayer<T>& layer = rotary_layers[static_cast<std::size_t>(last)];
      options.record(layer, x, sequences, attending.turns);
      const Tensor<A> y = layer.first(x, sequences, attending.turns, options.random);
      return final_norm ? (*final_norm)(y) : y;
    }
    const BertLayer<T>& layer = layer_of_pass(last);
    options.record(layer, x, sequences, attending.bias, attending.distance_rows());
    const Tensor<A> bias = attending.bias ? slice(attending.bias, 2, 0, 1) : attending.bias;
    return layer.first(x, sequences, options.random, bias, attending.distance_rows());
  }

  /// Visits the members.
  static void visit(auto& self, auto&& f) {
    const detail::FamilyForm& form = detail::form_of(self.config.family);
    f("embeddings", self.embeddings);
    if (*form.encoder_norm) f(form.encoder_norm, self.embeddings.norm);
    f(detail::projection_name(self.config.family), self.projection);
    f(detail::bias_name, self.distances);
    f("encoder", self.relative);
    const auto visit_layers = [&](auto& all) {
      for (std::size_t i = 0; i < all.size(); ++i) f(detail::layer_name(self.config, static_cast<Index>(i)), all[i]);
    };
    visit_layers(self.layers);
    visit_layers(self.rotary_layers);
    f("final_norm", self.final_norm);
  }

 private:
  // The attention's inputs that all layers share: a bias of the distances, the tables of the rotary positions, or the
  // embeddings of the distances.
  template <Floating A>
  struct Attending {
    const Sequences& sequences;
    const Sequences* keys;
    Tensor<A> bias;  // [1, H, Tq, Tk], or empty
    RotaryTables<A> turns;
    std::optional<nn::DistanceRows<A>> distances;

    Attending(const BertEncoder& encoder, const Sequences& queries, const Sequences* own_keys = nullptr)
        : sequences(queries), keys(own_keys) {
      if (encoder.distances) bias = encoder.distances->template operator()<A>(sequences, keys ? *keys : sequences);
      if (encoder.config.has_rotary()) turns = RotaryTables<A>(encoder.config, sequences);
      if (encoder.relative && sequences.extent() > 0) distances = encoder.relative->template operator()<A>(sequences);
    }
    const nn::DistanceRows<A>* distance_rows() const { return distances ? &*distances : nullptr; }
  };

  const BertLayer<T>& layer_of_pass(Index i) const { return layers[static_cast<std::size_t>(config.layer_of_pass(i))]; }
  template <Floating A>
  Tensor<A> run(const Tensor<int>& ids, const ForwardOptions<A>& o, const Attending<A>& attending) const {
    const Tensor<A> x = run_layers(ids, o, attending, config.passes());
    if (!final_norm) return x;
    const Tensor<A> y = (*final_norm)(x);
    if (o.hidden_states) o.hidden_states->back() = y;  // as in transformers
    return y;
  }
  // Runs the first `count` passes.
  template <Floating A>
  Tensor<A> run_layers(const Tensor<int>& ids, const ForwardOptions<A>& o, const Attending<A>& attending,
                       Index count) const {
    const Sequences& sequences = attending.sequences;
    Tensor<A> x = embeddings.template forward<A>(ids, sequences, o.types, o.random);  // [N, E]
    if (projection) x = (*projection)(x);                                             // [N, D]
    if (o.hidden_states) o.hidden_states->push_back(x);
    for (Index i = 0; i < count; ++i) {
      if (config.has_rotary()) {
        const RotaryLayer<T>& layer = rotary_layers[static_cast<std::size_t>(i)];
        o.record(layer, x, sequences, attending.turns);
        x = layer(x, sequences, attending.turns, o.random, attending.keys);
      } else {
        const BertLayer<T>& layer = layer_of_pass(i);
        const nn::DistanceRows<A>* const of_distances = attending.distance_rows();
        o.record(layer, x, sequences, attending.bias, of_distances);
        x = layer(x, sequences, {.bias = attending.bias, .keys = attending.keys}, o.random, of_distances);
      }
      if (o.hidden_states) o.hidden_states->push_back(x);
    }
    return x;
  }
};

/// An encoder with the head of transformers' BertForSequenceClassification, DistilBertForSequenceClassification and so
/// on: dropout before the first linear map (RoBERTa, MPNet, ELECTRA); the map; tanh, ReLU (DistilBERT) or GELU
/// (ELECTRA); dropout; the second map. In ModernBERT, a ModernBertHead stands for the first map and its activation.
template <Floating T = float>
struct BertClassifier {
  BertEncoder<T> encoder;                 ///< encoder
  std::optional<nn::Linear<T>> pooler;    ///< [D, D]: bert.pooler.dense, DistilBERT's pre_classifier and so on
  std::optional<ModernBertHead<T>> head;  ///< of ModernBERT, in place of the pooler
  nn::Linear<T> classifier;               ///< [C, D]

  /// Draws the weights. @throws ShapeError and Error as BertEncoder does, ShapeError for fewer than one class, and
  /// Error for a classifier_dropout outside [0, 1).
  BertClassifier(const BertConfig& config, Index classes, Random& random)
      : encoder(config, random), classifier(config.D, classes, random) {
    heddle::detail::require_fraction("BertClassifier", "classifier_dropout", config.classifier_dropout);
    if (config.family == BertFamily::modernbert)
      head.emplace(config, random);
    else
      pooler.emplace(config.D, config.D, random);
    draw_head(random);
  }
  /// Copies the members of `other` for clone().
  BertClassifier(const BertClassifier& other, Cloning& c)
      : encoder(c(other.encoder)), pooler(c(other.pooler)), head(c(other.head)), classifier(c(other.classifier)) {}

  /// Returns the sizes of the encoder.
  const BertConfig& config() const { return encoder.config; }
  /// Draws the weights of both linear maps after the encoder.
  void draw_head(Random& random) {
    if (pooler) detail::draw_as_bert(*pooler, random, config());
    if (head) detail::draw_as_bert(head->dense, random, config(), detail::MapPlace::last);
    detail::draw_as_bert(classifier, random, config(), detail::MapPlace::classifier);
  }

  /// Returns the logits of the classes. @throws IndexError, ShapeError and Error as BertEncoder::forward does.
  template <class A = T>
  Tensor<A> forward(const Tensor<int>& ids, const Sequences& sequences,
                    const ForwardOptions<A>& options = {}) const {  // [N] to [B, C]
    const detail::FamilyForm& form = detail::form_of(config().family);
    const double p = config().classifier_dropout;
    if (head) return classifier(dropout((*head)(pooled(ids, sequences, options)), p, options.random));
    Tensor<A> x = encoder.template first<A>(ids, sequences, options);  // [B, D]
    if (form.drops_first_row) x = dropout(x, p, options.random);
    if (config().family == BertFamily::deberta) {
      x = nn::activated((*pooler)(dropout(x, config().deberta.pooler_dropout, options.random)),
                        config().deberta.pooler_activation);
      return classifier(dropout(x, p, options.random));
    }
    x = (*pooler)(x);
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
    f("head", self.head);
    f(form.classifier, self.classifier);
  }

 private:
  // Returns the row of each text that the head of ModernBERT reads.
  template <Floating A>
  Tensor<A> pooled(const Tensor<int>& ids, const Sequences& sequences, const ForwardOptions<A>& options) const {
    if (!config().rotary.pools_mean) return encoder.template first<A>(ids, sequences, options);
    return mean_rows(encoder.template forward<A>(ids, sequences, options), sequences);
  }
};

/// What the linear map of a BertTokenClassifier computes: the labels of tokens, or the beginning and the end of an
/// answer.
enum class TokenHead { labels, answer };

/// An encoder with a linear map on each row, as in transformers' BertForTokenClassification and
/// BertForQuestionAnswering, and in those of the other families.
template <Floating T = float>
struct BertTokenClassifier {
  BertEncoder<T> encoder;                      ///< encoder
  std::optional<ModernBertHead<T>> transform;  ///< of ModernBERT, before the linear map
  nn::Linear<T> classifier;                    ///< [C, D]
  TokenHead head;                              ///< which head it is
  double head_dropout;                         ///< dropout before the linear map

  /// Draws the weights. @throws ShapeError and Error as BertEncoder does, ShapeError for fewer than one output, and
  /// Error for a dropout outside [0, 1).
  BertTokenClassifier(const BertConfig& config, TokenHead kind, Index outputs, Random& random)
      : encoder(config, random),
        classifier(config.D, outputs, random),
        head(kind),
        head_dropout(dropout_of(config, kind)) {
    heddle::detail::require_fraction("BertTokenClassifier", "dropout", head_dropout);
    if (config.family == BertFamily::modernbert) transform.emplace(config, random);
    draw_head(random);
  }
  /// Copies the members of `other` for clone().
  BertTokenClassifier(const BertTokenClassifier& other, Cloning& c)
      : encoder(c(other.encoder)),
        transform(c(other.transform)),
        classifier(c(other.classifier)),
        head(other.head),
        head_dropout(other.head_dropout) {}

  /// Returns the sizes of the encoder.
  const BertConfig& config() const { return encoder.config; }
  /// Draws the weights of the linear maps after the encoder.
  void draw_head(Random& random) {
    if (transform) detail::draw_as_bert(transform->dense, random, config(), detail::MapPlace::last);
    detail::draw_as_bert(classifier, random, config(), detail::MapPlace::classifier);
  }

  /// Returns the logits of each row. @throws IndexError, ShapeError and Error as BertEncoder::forward does.
  template <class A = T>
  Tensor<A> forward(const Tensor<int>& ids, const Sequences& sequences,
                    const ForwardOptions<A>& options = {}) const {       // [N] to [N, C]
    Tensor<A> x = encoder.template forward<A>(ids, sequences, options);  // [N, D]
    if (transform) x = (*transform)(x);
    return classifier(dropout(x, head_dropout, options.random));
  }

  /// Visits the members.
  static void visit(auto& self, auto&& f) {
    const detail::FamilyForm& form = detail::form_of(self.encoder.config.family);
    f(form.name, self.encoder);
    f("head", self.transform);
    f(self.head == TokenHead::labels ? "classifier" : form.answer, self.classifier);
  }

 private:
  // transformers has another dropout for each family and head.
  static double dropout_of(const BertConfig& config, TokenHead kind) {
    if (config.family == BertFamily::distilbert)
      return kind == TokenHead::labels ? config.dropout : config.answer_dropout;
    if (config.family == BertFamily::deberta) return kind == TokenHead::labels ? config.dropout : 0;
    const bool drops = kind == TokenHead::labels || config.family == BertFamily::modernbert;
    return drops ? config.classifier_dropout : 0;
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
        transform(config.D, config.E(), random, has_bias(config)),
        norm(config.E(), config.eps, config.family != BertFamily::modernbert || config.rotary.norm_bias),
        bias(zeros<T>({config.vocabulary})) {
    detail::draw_as_bert(transform, random, config, detail::MapPlace::last);
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
    return linear(norm(nn::activated(transform(x), activation())), encoder.embeddings.words.weight.template as<A>(),
                  bias.template as<A>());
  }
  static bool has_bias(const BertConfig& config) {
    return config.family != BertFamily::modernbert || config.rotary.head_bias;
  }
  nn::Activation activation() const {
    if (config().family == BertFamily::modernbert) return config().rotary.head_activation;
    return detail::form_of(config().family).decodes_with_gelu ? nn::Activation::gelu : config().activation;
  }
};

}  // namespace heddle::models
