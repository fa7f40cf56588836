// Model folders in the format of Hugging Face. The functions read the configurations of BERT, of its relatives
// (BertFamily) and of heddle's pre-norm encoder, and load and save their models.
#pragma once
#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>
#include <variant>

#include <heddle/io/weight_files.hpp>
#include <heddle/models/bert.hpp>
#include <heddle/models/pre_norm.hpp>
#include <heddle/text/folder_tokenizer.hpp>

namespace heddle::models {

/// What a classifier's logits are: the scores of classes of which a text has one, scores of labels of which a text has
/// any number, or values.
enum class Problem { single_label, multi_label, regression };

namespace detail {

// A model_type of transformers.
struct ModelType {
  const char* name;
  const char* class_prefix;  // the beginning of the names of its classes
  BertConfig absent;         // the values of members that a file does not have
};
inline constexpr BertConfig gte_defaults{.family = BertFamily::gte,
                                         .vocabulary = 250048,
                                         .positions = 8192,
                                         .types = 1,
                                         .padding_id = 1,
                                         .attention_dropout = 0,
                                         .rotary = {.norm_first = false,
                                                    .global_every = 1,
                                                    .norm_bias = true,
                                                    .attention_bias = true,
                                                    .ff_out_bias = true,
                                                    .gate = Gate::second,
                                                    .head_bias = true,
                                                    .ff_dropout = 0.1}};
// The first type of a family is that of a configuration without a file.
inline constexpr ModelType model_types[] = {
    {"bert", "Bert", {}},
    {"distilbert", "DistilBert", {.family = BertFamily::distilbert, .layers = 6, .classifier_dropout = 0.2}},
    {"roberta", "Roberta", {.family = BertFamily::roberta, .vocabulary = 50265, .padding_id = 1}},
    {"xlm-roberta", "XLMRoberta", {.family = BertFamily::roberta, .padding_id = 1}},
    {"camembert", "Camembert", {.family = BertFamily::roberta, .padding_id = 1}},
    {"mpnet", "MPNet", {.family = BertFamily::mpnet, .vocabulary = 30527, .padding_id = 1}},
    {"electra",
     "Electra",
     {.family = BertFamily::electra, .D = 256, .heads = 4, .ff_width = 1024, .embedding_width = 128}},
    {"albert",
     "Albert",
     {.family = BertFamily::albert,
      .vocabulary = 30000,
      .D = 4096,
      .heads = 64,
      .ff_width = 16384,
      .activation = nn::Activation::gelu_tanh,
      .dropout = 0,
      .attention_dropout = 0,
      .embedding_width = 128}},
    {"modernbert",
     "ModernBert",
     {.family = BertFamily::modernbert,
      .vocabulary = 50368,
      .layers = 22,
      .ff_width = 1152,
      .positions = 8192,
      .padding_id = 50283,
      .eps = 1e-5,
      .dropout = 0,
      .attention_dropout = 0,
      .classifier_dropout = 0}},
    {"nomic_bert",
     "NomicBert",
     {.family = BertFamily::nomic,
      .vocabulary = 30528,
      .positions = 2048,
      .activation = nn::Activation::silu,
      .dropout = 0,
      .attention_dropout = 0,
      .rotary = {.norm_first = false, .global_base = 1000, .global_every = 1, .norm_bias = true, .head_bias = true}}},
    {"gte", "Gte", gte_defaults},
    {"deberta-v2",
     "DebertaV2",
     {.family = BertFamily::deberta,
      .vocabulary = 128100,
      .D = 1536,
      .layers = 24,
      .heads = 24,
      .ff_width = 6144,
      .types = 0,
      .eps = 1e-7}},
    {"new", "Gte", gte_defaults}};  // the name of GTE before version 5 of transformers

// Returns the type of a name, or nullptr.
inline const ModelType* find_model_type(const std::string& name) {
  const auto found = std::find_if(std::begin(model_types), std::end(model_types),
                                  [&](const ModelType& type) { return name == type.name; });
  return found == std::end(model_types) ? nullptr : &*found;
}
// Returns the type of a model: that of the file, `json`, if it is one of the model's family.
inline const ModelType& model_type_of(BertFamily family, const nlohmann::json& json) {
  if (json.is_object())
    if (const auto given = json.find("model_type"); given != json.end() && given->is_string())
      if (const ModelType* const type = find_model_type(given->get<std::string>());
          type && type->absent.family == family)
        return *type;
  return *std::find_if(std::begin(model_types), std::end(model_types),
                       [&](const ModelType& type) { return type.absent.family == family; });
}

}  // namespace detail

/// The content of config.json.
struct PretrainedConfig {
  std::variant<BertConfig, PreNormConfig> sizes;  ///< the sizes of the model that the file describes
  std::vector<std::string> labels;                ///< the names of the classes
  nlohmann::json json = {};                       ///< all members of the file, so that saving keeps unknown ones
  std::optional<Problem> problem_type = {};       ///< what the file says about the classifier's logits

