// The configuration of a BERT or of one of its relatives, the names of their weights, and where the families differ.
#pragma once
#include <optional>
#include <string>

#include <heddle/nn/feed_forward.hpp>

namespace heddle::models {

/// The model families: BERT (Devlin et al. 2019) and its relatives.
enum class BertFamily {
  bert,
  distilbert,  ///< Sanh et al. 2019: no token types, no dropout of the attention's result
  roberta,     ///< Liu et al. 2019: positions count from the row behind that of the padding (nn::PositionOptions)
  mpnet,       ///< Song et al. 2020: positions as in RoBERTa, and a bias of distances that the layers share
  electra,     ///< Clark et al. 2020: embeddings may be narrower than the rows
  albert,      ///< Lan et al. 2020: narrower embeddings, layers that share weights, no dropout of their result
  modernbert,  ///< Warner et al. 2024: rotary positions, local attention, gated units, norms before the sublayers
  nomic,       ///< Nussbaum et al. 2024: rotary positions, gated units, no biases in linear maps
  gte,         ///< Zhang et al. 2024: rotary positions, gated units
  deberta      ///< He et al. 2021: disentangled attention, no table of positions
};

/// The options that only families with rotary positions have. The defaults are those of ModernBERT-base.
struct RotaryConfig {
  bool norm_first = true;       ///< whether the norms stand before the sublayers, and one after the last layer
  double global_base = 160000;  ///< base of the rotary positions in layers where each token sees all others
  double local_base = 10000;    ///< base in the other layers
  Index global_every = 3;       ///< layer i sees all tokens if i is a multiple of it
  Index window = 64;            ///< the greatest distance between tokens that see each other in the other layers
  bool norm_bias = false;       ///< whether norms have biases
  bool attention_bias = false;  ///< whether the linear maps of the attention have biases
  bool ff_in_bias = false;      ///< whether the first linear maps of the feed-forward networks have biases
  bool ff_out_bias = false;     ///< whether the second ones have biases
  Gate gate = Gate::first;      ///< half of a feed-forward network's first map that passes through the activation
  double divisor = 1;           ///< of the frequencies (rotary_frequencies())
  bool head_bias = false;       ///< whether the first linear map of a head has one
  bool decoder_bias = true;     ///< whether the decoder of a masked language model has one; heddle's have
  double ff_dropout = 0;        ///< dropout in the feed-forward networks
  double cutoff = 2;            ///< initial weights of ModernBERT are at most this many deviations from 0
  bool pools_mean = false;      ///< whether a classifier reads the mean of a text's rows instead of the first one
  nn::Activation head_activation = nn::Activation::gelu;  ///< activation of the heads

  /// Compares all members.
  bool operator==(const RotaryConfig&) const = default;
};

/// The members of a configuration that only DeBERTa has. The defaults are those of deberta-v3-base.
struct DebertaConfig {
  Index buckets = 256;            ///< buckets of distances in each direction; 0: each distance has an embedding
  Index greatest_distance = 512;  ///< the distance from which on all share an embedding
  bool norms_distances = true;    ///< whether the embeddings of distances pass a norm
  double pooler_dropout = 0;      ///< dropout before the first linear map of a classifier
  nn::Activation pooler_activation = nn::Activation::gelu;  ///< between the linear maps of a classifier

  /// Compares all members.
  bool operator==(const DebertaConfig&) const = default;
};

/// The sizes and dropout probabilities of an encoder; the defaults are those of bert-base-uncased.
struct BertConfig {
  BertFamily family = BertFamily::bert;  ///< which of the models it is
  Index vocabulary = 30522;              ///< V, the number of tokens
  Index D = 768;                         ///< width of the rows
  Index layers = 12;                     ///< number of layers
  Index heads = 12;                      ///< attention heads of a layer
  Index ff_width = 3072;                 ///< width of the feed-forward networks
  Index positions = 512;                 ///< maximum number of tokens in a text
  Index types = 2;                       ///< token types; DistilBERT, MPNet and ModernBERT have none
  std::optional<Index> padding_id = 0;   ///< token whose embedding is not trained; RoBERTa needs one, MPNet 1
  nn::Activation activation = nn::Activation::gelu;  ///< activation of the feed-forward networks
  double eps = 1e-12;                                ///< constant added to the variance in the norms
  double deviation = 0.02;                           ///< standard deviation of the initial weights
  double dropout = 0.1;             ///< after the embeddings and sublayers, but not after all sublayers of each family
  double attention_dropout = 0.1;   ///< of the attention weights; in ModernBERT also after the attention
  double classifier_dropout = 0.1;  ///< dropout before the classifier
  double answer_dropout = 0.1;      ///< dropout before the answers of DistilBERT
  Index embedding_width = 0;        ///< of ELECTRA and ALBERT; 0 stands for D
  Index groups = 1;                 ///< of ALBERT: each has the weights of layers / groups layers
  Index inner_layers = 1;           ///< of ALBERT: layers that follow each other in each of `layers`
  RotaryConfig rotary = {};         ///< of ModernBERT, NomicBERT and GTE
  DebertaConfig deberta = {};       ///< of DeBERTa