  /// Returns the sizes of a BERT or one of its relatives, otherwise nullptr.
  const BertConfig* bert() const { return std::get_if<BertConfig>(&sizes); }
  /// Returns the sizes of a pre-norm encoder, otherwise nullptr.
  const PreNormConfig* pre_norm() const { return std::get_if<PreNormConfig>(&sizes); }
  /// Returns the file's model_type: bert, distilbert, roberta, xlm-roberta, camembert, mpnet, electra, albert,
  /// modernbert, nomic_bert, gte, new, deberta-v2 or heddle-prenorm.
  std::string model_type() const {
    return bert() ? detail::model_type_of(bert()->family, json).name : "heddle-prenorm";
  }
  /// Returns whether the model has more than one token type, such as those of the two texts of a pair.
  bool has_types() const { return bert() && bert()->types > 1; }
  /// Returns what a classifier's logits are: without a problem_type, a single label is a value.
  Problem problem() const {
    return problem_type.value_or(labels.size() == 1 ? Problem::regression : Problem::single_label);
  }
  /// Returns the maximum number of tokens in a text.
  Index positions() const { return bert() ? bert()->positions : pre_norm()->positions; }
  /// Returns the number of tokens in the vocabulary.
  Index vocabulary() const { return bert() ? bert()->vocabulary : pre_norm()->vocabulary; }
};

namespace detail {

inline constexpr Index most_size = 1'000'000;  // products of sizes stay far below 2^63
inline constexpr Index most_tokens = std::numeric_limits<std::int32_t>::max();

inline nn::Activation read_activation(const io::JsonObject& config, const std::string& key, nn::Activation absent) {
  if (!config.has(key)) return absent;
  const std::string name = config.text(key);
  if (name == "gelu") return nn::Activation::gelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return nn::Activation::gelu_tanh;
  if (name == "relu") return nn::Activation::relu;
  if (name == "silu" || name == "swish") return nn::Activation::silu;
  fail<FileError>(config.file(), ": '", key, "' is ", io::quoted_name(name),
                  " but must be gelu, gelu_new, gelu_pytorch_tanh, relu, silu or swish");
}

inline void require_heads(const io::JsonObject& config, Index D, Index heads) {
  require<FileError>(D % heads == 0, config.file(), ": a width of ", D, " does not divide into ", heads, " heads");
}

// Reads a dropout probability in [0, 1), which kernel::DropoutRule rounds to a multiple of 1/65536.
inline double read_dropout(const io::JsonObject& config, const std::string& key, double absent) {
  const double p = config.number_or(key, absent, 0, 1);
  require<FileError>(p * 65536 + 0.5 < 65536, config.file(), ": '", key, "' is ", p,
                     ", which is rounded to 1 and drops every element");
  return p;
}

// Returns the token of padding. `c` has the vocabulary, and the token of a file that does not name it.
inline std::optional<Index> read_padding(const io::JsonObject& config, const BertConfig& c) {
  const auto require_known = [&](Index id) {
    require<FileError>(id < c.vocabulary, config.file(), ": 'vocab_size' is ", c.vocabulary, ", but 'pad_token_id' is ",
                       id, c.family == BertFamily::mpnet ? " in MPNet" : " by default");
    return id;
  };
  if (c.family == BertFamily::mpnet) return require_known(*c.padding_id);  // in transformers, whatever the file says
  const auto given = config.json().find("pad_token_id");
  const bool is_null = given != config.json().end() && given->is_null();
  if (c.family == BertFamily::roberta) {
    require<FileError>(!is_null, config.file(),
                       ": 'pad_token_id' is null but must be a token, because the positions of RoBERTa are counted "
                       "from it");
    return require_known(config.count_or("pad_token_id", *c.padding_id, 0, c.vocabulary - 1));
  }
  if (is_null) return std::nullopt;
  const Index id = require_known(config.count_or("pad_token_id", *c.padding_id, -c.vocabulary, c.vocabulary - 1));
  return id < 0 ? id + c.vocabulary : id;  // as torch.nn.Embedding
}

// The keys of config.json that differ between the families.
struct ConfigKeys {
  const char *D, *layers, *heads, *ff_width, *activation, *dropout, *attention_dropout;
  const char* classifier_dropout;  // nullptr in MPNet, where it is the dropout
};
inline ConfigKeys config_keys(BertFamily family) {
  if (family == BertFamily::distilbert)
    return {"dim",        "n_layers", "n_heads",           "hidden_dim",
            "activation", "dropout",  "attention_dropout", "seq_classif_dropout"};
  if (family == BertFamily::modernbert)
    return {"hidden_size",       "num_hidden_layers", "num_attention_heads", "intermediate_size",
            "hidden_activation", "embedding_dropout", "attention_dropout",   "classifier_dropout"};
  return {"hidden_size",
          "num_hidden_layers",
          "num_attention_heads",
          "intermediate_size",
          "hidden_act",
          "hidden_dropout_prob",
          "attention_probs_dropout_prob",
          family == BertFamily::mpnet     ? nullptr
          : family == BertFamily::albert  ? "classifier_dropout_prob"
          : family == BertFamily::deberta ? "cls_dropout"
                                          : "classifier_dropout"};
}

// Reads the base of rotary positions and the divisor of their frequencies, which all layers have.
inline void read_rotary_scale(const io::JsonObject& config, BertConfig& c) {
  const Index K = c.D / c.heads;
  const auto read = [&](const io::JsonObject& from, const char* kind_key) {
    const std::string kind = from.text_or(kind_key, from.text_or("type", "default"));
    require<FileError>(kind == "default" || kind == "linear" || kind == "ntk", config.file(), ": '", kind_key, "' is ",
                       io::quoted_name(kind), " but must be default, linear or ntk");
    if (kind == "default") return;
    const double factor = from.number("factor", 1, 1e6);
    if (from.has("mixed_b")) fail<FileError>(config.file(), ": 'mixed_b' is not null; heddle reads 'ntk' without it");
    c.rotary.divisor = kind == "linear" ? factor : std::pow(factor, 2.0 / static_cast<double>(K));
    if (kind == "ntk") c.rotary.global_base *= factor;
  };
  const auto read_base = [&](const io::JsonObject& from, const char* key) {
    c.rotary.global_base = from.number_or(key, c.rotary.global_base, 1, 1e12);
  };
  if (c.family == BertFamily::nomic) read_base(config, "rotary_emb_base");  // of its own program
  read_base(config, "rope_theta");
  // As in transformers, the first of them that is not empty counts.
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.has(key) || config.object(key).empty()) continue;
    const io::JsonObject own(config.object(key), config.file(), '\'' + std::string(key) + '\'');
    read_base(own, "rope_theta");
    return read(own, "rope_type");
  }
}

// Returns whether a member is a list with the option, or text that has it between bars, in upper or lower case.
inline bool has_option(const io::JsonObject& config, const char* key, std::string_view option) {
  if (!config.has(key)) return false;
  const nlohmann::json& member = config.at(key);
  if (member.is_array()) return std::find(member.begin(), member.end(), option) != member.end();
  std::istringstream parts(config.text_or(key, ""));
  for (std::string part; std::getline(parts, part, '|');) {
    std::string name;
    for (const char c : part)
      if (c != ' ') name += text::lower_ascii(c);
    if (name == option) return true;
  }
  return false;
}

// Reads what only DeBERTa has.
inline void read_deberta(const io::JsonObject& config, BertConfig& c) {
  DebertaConfig& d = c.deberta;
  const auto must_be = [&](const char* key, bool expected, bool absent) {
    require<FileError>(config.boolean_or(key, absent) == expected, config.file(), ": '", key, "' must be ",
                       expected ? "true" : "false", "; heddle reads DeBERTa with disentangled attention alone");
  };
  must_be("relative_attention", true, false);
  must_be("share_att_key", true, false);
  must_be("position_biased_input", false, true);
  require<FileError>(config.count_or("conv_kernel_size", 0, 0, most_size) == 0, config.file(),
                     ": 'conv_kernel_size' is not 0; heddle reads DeBERTa without convolutions");
  const auto must_equal = [&](const char* key, Index expected, const char* what) {
    const Index found = config.count_or(key, expected, 0, most_size);
    require<FileError>(found == expected, config.file(), ": '", key, "' is ", found, " but must be ", what, ", ",
                       expected);
  };
  must_equal("embedding_size", c.D, "'hidden_size'");
  must_equal("pooler_hidden_size", c.D, "'hidden_size'");
  must_equal("attention_head_size", c.D / c.heads, "'hidden_size' / 'num_attention_heads'");
  require<FileError>(has_option(config, "pos_att_type", "c2p") && has_option(config, "pos_att_type", "p2c"),
                     config.file(), ": 'pos_att_type' is ",
                     config.has("pos_att_type") ? io::printable(config.at("pos_att_type").dump(), 60) : "absent",
                     " but must have c2p and p2c");
  const auto or_none = [&](const char* key, Index none) {  // -1 stands for none, as in transformers
    if (config.has(key) && config.at(key) == -1) return none;
    return config.count_or(key, none, 0, most_size);
  };
  d.buckets = or_none("position_buckets", 0);
  d.greatest_distance = or_none("max_relative_positions", 0);
  if (d.greatest_distance == 0) d.greatest_distance = c.positions;
  require<FileError>(
      d.buckets == 0 || (d.buckets >= 4 && d.buckets % 2 == 0 && d.buckets / 2 + 2 <= d.greatest_distance),
      config.file(), ": 'position_buckets' is ", d.buckets, " but must be even and from 4 to ",
      2 * (d.greatest_distance - 2), ", for distances up to ", d.greatest_distance);
  d.norms_distances = has_option(config, "norm_rel_ebd", "layer_norm");
  d.pooler_dropout = read_dropout(config, "pooler_dropout", d.pooler_dropout);
  d.pooler_activation = read_activation(config, "pooler_hidden_act", d.pooler_activation);
}

// Refuses what folders of NomicBERT and GTE before version 5 of transformers may have and heddle does not.
inline void require_like_nomic(const io::JsonObject& config) {
  const auto must_be = [&](const char* key, const nlohmann::json& expected) {
    if (!config.has(key)) return;
    require<FileError>(config.at(key) == expected, config.file(), ": '", key, "' is ",
                       io::printable(config.at(key).dump(), 60), " but must be ", expected.dump());
  };
  for (const char* key : {"prenorm", "use_rms_norm", "rotary_emb_interleaved", "qkv_proj_bias", "mlp_fc1_bias",
                          "mlp_fc2_bias", "causal", "parallel_block", "logn_attention_scale"})
    must_be(key, false);
  must_be("rotary_emb_fraction", 1.0);
  must_be("activation_function", "swiglu");
  must_be("layer_norm_type", "layer_norm");
  must_be("position_embedding_type", "rope");
  require<FileError>(!config.has("rotary_scaling_factor"), config.file(),
                     ": 'rotary_scaling_factor' is not null; heddle reads rotary positions that do not depend on the "
                     "length of a text");
}

inline void require_rotary_heads(const io::JsonObject& config, const BertConfig& c) {
  const Index K = c.D / c.heads;
  require<FileError>(K % 2 == 0 && K <= 2 * kernel::RotaryFrequencies::most, config.file(), ": heads are ", K,
                     " wide; rotary positions need an even width of at most 512");
}

// Returns how often a layer of ModernBERT sees all tokens: every layer whose number is a multiple of the result.
inline Index read_global_every(const io::JsonObject& config, Index layers) {
  if (!config.has("layer_types")) return config.count_or("global_attn_every_n_layers", 3, 1, most_size);
  const nlohmann::json& types = config.array("layer_types");
  const auto is = [&](std::size_t layer, const char* type) { return types[layer] == type; };
  require<FileError>(static_cast<Index>(types.size()) == layers, config.file(), ": 'layer_types' has ", types.size(),
                     " members; the model has ", layers, " layers");
  std::size_t every = 1;
  while (every < types.size() && !is(every, "full_attention")) ++every;
  for (std::size_t i = 0; i < types.size(); ++i)
    require<FileError>(is(i, i % every ? "sliding_attention" : "full_attention"), config.file(), ": 'layer_types' has ",
                       io::printable(types[i].dump(), 60), " for layer ", i,
                       "; heddle reads 'full_attention' for each n-th layer from 0 on, and 'sliding_attention' for the "
                       "others");
  return static_cast<Index>(every);
}

// Returns the base of the rotary positions of one type of layers.
inline double read_rotary_base(const io::JsonObject& config, const char* type, const char* old_key, double absent) {
  const auto base = [&](const io::JsonObject& from, const char* key) { return from.number_or(key, absent, 1, 1e12); };
  if (!config.has("rope_parameters")) return base(config, old_key);
  const io::JsonObject all(config.object("rope_parameters"), config.file(), "'rope_parameters'");
  if (!all.has(type)) return base(config, old_key);
  const io::JsonObject own(all.object(type), config.file(), '\'' + std::string(type) + "' of 'rope_parameters'");
  const std::string kind = own.text_or("rope_type", own.text_or("type", "default"));  // the second is the older name
  require<FileError>(kind == "default", config.file(), ": 'rope_type' is ", io::quoted_name(kind),
                     " but must be 'default'");
  return own.has("rope_theta") ? base(own, "rope_theta") : base(config, old_key);
}

// Reads what only ModernBERT has.
inline void read_modern(const io::JsonObject& config, BertConfig& c) {
  RotaryConfig& m = c.rotary;
  m.ff_dropout = read_dropout(config, "mlp_dropout", m.ff_dropout);
  m.head_activation = read_activation(config, "classifier_activation", m.head_activation);
  m.norm_bias = config.boolean_or("norm_bias", m.norm_bias);
  m.attention_bias = config.boolean_or("attention_bias", m.attention_bias);
  m.ff_in_bias = m.ff_out_bias = config.boolean_or("mlp_bias", m.ff_in_bias);
  m.head_bias = config.boolean_or("classifier_bias", m.head_bias);
  m.decoder_bias = config.boolean_or("decoder_bias", m.decoder_bias);
  constexpr double cutoff_of_null = 3;  // as in transformers
  m.cutoff = config.json().contains("initializer_cutoff_factor")
                 ? config.number_or("initializer_cutoff_factor", cutoff_of_null, 0, 1e30)
                 : m.cutoff;
  const std::string pooling = config.text_or("classifier_pooling", "cls");
  require<FileError>(pooling == "cls" || pooling == "mean", config.file(), ": 'classifier_pooling' is ",
                     io::quoted_name(pooling), " but must be cls or mean");
  m.pools_mean = pooling == "mean";
  require<FileError>(!config.has("rope_scaling"), config.file(),
                     ": 'rope_scaling' is not null; heddle reads rotary positions without scaling");
  m.global_base = read_rotary_base(config, "full_attention", "global_rope_theta", m.global_base);
  m.local_base = read_rotary_base(config, "sliding_attention", "local_rope_theta", m.local_base);
  m.global_every = read_global_every(config, c.layers);
  m.window = config.count_or("local_attention", 2 * m.window, 1, most_size) / 2;
}