  /// Returns E, the width of the embeddings, which a linear map widens to D.
  Index E() const { return embedding_width > 0 && has_narrow_embeddings() ? embedding_width : D; }
  /// Returns whether a linear map [D, E] stands between the embeddings and the layers: always in ALBERT.
  bool has_projection() const { return family == BertFamily::albert || E() != D; }
  /// Returns whether positions are rotary, so that there is no table of them.
  bool has_rotary() const {
    return family == BertFamily::modernbert || family == BertFamily::nomic || family == BertFamily::gte;
  }
  /// Returns whether embeddings of positions are added to those of words.
  bool has_position_table() const { return !has_rotary() && family != BertFamily::deberta; }
  /// Returns the row of the table of positions for the first token of a text. In RoBERTa and MPNet it follows that of
  /// padding_id.
  Index first_position() const { return counts_from_padding() ? padding_id.value_or(0) + 1 : 0; }
  /// Returns the rows of the table of positions.
  Index position_rows() const { return first_position() + positions; }
  /// Returns whether positions count from the row behind that of padding_id, over tokens other than padding.
  bool counts_from_padding() const { return family == BertFamily::roberta || family == BertFamily::mpnet; }
  /// Returns the number of layers that have weights.
  Index layers_with_weights() const { return family == BertFamily::albert ? groups * inner_layers : layers; }
  /// Returns the number of layers that a text passes.
  Index passes() const { return family == BertFamily::albert ? layers * inner_layers : layers; }
  /// Returns the layer with weights that computes pass i, for i from 0 to passes() - 1.
  Index layer_of_pass(Index i) const {
    if (family != BertFamily::albert) return i;
    const double layers_of_group = static_cast<double>(layers) / static_cast<double>(groups);  // as in transformers
    const auto group = static_cast<Index>(static_cast<double>(i / inner_layers) / layers_of_group);
    return group * inner_layers + i % inner_layers;
  }