// Returns the sizes in a file of the given type.
inline BertConfig read_bert_config(const io::JsonObject& config, const ModelType& type) {
  BertConfig c = type.absent;
  const ConfigKeys keys = config_keys(c.family);
  const auto read_size = [&](Index& size, const char* key, Index most = most_size) {
    size = config.count_or(key, size, 1, most);
  };
  const auto read_probability = [&](double& p, const char* key) { p = read_dropout(config, key, p); };
  const bool is_distilbert = c.family == BertFamily::distilbert, is_modern = c.family == BertFamily::modernbert;
  const std::string position_type = config.text_or("position_embedding_type", "absolute");
  require<FileError>(position_type == "absolute" || c.has_rotary(), config.file(), ": 'position_embedding_type' is ",
                     io::quoted_name(position_type), " but must be 'absolute'");
  require<FileError>(!config.boolean_or("is_decoder", false), config.file(),
                     ": 'is_decoder' is true; heddle reads encoders");
  require<FileError>(!config.boolean_or("is_causal", false), config.file(),
                     ": 'is_causal' is true; heddle reads encoders");
  read_size(c.vocabulary, "vocab_size", most_tokens);
  const bool has_old_names = c.family == BertFamily::nomic && config.has("n_embd");
  read_size(c.D, has_old_names ? "n_embd" : keys.D);
  read_size(c.layers, has_old_names ? "n_layer" : keys.layers);
  read_size(c.heads, has_old_names ? "n_head" : keys.heads);
  read_size(c.ff_width, has_old_names ? "n_inner" : keys.ff_width);
  Index rows = c.positions;
  read_size(rows, has_old_names ? "n_positions" : "max_position_embeddings");
  c.padding_id = read_padding(config, c);
  c.positions = rows - c.first_position();
  require<FileError>(c.positions > 0, config.file(), ": 'max_position_embeddings' is ", rows,
                     ", which leaves no position for a token: positions are counted from 'pad_token_id', ",
                     c.padding_id.value_or(0), ", plus 1");
  if (c.family == BertFamily::gte || c.family == BertFamily::deberta)
    c.types = config.count_or("type_vocab_size", c.types, 0, most_size);
  else if (form_of(c.family).has_types)
    read_size(c.types, "type_vocab_size");
  else
    c.types = 0;
  c.activation = read_activation(config, keys.activation, c.activation);
  if (!is_distilbert)
    c.eps = config.number_or(is_modern       ? "norm_eps"
                             : has_old_names ? "layer_norm_epsilon"
                                             : "layer_norm_eps",
                             c.eps, 0, 1);
  c.deviation = config.number_or("initializer_range", c.deviation, 0, 100);
  read_probability(c.dropout, has_old_names ? "resid_pdrop" : keys.dropout);
  read_probability(c.attention_dropout, has_old_names ? "attn_pdrop" : keys.attention_dropout);
  c.answer_dropout = is_distilbert ? read_dropout(config, "qa_dropout", c.answer_dropout) : 0;
  if (!is_distilbert && !is_modern && c.family != BertFamily::albert) c.classifier_dropout = c.dropout;
  if (keys.classifier_dropout) read_probability(c.classifier_dropout, keys.classifier_dropout);
  if (c.embedding_width > 0) read_size(c.embedding_width, "embedding_size");
  if (c.family == BertFamily::albert) {
    c.groups = config.count_or("num_hidden_groups", c.groups, 1, c.layers);
    read_size(c.inner_layers, "inner_group_num");
  }
  if (c.family == BertFamily::mpnet)
    config.count_or("relative_attention_num_buckets", mpnet_buckets, mpnet_buckets, mpnet_buckets);
  require_heads(config, c.D, c.heads);
  if (c.family == BertFamily::deberta) read_deberta(config, c);
  if (c.has_rotary()) require_rotary_heads(config, c);
  if (is_modern) {
    read_modern(config, c);
  } else if (c.has_rotary()) {
    require_like_nomic(config);
    config.count_or("head_dim", c.D / c.heads, c.D / c.heads, c.D / c.heads);
    read_rotary_scale(config, c);
    if (c.family == BertFamily::gte) c.rotary.ff_dropout = c.dropout;
  }
  return c;
}

inline PreNormConfig read_pre_norm_config(const io::JsonObject& config) {
  PreNormConfig c;
  c.vocabulary = config.count("vocab_size", 1, most_tokens);
  c.D = config.count("hidden_size", 1, most_size);
  c.layers = config.count("num_hidden_layers", 1, most_size);
  c.heads = config.count("num_attention_heads", 1, most_size);
  c.ff_width = config.count("intermediate_size", 1, most_size);
  c.positions = config.count("max_position_embeddings", 1, most_size);
  c.embedding_dropout = read_dropout(config, "embedding_dropout_prob", c.embedding_dropout);
  c.dropout = read_dropout(config, "hidden_dropout_prob", c.dropout);
  require_heads(config, c.D, c.heads);
  return c;
}

// Returns the labels of id2label. Without it, returns LABEL_0, LABEL_1 and so on: num_labels of them, which
// defaults to 2.
inline std::vector<std::string> read_labels(const io::JsonObject& config) {
  std::vector<std::string> labels;
  constexpr Index most_classes = 100'000;
  if (!config.has("id2label")) {
    const Index count = config.count_or("num_labels", 2, 1, most_classes);
    for (Index i = 0; i < count; ++i) labels.push_back("LABEL_" + std::to_string(i));
    return labels;
  }
  const io::JsonObject names(config.object("id2label"), config.file(), "'id2label'");
  std::set<std::string> distinct;
  for (std::size_t i = 0; i < names.json().size(); ++i) {
    const std::string key = std::to_string(i);
    require<FileError>(names.has(key), config.file(), ": 'id2label' has ", names.json().size(), " members, but no '",
                       key, "'");
    if (!names.at(key).is_string())
      fail<FileError>(config.file(), ": '", key, "' of 'id2label' is ", io::printable(names.at(key).dump(), 60),
                      " but must be a string");
    const std::string label = names.text(key);
    require<FileError>(distinct.insert(label).second, config.file(), ": 'id2label' has ", io::quoted_name(label),
                       " twice");
    labels.push_back(label);
  }
  require<FileError>(!labels.empty(), config.file(), ": 'id2label' is empty");
  return labels;
}

// Returns the problem that a file names.
inline std::optional<Problem> read_problem(const io::JsonObject& config) {
  if (!config.has("problem_type")) return std::nullopt;
  const std::string name = config.text("problem_type");
  for (const auto& [problem, of_transformers] : {std::pair{Problem::single_label, "single_label_classification"},
                                                 {Problem::multi_label, "multi_label_classification"},
                                                 {Problem::regression, "regression"}})
    if (name == of_transformers) return problem;
  fail<FileError>(config.file(), ": 'problem_type' is ", io::quoted_name(name),
                  " but must be single_label_classification, multi_label_classification or regression");
}

// An encoder under the name that it has in a classifier.
template <class T>
struct NamedEncoder {
  BertEncoder<T>& encoder;
  static void visit(auto& self, auto&& f) { f(encoder_name(self.encoder.config.family), self.encoder); }
};

// Returns the function that maps the name of a tensor in a folder to its name in the model. It puts "bert.",
// "distilbert." and so on before the names of an encoder without a model head, and renames gamma and beta of old
// folders to weight and bias. The prefixes "new." and "bert." of older programs for GTE and NomicBERT become those of
// transformers. It returns an empty name for buffers of positions, which are left out.
inline auto bert_names(const io::WeightFiles& files, BertFamily family) {
  const std::string prefix = std::string(encoder_name(family)) + '.';
  const std::string head = std::string(form_of(family).dense) + '.';
  const bool bare = files.has("embeddings." + std::string(form_of(family).words) + ".weight");
  return [=](const std::string& stored) -> std::string {
    std::string name = stored;
    if (name.ends_with("embeddings.position_ids") || name.ends_with("inv_freq")) return "";
    const std::string_view older = family == BertFamily::gte ? "new." : "bert.";
    const bool has_older = family == BertFamily::gte || family == BertFamily::nomic;
    if (has_older && name.starts_with(older)) name.replace(0, older.size(), prefix);
    const auto replace_end = [&](std::string_view end, const char* by) {
      if (name.ends_with("LayerNorm." + std::string(end))) name.replace(name.size() - end.size(), end.size(), by);
    };
    replace_end("gamma", "weight");
    replace_end("beta", "bias");
    if (bare)
      for (const char* part : {"embeddings.", "embeddings_project.", "emb_ln.", "encoder.", "transformer.", "pooler.",
                               "layers.", "final_norm."})
        if (name.starts_with(part) && !name.starts_with(head)) return prefix + name;
    return name;
  };
}

}  // namespace detail

/// Parses the content of a config.json; `path` is its name in messages. @throws FileError that names the file if it is
/// not valid JSON, does not describe a model that heddle has, or has an invalid value.
inline PretrainedConfig parse_config(std::string content, const std::string& path) {
  const io::JsonFile file(std::move(content), path);
  const io::JsonObject config = file.object();
  const std::string name = config.text("model_type");
  const detail::ModelType* const type = detail::find_model_type(name);
  require<FileError>(type || name == "heddle-prenorm", config.file(), ": 'model_type' is ", io::quoted_name(name),
                     "; heddle reads bert, distilbert, roberta, xlm-roberta, camembert, mpnet, electra, albert, "
                     "modernbert, nomic_bert, gte, new, deberta-v2 and heddle-prenorm");
  PretrainedConfig c{BertConfig(), detail::read_labels(config), config.json(), detail::read_problem(config)};
  if (type)
    c.sizes = detail::read_bert_config(config, *type);
  else
    c.sizes = detail::read_pre_norm_config(config);
  return c;
}
/// Reads config.json of a folder. @throws FileError as parse_config() does, and if the folder does not exist or the
/// file cannot be read.
inline PretrainedConfig read_config(const std::string& folder) {
  require<FileError>(io::is_folder(folder), io::printable(folder), ": is not a folder");
  const std::string path = folder + "/config.json";
  return parse_config(io::read_file(path), path);
}

/// A classifier on a BERT, one of its relatives or a pre-norm encoder. Exactly one of the two members holds it; both
/// types have forward().
template <Floating T = float>
struct SequenceClassifier {
  std::optional<BertClassifier<T>> bert;         ///< on a BERT or one of its relatives; otherwise empty
  std::optional<PreNormClassifier<T>> pre_norm;  ///< a pre-norm classifier; otherwise empty

  /// Makes the model that a configuration describes, with new weights. @throws ShapeError and Error as the models'
  /// constructors do.
  SequenceClassifier(const PretrainedConfig& config, Random& random) {
    const auto classes = static_cast<Index>(config.labels.size());
    if (config.bert())
      bert.emplace(*config.bert(), classes, random);
    else
      pre_norm.emplace(*config.pre_norm(), classes, random);
  }
  /// Copies the members of `other` for clone().
  SequenceClassifier(const SequenceClassifier& other, Cloning& c) : bert(c(other.bert)), pre_norm(c(other.pre_norm)) {}

  /// Draws the weights of the layers after the encoder.
  void draw_head(Random& random) { bert ? bert->draw_head(random) : pre_norm->draw_head(random); }

  /// Returns the logits of the classes. @throws IndexError, ShapeError and Error as the models do.
  template <class A = T>
  Tensor<A> forward(const Tensor<int>& ids, const Sequences& sequences,
                    const ForwardOptions<A>& options = {}) const {  // [N] to [B, C]
    return bert ? bert->template forward<A>(ids, sequences, options)
                : pre_norm->template forward<A>(ids, sequences, options);
  }

  /// Visits the members.
  static void visit(auto& self, auto&& f) {
    f("", self.bert);
    f("", self.pre_norm);
  }
};