 private:
  bool has_narrow_embeddings() const { return family == BertFamily::electra || family == BertFamily::albert; }
};

namespace detail {

// The form of a family: the names of its weights, which are those of transformers, and the places in which it differs
// from BERT.
struct FamilyForm {
  const char* name;                          // of the encoder in a model with a head
  const char* layers;                        // before the number of a layer
  const char *query, *key, *value, *out;     // of a layer's attention
  const char* attention_norm;                // after the attention
  const char *ff_in, *ff_out;                // of the feed-forward network
  const char* output_norm;                   // after it
  const char* pooler;                        // of an encoder without a head, in which nothing else reads it; or empty
  const char *dense, *classifier;            // of a classifier of texts
  const char *transform, *norm, *bias;       // of a masked language model
  const char *decoder, *decoder_bias;        // copies of the word embeddings and of the bias, which files may have
  bool has_types = true;                     // token types
  bool drops_attention = true;               // dropout after the attention
  bool drops_ff = true;                      // dropout after the feed-forward network
  bool drops_first_row = false;              // dropout before the first linear map of a classifier of texts
  enum { tanh, relu, gelu } between = tanh;  // between the linear maps of a classifier of texts
  bool decodes_with_gelu = false;            // in a masked language model, whatever the configuration says
  const char* words = "word_embeddings";     // of the embedding layer
  const char* embedding_norm = "LayerNorm";  // of the embedding layer; empty if the encoder has it
  const char* encoder_norm = "";             // the embedding layer's norm among the weights of the encoder
  const char* head_norm = "";                // behind `dense`, which all heads then have
  const char* answer = "qa_outputs";         // the linear map of a head of answers
  const char* ff_values = "";                // the second half of a gated network's first map, if it is a tensor apart
};

inline const FamilyForm& form_of(BertFamily family) {
  static constexpr FamilyForm bert{.name = "bert",
                                   .layers = "encoder.layer.",
                                   .query = "attention.self.query",
                                   .key = "attention.self.key",
                                   .value = "attention.self.value",
                                   .out = "attention.output.dense",
                                   .attention_norm = "attention.output.LayerNorm",
                                   .ff_in = "intermediate.dense",
                                   .ff_out = "output.dense",
                                   .output_norm = "output.LayerNorm",
                                   .pooler = "pooler.dense",
                                   .dense = "bert.pooler.dense",
                                   .classifier = "classifier",
                                   .transform = "cls.predictions.transform.dense",
                                   .norm = "cls.predictions.transform.LayerNorm",
                                   .bias = "cls.predictions.bias",
                                   .decoder = "cls.predictions.decoder.weight",
                                   .decoder_bias = "cls.predictions.decoder.bias"};
  static constexpr FamilyForm distilbert{.name = "distilbert",
                                         .layers = "transformer.layer.",
                                         .query = "attention.q_lin",
                                         .key = "attention.k_lin",
                                         .value = "attention.v_lin",
                                         .out = "attention.out_lin",
                                         .attention_norm = "sa_layer_norm",
                                         .ff_in = "ffn.lin1",
                                         .ff_out = "ffn.lin2",
                                         .output_norm = "output_layer_norm",
                                         .pooler = "",
                                         .dense = "pre_classifier",
                                         .classifier = "classifier",
                                         .transform = "vocab_transform",
                                         .norm = "vocab_layer_norm",
                                         .bias = "vocab_projector.bias",
                                         .decoder = "vocab_projector.weight",
                                         .decoder_bias = "",
                                         .has_types = false,
                                         .drops_attention = false,
                                         .between = FamilyForm::relu};
  static constexpr FamilyForm roberta = [] {
    FamilyForm form = bert;
    form.name = "roberta";
    form.dense = "classifier.dense";
    form.classifier = "classifier.out_proj";
    form.transform = "lm_head.dense";
    form.norm = "lm_head.layer_norm";
    form.bias = "lm_head.bias";
    form.decoder = "lm_head.decoder.weight";
    form.decoder_bias = "lm_head.decoder.bias";
    form.drops_first_row = true;
    form.decodes_with_gelu = true;
    return form;
  }();
  static constexpr FamilyForm mpnet = [] {
    FamilyForm form = roberta;
    form.name = "mpnet";
    form.query = "attention.attn.q";
    form.key = "attention.attn.k";
    form.value = "attention.attn.v";
    form.out = "attention.attn.o";
    form.attention_norm = "attention.LayerNorm";
    form.has_types = false;
    return form;
  }();
  static constexpr FamilyForm electra = [] {
    FamilyForm form = roberta;
    form.name = "electra";
    form.pooler = "";
    form.transform = "generator_predictions.dense";
    form.norm = "generator_predictions.LayerNorm";
    form.bias = "generator_lm_head.bias";
    form.decoder = "generator_lm_head.weight";
    form.decoder_bias = "";
    form.between = FamilyForm::gelu;
    return form;
  }();
  static constexpr FamilyForm albert{.name = "albert",
                                     .layers = "encoder.albert_layer_groups.",
                                     .query = "attention.query",
                                     .key = "attention.key",
                                     .value = "attention.value",
                                     .out = "attention.dense",
                                     .attention_norm = "attention.LayerNorm",
                                     .ff_in = "ffn",
                                     .ff_out = "ffn_output",
                                     .output_norm = "full_layer_layer_norm",
                                     .pooler = "pooler",
                                     .dense = "albert.pooler",
                                     .classifier = "classifier",
                                     .transform = "predictions.dense",
                                     .norm = "predictions.LayerNorm",
                                     .bias = "predictions.bias",
                                     .decoder = "predictions.decoder.weight",
                                     .decoder_bias = "predictions.decoder.bias",
                                     .drops_ff = false};
  static constexpr FamilyForm modernbert{.name = "model",
                                         .layers = "layers.",
                                         .query = "attn.Wqkv",  // and keys and values, in one matrix
                                         .key = "",
                                         .value = "",
                                         .out = "attn.Wo",
                                         .attention_norm = "attn_norm",
                                         .ff_in = "mlp.Wi",
                                         .ff_out = "mlp.Wo",
                                         .output_norm = "mlp_norm",
                                         .pooler = "",
                                         .dense = "head.dense",
                                         .classifier = "classifier",
                                         .transform = "head.dense",
                                         .norm = "head.norm",
                                         .bias = "decoder.bias",
                                         .decoder = "decoder.weight",
                                         .decoder_bias = "",
                                         .has_types = false,
                                         .words = "tok_embeddings",
                                         .embedding_norm = "norm",
                                         .head_norm = "head.norm",
                                         .answer = "classifier"};
  static constexpr FamilyForm nomic = [] {
    FamilyForm form = bert;
    form.name = "nomic_bert";
    form.layers = "encoder.layers.";
    form.query = "attn.Wqkv";  // and keys and values, in one matrix
    form.key = form.value = "";
    form.out = "attn.out_proj";
    form.attention_norm = "norm1";
    form.ff_in = "mlp.fc12";
    form.ff_values = "mlp.fc11";
    form.ff_out = "mlp.fc2";
    form.output_norm = "norm2";
    form.pooler = "";
    form.dense = "nomic_bert.pooler.dense";
    form.norm = "cls.predictions.transform.layer_norm";
    form.embedding_norm = "";
    form.encoder_norm = "emb_ln";
    return form;
  }();
  static constexpr FamilyForm gte = [] {
    FamilyForm form = bert;
    form.name = "gte";
    form.query = "attention.qkv_proj";  // and keys and values, in one matrix
    form.key = form.value = "";
    form.out = "attention.o_proj";
    form.attention_norm = "attn_ln";
    form.ff_in = "mlp.up_gate_proj";
    form.ff_out = "mlp.down_proj";
    form.output_norm = "mlp_ln";
    form.pooler = "";
    form.dense = "gte.pooler.dense";
    form.transform = "lm_head.dense";
    form.norm = "lm_head.norm";
    form.bias = "lm_head.decoder.bias";
    form.decoder = "lm_head.decoder.weight";
    form.decoder_bias = "";
    form.decodes_with_gelu = true;
    return form;
  }();
  static constexpr FamilyForm deberta = [] {
    FamilyForm form = bert;
    form.name = "deberta";
    form.query = "attention.self.query_proj";
    form.key = "attention.self.key_proj";
    form.value = "attention.self.value_proj";
    form.pooler = "";
    form.dense = "pooler.dense";
    return form;
  }();
  switch (family) {
    case BertFamily::distilbert: return distilbert;
    case BertFamily::roberta: return roberta;
    case BertFamily::mpnet: return mpnet;
    case BertFamily::electra: return electra;
    case BertFamily::albert: return albert;
    case BertFamily::modernbert: return modernbert;
    case BertFamily::nomic: return nomic;
    case BertFamily::gte: return gte;
    case BertFamily::deberta: return deberta;
    case BertFamily::bert: break;
  }
  return bert;
}

// Returns the name of a layer with weights in its encoder.
inline std::string layer_name(const BertConfig& config, Index i) {
  const std::string layers = form_of(config.family).layers;
  if (config.family != BertFamily::albert) return layers + std::to_string(i);
  return layers + std::to_string(i / config.inner_layers) + ".albert_layers." + std::to_string(i % config.inner_layers);
}

// Returns the name of the linear map that widens the embeddings.
inline const char* projection_name(BertFamily family) {
  return family == BertFamily::albert ? "encoder.embedding_hidden_mapping_in" : "embeddings_project";
}

// The distances of MPNet's bias, and its name.
inline constexpr Index mpnet_buckets = 32, mpnet_greatest_distance = 128;
inline constexpr const char* bias_name = "encoder.relative_attention_bias";

}  // namespace detail

/// Returns the name under which a model with a head holds its encoder, such as "bert", and "model" in ModernBERT.
inline const char* encoder_name(BertFamily family) { return detail::form_of(family).name; }

}  // namespace heddle::models