/// Compares the sizes of a configuration with the weights of its folder, so that no memory is allocated for a model
/// that the weights do not fit. @throws FileError that names the weight, and as io::WeightFiles does.
inline void require_sizes(const PretrainedConfig& config, const std::string& folder) {
  const io::WeightFiles files(folder);
  const auto check = [&](const io::WeightSource& source, const std::string& name, const Shape& expected) {
    const auto found = source.tensors.find(name);
    require<FileError>(found != source.tensors.end(), io::printable(source.name),
                       ": does not hold the weights of this model; missing ", io::quoted_name(name));
    const Shape& shape = found->second.tensor->shape;
    require<FileError>(shape == expected, io::printable(source.name),
                       ": does not hold the weights of this model; mismatched ", io::quoted_name(name), ' ', shape,
                       " for ", expected);
  };
  if (const PreNormConfig* c = config.pre_norm()) {
    const io::WeightSource source = files.weights([](const std::string& name) { return name; });
    check(source, "encoder.embeddings.token_embeddings.weight", {c->vocabulary, c->D});
    check(source, "encoder.embeddings.position_embeddings.weight", {c->positions, c->D});
    for (Index layer = 0; layer < c->layers; ++layer) {
      const std::string name = "encoder.layers." + std::to_string(layer);
      check(source, name + ".attention.heads.0.q.weight", {c->D / c->heads, c->D});
      check(source, name + ".feed_forward.linear1.weight", {c->ff_width, c->D});
    }
    return;
  }
  const BertConfig& b = *config.bert();
  const detail::FamilyForm& form = detail::form_of(b.family);
  const std::string encoder = std::string(form.name) + '.';
  const io::WeightSource source = files.weights(detail::bert_names(files, b.family));
  check(source, encoder + "embeddings." + form.words + ".weight", {b.vocabulary, b.E()});
  if (b.has_position_table())
    check(source, encoder + "embeddings.position_embeddings.weight", {b.position_rows(), b.E()});
  if (b.types > 0) check(source, encoder + "embeddings.token_type_embeddings.weight", {b.types, b.E()});
  if (b.has_projection()) check(source, encoder + detail::projection_name(b.family) + ".weight", {b.D, b.E()});
  for (Index layer = 0; layer < b.layers_with_weights(); ++layer) {
    const std::string name = encoder + detail::layer_name(b, layer) + '.';
    const bool has_one_product = !*form.key, has_gates_beside = b.has_rotary() && !*form.ff_values;
    check(source, name + form.query + ".weight", {has_one_product ? 3 * b.D : b.D, b.D});
    check(source, name + form.ff_in + ".weight", {has_gates_beside ? 2 * b.ff_width : b.ff_width, b.D});
  }
}

/// Checks that a classifier's problem fits the number of its labels. @throws FileError for a single label among which
/// one would have to be chosen.
inline void require_problem(const PretrainedConfig& config, const std::string& folder) {
  require<FileError>(
      config.problem() != Problem::single_label || config.labels.size() >= 2, io::printable(folder + "/config.json"),
      ": has one class, but 'problem_type' is \"single_label_classification\"; a classifier has at least "
      "two");
}

/// Makes a model to load weights into. No weights are drawn: linear maps and embeddings are uninitialized (nn::NoInit).
template <class Model, class Config>
Model make_without_values(const Config& config) {
  const nn::NoInit undrawn;
  Random unused(0);
  return Model(config, unused);
}

/// The treatment of a missing model head: an error, or new weights.
enum class MissingHead { refused, drawn };

namespace detail {
// Returns the function that tells which weights a folder may lack: those of the head, which is all but the encoder.
inline auto may_miss_head(const std::string& encoder, MissingHead head) {
  return [=](const std::string& name) {
    const bool is_head = !name.starts_with(encoder + '.') || name.starts_with(encoder + ".pooler.");
    return head == MissingHead::drawn && is_head;
  };
}
inline auto may_miss_head(BertFamily family, MissingHead head) { return may_miss_head(encoder_name(family), head); }
}  // namespace detail

/// Reads a classifier's weights from a folder. If `head` is MissingHead::drawn, weights of the head that the folder
/// does not have keep their values: call draw_head() first if the model has no values. @throws FileError that lists the
/// missing, mismatched and unexpected names, if a weight is missing or of another shape.
template <class T>
io::LoadReport load_pretrained(SequenceClassifier<T>& model, const std::string& folder,
                               MissingHead head = MissingHead::refused) {
  const io::WeightFiles files(folder);
  if (!model.bert)
    return io::load(model, files.weights([](const std::string& name) { return name; }),
                    detail::may_miss_head("encoder", head));
  const BertFamily family = model.bert->config().family;
  return io::load(model, files.weights(detail::bert_names(files, family)), detail::may_miss_head(family, head));
}
/// Reads an encoder's weights from a folder with any head or none. @throws FileError as load_pretrained() does for a
/// classifier.
template <class T>
void load_pretrained(BertEncoder<T>& model, const std::string& folder) {
  const io::WeightFiles files(folder);
  detail::NamedEncoder<T> named{model};
  io::load(named, files.weights(detail::bert_names(files, model.config.family)));
}
/// Reads the weights of a model with a head on each token from a folder. If `head` is MissingHead::drawn, weights of
/// the head that the folder does not have keep their values. @throws FileError as load_pretrained() does for a
/// classifier.
template <class T>
io::LoadReport load_pretrained(BertTokenClassifier<T>& model, const std::string& folder,
                               MissingHead head = MissingHead::refused) {
  const io::WeightFiles files(folder);
  const BertFamily family = model.config().family;
  return io::load(model, files.weights(detail::bert_names(files, family)), detail::may_miss_head(family, head));
}
namespace detail {
// Returns whether two tensors of a file have the same values, or one of them is not in the file.
inline bool are_tied(const io::WeightSource& source, const std::string& first, const std::string& second) {
  const auto one = source.tensors.find(first), other = source.tensors.find(second);
  if (one == source.tensors.end() || other == source.tensors.end()) return true;
  const io::StoredTensor &a = one->second, &b = other->second;
  return a.tensor->dtype == b.tensor->dtype && a.tensor->shape == b.tensor->shape &&
         a.file->bytes(*a.tensor) == b.file->bytes(*b.tensor);
}
}  // namespace detail

/// Reads a masked language model's weights from a folder. If `head` is MissingHead::drawn, weights of the head that the
/// folder does not have keep their values. @throws FileError as load_pretrained() does for a classifier, for a decoder
/// without bias or with a matrix other than the word embeddings, and for two biases of the decoder that differ.
template <class T>
io::LoadReport load_pretrained(BertMaskedLm<T>& model, const std::string& folder,
                               MissingHead head = MissingHead::refused) {
  const io::WeightFiles files(folder);
  const BertFamily family = model.config().family;
  const detail::FamilyForm& names = detail::form_of(family);
  require<FileError>(model.config().rotary.decoder_bias, io::printable(folder + "/config.json"),
                     ": 'decoder_bias' is false; heddle reads masked language models whose decoder has a bias");
  const auto rename = detail::bert_names(files, family);
  const io::WeightSource stored = files.weights(rename);
  require<FileError>(
      detail::are_tied(stored, std::string(names.name) + ".embeddings." + names.words + ".weight", names.decoder),
      io::printable(stored.name), ": '", names.decoder,
      "' differs from the word embeddings; heddle reads models whose decoder is their word embeddings");
  require<FileError>(detail::are_tied(stored, names.bias, names.decoder_bias), io::printable(stored.name), ": '",
                     names.decoder_bias, "' differs from '", names.bias, "', which is the same bias");
  // Some programs store the decoder's matrix and bias a second time, or the bias under the other name only.
  const bool has_bias = stored.tensors.contains(names.bias);
  const auto without_decoder = [&](const std::string& name) -> std::string {
    const std::string renamed = rename(name);
    if (renamed.empty() || renamed == names.decoder) return "";
    if (renamed == names.decoder_bias) return has_bias ? "" : names.bias;
    return renamed;
  };
  return io::load(model, files.weights(without_decoder), detail::may_miss_head(family, head));
}

namespace detail {

// Sets a member to the name of an activation, unless it has another name of the same function.
inline void set_activation(nlohmann::json& json, const char* key, nn::Activation activation) {
  const char* const names[] = {"gelu", "gelu_new", "relu", "silu"};
  const auto has = [&](const char* name) { return json.contains(key) && json[key] == name; };
  const bool is_same_function = (activation == nn::Activation::gelu_tanh && has("gelu_pytorch_tanh")) ||
                                (activation == nn::Activation::silu && has("swish"));
  if (!is_same_function) json[key] = names[static_cast<std::size_t>(activation)];
}

inline void set_sizes(nlohmann::json& json, const PreNormConfig& c) {
  json["vocab_size"] = c.vocabulary;
  json["hidden_size"] = c.D;
  json["num_hidden_layers"] = c.layers;
  json["num_attention_heads"] = c.heads;
  json["intermediate_size"] = c.ff_width;
  json["max_position_embeddings"] = c.positions;
  json["embedding_dropout_prob"] = c.embedding_dropout;
  json["hidden_dropout_prob"] = c.dropout;
}

// Sets what only ModernBERT has.
inline void set_modern(nlohmann::json& json, const BertConfig& b) {
  const RotaryConfig& m = b.rotary;
  json["norm_eps"] = b.eps;
  json["mlp_dropout"] = m.ff_dropout;
  set_activation(json, "classifier_activation", m.head_activation);
  json["norm_bias"] = m.norm_bias;
  json["attention_bias"] = m.attention_bias;
  json["mlp_bias"] = m.ff_in_bias;
  json["classifier_bias"] = m.head_bias;
  json["decoder_bias"] = m.decoder_bias;
  json["initializer_cutoff_factor"] = m.cutoff;
  json["classifier_pooling"] = m.pools_mean ? "mean" : "cls";
  const bool is_odd = json.contains("local_attention") && json["local_attention"] == 2 * m.window + 1;
  json["local_attention"] = 2 * m.window + (is_odd || m.window == 0);
  // Members of version 5 of transformers stay if they say the same.
  const auto says = [&](const char* member, auto&& is_same) {
    const io::JsonObject members(json, "");
    try {
      return members.has(member) && is_same(members);
    } catch (const FileError&) {
      return false;
    }
  };
  if (!says("layer_types", [&](const io::JsonObject& o) { return read_global_every(o, b.layers) == m.global_every; })) {
    json.erase("layer_types");
    json["global_attn_every_n_layers"] = m.global_every;
  }
  if (!says("rope_parameters", [&](const io::JsonObject& o) {
        return read_rotary_base(o, "full_attention", "global_rope_theta", 0) == m.global_base &&
               read_rotary_base(o, "sliding_attention", "local_rope_theta", 0) == m.local_base;
      })) {
    json.erase("rope_parameters");
    json["global_rope_theta"] = m.global_base;
    json["local_rope_theta"] = m.local_base;
  }
}

// Sets the rotary positions of NomicBERT and GTE, as version 5 of transformers reads them.
inline void set_rotary_scale(nlohmann::json& json, const BertConfig& b) {
  for (const char* old : {"rope_theta", "rope_scaling", "rotary_emb_base", "auto_map", "n_embd", "n_layer", "n_head",
                          "n_inner", "n_positions", "layer_norm_epsilon", "embd_pdrop", "resid_pdrop", "attn_pdrop"})
    json.erase(old);
  json["rope_parameters"] = {{"rope_theta", b.rotary.global_base}, {"rope_type", "default"}};
  if (b.rotary.divisor == 1) return;
  json["rope_parameters"]["rope_type"] = "linear";
  json["rope_parameters"]["factor"] = b.rotary.divisor;
}

// Sets what only DeBERTa has.
inline void set_deberta(nlohmann::json& json, const BertConfig& b) {
  const DebertaConfig& d = b.deberta;
  json["relative_attention"] = json["share_att_key"] = true;
  json["legacy"] = true;  // the names of a masked language model's head
  json["position_biased_input"] = false;
  json["pos_att_type"] = {"p2c", "c2p"};
  json["position_buckets"] = d.buckets > 0 ? d.buckets : -1;
  json["max_relative_positions"] = d.greatest_distance == b.positions ? -1 : d.greatest_distance;
  json["norm_rel_ebd"] = d.norms_distances ? "layer_norm" : "none";
  json["pooler_hidden_size"] = b.D;
  json["pooler_dropout"] = d.pooler_dropout;
  set_activation(json, "pooler_hidden_act", d.pooler_activation);
}

inline void set_sizes(nlohmann::json& json, const BertConfig& b) {
  const ConfigKeys keys = config_keys(b.family);
  json["vocab_size"] = b.vocabulary;
  json[keys.D] = b.D;
  json[keys.layers] = b.layers;
  json[keys.heads] = b.heads;
  json[keys.ff_width] = b.ff_width;
  json["max_position_embeddings"] = b.position_rows();
  json["initializer_range"] = b.deviation;
  set_activation(json, keys.activation, b.activation);
  json[keys.attention_dropout] = b.attention_dropout;
  if (b.family != BertFamily::mpnet)
    json["pad_token_id"] = b.padding_id ? nlohmann::json(*b.padding_id) : nlohmann::json();
  json[keys.dropout] = b.dropout;
  if (keys.classifier_dropout) json[keys.classifier_dropout] = b.classifier_dropout;
  if (b.family == BertFamily::modernbert) return set_modern(json, b);
  if (b.has_rotary()) set_rotary_scale(json, b);
  if (b.family == BertFamily::deberta) set_deberta(json, b);
  if (b.family == BertFamily::distilbert)
    json["qa_dropout"] = b.answer_dropout;
  else
    json["layer_norm_eps"] = b.eps;
  if (form_of(b.family).has_types) json["type_vocab_size"] = b.types;
  if (b.family == BertFamily::electra || b.family == BertFamily::albert) json["embedding_size"] = b.E();
  if (b.family == BertFamily::albert) {
    json["num_hidden_groups"] = b.groups;
    json["inner_group_num"] = b.inner_layers;
  }
}

}  // namespace detail

/// Returns the content of config.json for a model that is saved as `architecture`, such as
/// "BertForSequenceClassification".
inline nlohmann::json to_json(const PretrainedConfig& config, const std::string& architecture) {
  nlohmann::json json = config.json.is_object() ? config.json : nlohmann::json::object();
  json.erase("torch_dtype");  // the older name of dtype
  json["dtype"] = "float32";
  json["architectures"] = {architecture};
  json["model_type"] = config.model_type() == "new" ? "gte" : config.model_type();
  std::visit([&](const auto& sizes) { detail::set_sizes(json, sizes); }, config.sizes);
  json.erase("id2label");
  json.erase("label2id");
  json.erase("num_labels");
  for (std::size_t i = 0; i < config.labels.size(); ++i) {
    json["id2label"][std::to_string(i)] = config.labels[i];
    json["label2id"][config.labels[i]] = i;
  }
  return json;
}

namespace detail {
// Returns the beginning of the names of the classes that a library has for a kind of model.
inline std::string class_prefix(const PretrainedConfig& config) {
  return config.bert() ? model_type_of(config.bert()->family, config.json).class_prefix : "PreNorm";
}
}  // namespace detail

/// Returns the architecture of a classifier for config.json: its class in transformers, or
/// "PreNormForSequenceClassification".
inline std::string classifier_architecture(const PretrainedConfig& config) {
  return detail::class_prefix(config) + "ForSequenceClassification";
}

namespace detail {
// Returns the members of a configuration that decide a model's shapes and its results in prediction.
inline auto sizes_of(const BertConfig& c) {
  RotaryConfig rotary = c.rotary;
  rotary.ff_dropout = rotary.cutoff = 0;
  return std::tuple(c.family, c.vocabulary, c.D, c.layers, c.heads, c.ff_width, c.positions, c.position_rows(), c.types,
                    c.activation, c.eps, c.E(), c.groups, c.inner_layers, rotary, c.deberta);
}
inline auto sizes_of(const PreNormConfig& c) {
  return std::tuple(c.vocabulary, c.D, c.layers, c.heads, c.ff_width, c.positions);
}

// Throws Error unless `config` has the sizes of the model. `config` is nullptr if the configuration describes another
// kind of model.
template <class Sizes>
void require_sizes_of(const Sizes& model, const Sizes* config) {
  require(config && sizes_of(*config) == sizes_of(model),
          "save_pretrained: the configuration is not the model's: its kind, sizes, activation or eps differ");
}

// Throws Error unless `name` is a file name that belongs to a tokenizer.
inline void require_tokenizer_file(const std::string& name) {
  const auto& names = text::detail::tokenizer_file_names;
  require(std::find(std::begin(names), std::end(names), name) != std::end(names),
          "save_pretrained: ", io::quoted_name(name), " is not the name of a tokenizer's file");
}

template <class M>
void save_folder(const M& model, const nlohmann::json& config,
                 const std::map<std::string, std::string>& tokenizer_files, const std::string& folder) {
  std::string text;
  try {
    text = config.dump(2) + '\n';
  } catch (const nlohmann::json::exception&) {
    fail("save_pretrained: a label or another text of the configuration is not UTF-8");
  }
  for (const auto& [name, content] : tokenizer_files) require_tokenizer_file(name);
  try {
    parse_config(text, "config.json");
  } catch (const FileError& error) {
    fail("save_pretrained: the configuration is not valid: ", error.what());
  }
  for (const auto& [name, content] : tokenizer_files) io::write_atomically(folder + '/' + name, content);
  io::save(model, folder + "/model.safetensors");
  io::write_atomically(folder + "/config.json", text);
}
}  // namespace detail

/// Writes config.json, model.safetensors in F32, and `tokenizer_files`, the contents of the tokenizer's files by name.
/// transformers' from_pretrained opens the folder of a BERT or one of its relatives. Each file is replaced atomically;
/// other files of the folder stay. The content of the tokenizer's files is not checked. @throws FileError if the folder
/// does not exist or cannot be written. @throws Error if the configuration is not valid (for example, two labels are
/// equal or a text is not UTF-8), if its sizes or number of classes are not the model's, or if `tokenizer_files` has a
/// name that text::read_tokenizer() does not read. Nothing is then written.
inline void save_pretrained(const SequenceClassifier<float>& model, const PretrainedConfig& config,
                            const std::map<std::string, std::string>& tokenizer_files, const std::string& folder) {
  const Index classes = (model.bert ? model.bert->classifier : model.pre_norm->classifier).weight.shape()[0];
  require(classes == static_cast<Index>(config.labels.size()), "save_pretrained: the model has ", classes,
          " classes, its configuration ", config.labels.size());
  if (model.bert) detail::require_sizes_of(model.bert->config(), config.bert());
  if (model.pre_norm) detail::require_sizes_of(model.pre_norm->config(), config.pre_norm());
  detail::save_folder(model, to_json(config, classifier_architecture(config)), tokenizer_files, folder);
}
/// Writes a folder for transformers' classes for token classification or question answering. @throws FileError if the
/// folder does not exist or cannot be written. @throws Error as above, except that the number of labels is not checked
/// for question answering.
inline void save_pretrained(const BertTokenClassifier<float>& model, const PretrainedConfig& config,
                            const std::map<std::string, std::string>& tokenizer_files, const std::string& folder) {
  const bool has_labels = model.head == TokenHead::labels;
  const Index outputs = model.classifier.weight.shape()[0];
  require(!has_labels || outputs == static_cast<Index>(config.labels.size()), "save_pretrained: the model has ",
          outputs, " labels, its configuration ", config.labels.size());
  detail::require_sizes_of(model.config(), config.bert());
  const std::string head = has_labels ? "ForTokenClassification" : "ForQuestionAnswering";
  detail::save_folder(model, to_json(config, detail::class_prefix(config) + head), tokenizer_files, folder);
}
/// Writes a folder for transformers' BertForMaskedLM, DistilBertForMaskedLM, RobertaForMaskedLM and so on. @throws
/// FileError if the folder does not exist or cannot be written. @throws Error as above, except that the number of
/// labels is not checked.
inline void save_pretrained(const BertMaskedLm<float>& model, const PretrainedConfig& config,
                            const std::map<std::string, std::string>& tokenizer_files, const std::string& folder) {
  detail::require_sizes_of(model.config(), config.bert());
  nlohmann::json json = to_json(config, detail::class_prefix(config) + "ForMaskedLM");
  if (json.contains("tie_word_embeddings")) json["tie_word_embeddings"] = true;
  detail::save_folder(model, json, tokenizer_files, folder);
}

}  // namespace heddle::models
