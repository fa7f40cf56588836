// The families of BERT with every head, against transformers. What only RoBERTa has is in roberta.cpp.
#include "relatives.hpp"

using namespace heddle;
using namespace heddle::testing;
using models::BertConfig;
using models::BertFamily;
using models::TokenHead;

namespace {

// Calls check(folder, architecture, read) for the golden folder of each model with a head, where read(path) loads it.
template <class T>
void each_golden_head(auto&& check) {
  for (const auto& [folder, architecture] : {std::pair{"roberta", "Roberta"},
                                             {"roberta_reranker", "XLMRoberta"},
                                             {"roberta_two", "Camembert"},
                                             {"mpnet", "MPNet"},
                                             {"electra", "Electra"},
                                             {"albert", "Albert"},
                                             {"modernbert", "ModernBert"},
                                             {"modernbert_two", "ModernBert"},
                                             {"nomic", "NomicBert"},
                                             {"gte", "Gte"},
                                             {"deberta", "DebertaV2"}})
    check(folder, std::string(architecture) + "ForSequenceClassification", read_classifier<T>);
  for (const auto& [folder, architecture, labels] : {std::tuple{"roberta_tagger", "Camembert", 5},
                                                     {"mpnet_tagger", "MPNet", 3},
                                                     {"electra_tagger", "Electra", 3},
                                                     {"albert_tagger", "Albert", 3},
                                                     {"modernbert_tagger", "ModernBert", 3},
                                                     {"nomic_tagger", "NomicBert", 3},
                                                     {"gte_tagger", "Gte", 3},
                                                     {"deberta_tagger", "DebertaV2", 3}})
    check(folder, std::string(architecture) + "ForTokenClassification", [labels = labels](const std::string& path) {
      return read_model<models::BertTokenClassifier<T>>(path, TokenHead::labels, Index{labels});
    });
  for (const auto& [folder, architecture] : {std::pair{"roberta_question", "XLMRoberta"},
                                             {"mpnet_question", "MPNet"},
                                             {"electra_question", "Electra"},
                                             {"albert_question", "Albert"},
                                             {"modernbert_question", "ModernBert"},
                                             {"deberta_question", "DebertaV2"}})
    check(folder, std::string(architecture) + "ForQuestionAnswering", [](const std::string& path) {
      return read_model<models::BertTokenClassifier<T>>(path, TokenHead::answer, Index{2});
    });
}

constexpr std::pair<const char*, const char*> masked_models[] = {
    {"roberta_mask", "Roberta"}, {"mpnet_mask", "MPNet"},           {"electra_mask", "Electra"},
    {"albert_mask", "Albert"},   {"modernbert_mask", "ModernBert"}, {"nomic_mask", "NomicBert"},
    {"gte_mask", "Gte"},         {"deberta_mask", "DebertaV2"}};

template <class T>
void check_golden_values() {
  each_golden_head<T>([](const char* folder, const std::string&, const auto& read) {
    INFO(folder);
    const FolderBatch batch(folder);
    expect_golden(batch.template run<T>(read(golden_model(folder))), batch.expected);
  });
  for (const char* folder : {"roberta_encoder", "mpnet_encoder", "electra_encoder", "albert_encoder",
                             "modernbert_encoder", "nomic_encoder", "gte_encoder", "deberta_encoder"}) {
    INFO(folder);
    const FolderBatch batch(folder);
    expect_golden(batch.template run<T>(read_model<models::BertEncoder<T>>(golden_model(folder))), batch.expected);
  }
  for (const auto& [folder, architecture] : masked_models) {
    const auto model = read_model<models::BertMaskedLm<T>>(golden_model(folder));
    for (const Case& text : relative_texts(folder)) {
      INFO(folder << ", text " << text.label);
      const Tensor<int> ids = golden_tensor<int>(text, "ids");
      const Sequences one = Sequences::packed({static_cast<int>(ids.size())});
      expect_golden(model.template forward<T>(ids, one, golden_tensor<int>(text, "rows"),
                                              {.types = golden_tensor<int>(text, "types")}),
                    text["y"].values);
    }
  }
}

// Requires that a saved folder has the members and the names of weights of the folder that was read.
void require_same_names(const char* name, const std::string& saved_path, const std::string& architecture) {
  const auto config = models::read_config(golden_model(name)), saved = models::read_config(saved_path);
  CHECK(saved.json.at("architectures") == nlohmann::json::array({architecture}));
  CHECK(saved.model_type() == config.model_type());
  for (const auto& [key, value] : config.json.items())
    if (key != "dtype" && key != "classifier_dropout" && key != "label2id") CHECK(saved.json.at(key) == value);
  const auto names_of = [](const std::string& path) {
    std::set<std::string> names;
    const auto file = io::read_safetensors(path + "/model.safetensors");
    for (const auto& tensor : file.tensors()) names.insert(tensor.name);
    return names;
  };
  CHECK(names_of(saved_path) == names_of(golden_model(name)));
}

// Saves the model of a golden folder, and requires that the saved folder gives the same bits.
void check_saved(const char* name, const std::string& architecture, const auto& read) {
  INFO(name);
  const TemporaryFolder folder;
  const auto model = read(golden_model(name));
  models::save_pretrained(model, models::read_config(golden_model(name)), {}, folder.path());
  require_same_names(name, folder.path(), architecture);
  models::require_sizes(models::read_config(folder.path()), folder.path());
  const FolderBatch batch(name);
  CHECK(batch.run(read(folder.path())).host() == batch.run(model).host());
}

}  // namespace

TEST_CASE("models: every head of BERT's relatives gives the numbers of transformers") {
  check_golden_values<double>();
  check_golden_values<float>();
}

TEST_CASE("models: hidden states of BERT's relatives are those of transformers, with padding inside of texts, too") {
  for (const auto& [folder, count] : {std::pair{"roberta_encoder", 3},
                                      {"mpnet_encoder", 3},
                                      {"electra_encoder", 3},
                                      {"albert_encoder", 11},
                                      {"modernbert_encoder", 5},
                                      {"nomic_encoder", 3},
                                      {"gte_encoder", 3},
                                      {"deberta_encoder", 3}}) {
    const auto encoder = read_model<models::BertEncoder<double>>(golden_model(folder));
    int compared = 0;
    for (const Case& text : relative_texts(folder)) {
      if (!text.has("hidden0")) continue;
      INFO(folder << ", text " << text.label);
      std::vector<Tensor<double>> states;
      const Tensor<int> ids = golden_tensor<int>(text, "ids");
      encoder.forward(ids, Sequences::packed({static_cast<int>(ids.size())}),
                      {.types = golden_tensor<int>(text, "types"), .hidden_states = &states});
      REQUIRE(std::ssize(states) == count);
      for (std::size_t i = 0; i < states.size(); ++i)
        expect_golden(states[i], text["hidden" + std::to_string(i)].values);
      ++compared;
    }
    CHECK(compared == 2);
  }
}

TEST_CASE("models: heads of BERT's relatives are saved under transformers' names, and load bit for bit") {
  each_golden_head<float>([](const char* folder, const std::string& architecture, const auto& read) {
    check_saved(folder, architecture, read);
  });
  for (const auto& [folder, architecture] : masked_models)
    check_saved(folder, std::string(architecture) + "ForMaskedLM",
                [](const std::string& path) { return read_model<models::BertMaskedLm<>>(path); });
}

TEST_CASE("models: weights of BERT's relatives in folders without a head, and with another one") {
  for (const char* type : {"mpnet", "electra", "albert", "modernbert", "nomic", "gte", "deberta"}) {
    INFO(type);
    const models::PretrainedConfig config = models::read_config(golden_model(type));
    const std::string prefix = models::encoder_name(config.bert()->family) + std::string(".");
    const FolderBatch batch(type);
    const auto expected = batch.run(read_classifier<float>(golden_model(type))).host();
    const ModelFolder folder(type);
    folder.rename("model.safetensors", [&](const std::string& name) {
      return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
    });
    CHECK(batch.run(read_classifier<float>(folder.path())).host() == expected);
    models::require_sizes(models::read_config(folder.path()), folder.path());
    if (prefix == "nomic_bert." || prefix == "gte.") {  // the prefixes of their own programs
      const ModelFolder older(type);
      older.rename("model.safetensors", [&](const std::string& name) {
        const char* const own = prefix == "gte." ? "new." : "bert.";
        return name.starts_with(prefix) ? own + name.substr(prefix.size()) : name;
      });
      CHECK(batch.run(read_classifier<float>(older.path())).host() == expected);
    }

    const std::string masked = golden_model(std::string(type) + "_mask");
    Random random(3);
    models::SequenceClassifier<> drawn(models::read_config(masked), random);
    const auto& head = drawn.bert->head;  // of ModernBERT, which the masked language model has, too
    const std::size_t missing = head ? 2 : 4;
    CHECK_THROWS_WITH(models::load_pretrained(drawn, masked),
                      ContainsSubstring("missing " + std::to_string(missing) + ": "));
    CHECK(models::load_pretrained(drawn, masked, models::MissingHead::drawn).missing.size() == missing);
  }
}

TEST_CASE("models: layers of ALBERT share weights, as many as its groups have") {
  const BertConfig c{.family = BertFamily::albert, .layers = 5, .groups = 2, .inner_layers = 2};
  CHECK(c.layers_with_weights() == 4);
  CHECK(c.passes() == 10);
  std::vector<Index> order;
  for (Index i = 0; i < c.passes(); ++i) order.push_back(c.layer_of_pass(i));
  CHECK(order == std::vector<Index>{0, 1, 0, 1, 0, 1, 2, 3, 2, 3});
  Random random(1);
  const auto albert = [&](Index layers, Index groups, Index inner_layers) {
    const models::BertEncoder<> encoder({.family = BertFamily::albert,
                                         .vocabulary = 9,
                                         .D = 6,
                                         .layers = layers,
                                         .heads = 2,
                                         .ff_width = 5,
                                         .embedding_width = 4,
                                         .groups = groups,
                                         .inner_layers = inner_layers},
                                        random);
    return parameter_count(encoder);
  };
  const Index of_layer = 4 * (6 * 6 + 6) + 2 * 5 * 6 + 5 + 6 + 4 * 6, others = (9 + 512 + 2 + 2) * 4 + 6 * 5;
  CHECK(albert(5, 1, 1) == others + of_layer);
  CHECK(albert(5, 2, 3) == others + 6 * of_layer);
  CHECK_THROWS_WITH(albert(2, 3, 1), ContainsSubstring("groups must be from 1 to the number of layers, 2"));
  CHECK_THROWS_WITH(albert(2, 1, 0), ContainsSubstring("inner_layers at least 1, got 1 and 0"));
}

TEST_CASE("models::parse_config: defaults and refused members of MPNet, ELECTRA and ALBERT") {
  const auto sizes_of = [](const char* type) {
    return *models::parse_config(R"({"model_type": ")" + std::string(type) + "\"}", "f").bert();
  };
  const BertConfig mpnet = sizes_of("mpnet"), electra = sizes_of("electra"), albert = sizes_of("albert");
  CHECK(std::tuple(mpnet.vocabulary, mpnet.D, mpnet.heads, mpnet.ff_width) == std::tuple(30527, 768, 12, 3072));
  CHECK(std::tuple(mpnet.positions, mpnet.types, mpnet.padding_id) == std::tuple(510, 0, std::optional<Index>(1)));
  CHECK(std::tuple(electra.vocabulary, electra.E(), electra.D, electra.heads, electra.ff_width) ==
        std::tuple(30522, 128, 256, 4, 1024));
  CHECK(electra.has_projection());
  CHECK(std::tuple(albert.vocabulary, albert.E(), albert.D, albert.heads, albert.ff_width) ==
        std::tuple(30000, 128, 4096, 64, 16384));
  CHECK(std::tuple(albert.dropout, albert.attention_dropout, albert.classifier_dropout) == std::tuple(0.0, 0.0, 0.1));
  CHECK(albert.activation == nn::Activation::gelu_tanh);
  CHECK(std::tuple(albert.groups, albert.inner_layers, albert.passes()) == std::tuple(1, 1, 12));
  CHECK(!models::read_config(golden_model("electra_encoder")).bert()->has_projection());
  CHECK(models::read_config(golden_model("albert_encoder")).bert()->has_projection());

  CHECK(config_error("mpnet", {{"relative_attention_num_buckets", 16}}) ==
        "'relative_attention_num_buckets' is 16 but must be a whole number from 32 to 32");
  CHECK(config_error("mpnet", {{"vocab_size", 1}}) == "'vocab_size' is 1, but 'pad_token_id' is 1 in MPNet");
  CHECK(config_error("electra", {{"embedding_size", 0}}) ==
        "'embedding_size' is 0 but must be a whole number from 1 to 1000000");
  CHECK(config_error("albert", {{"num_hidden_groups", 3}}) ==
        "'num_hidden_groups' is 3 but must be a whole number from 1 to 2");
  CHECK(config_error("albert", {{"inner_group_num", "2"}}) ==
        "'inner_group_num' is \"2\" but must be a whole number from 1 to 1000000");
  CHECK(config_error("albert", {{"hidden_act", "mish"}}) ==
        "'hidden_act' is 'mish' but must be gelu, gelu_new, gelu_pytorch_tanh, relu, silu or swish");
}

TEST_CASE("models::parse_config: defaults and refused members of ModernBERT") {
  const BertConfig c = *models::parse_config(R"({"model_type": "modernbert"})", "f").bert();
  CHECK(std::tuple(c.vocabulary, c.D, c.layers, c.heads, c.ff_width, c.positions) ==
        std::tuple(50368, 768, 22, 12, 1152, 8192));
  CHECK(std::tuple(c.padding_id, c.eps, c.dropout, c.attention_dropout, c.classifier_dropout) ==
        std::tuple(std::optional<Index>(50283), 1e-5, 0.0, 0.0, 0.0));
  CHECK(c.rotary == models::RotaryConfig());
  const BertConfig two = *models::read_config(golden_model("modernbert_two")).bert();
  CHECK(two.rotary == models::RotaryConfig{.global_base = 500,
                                           .local_base = 20,
                                           .global_every = 2,
                                           .window = 3,
                                           .norm_bias = true,
                                           .attention_bias = true,
                                           .ff_in_bias = true,
                                           .ff_out_bias = true,
                                           .head_bias = true,
                                           .pools_mean = true,
                                           .head_activation = nn::Activation::silu});
  // Names of members before version 5 of transformers.
  nlohmann::json old = nlohmann::json::parse(get(golden_model("modernbert") + "/config.json"));
  old.erase("layer_types");
  old.erase("rope_parameters");
  old.merge_patch({{"global_attn_every_n_layers", 4}, {"global_rope_theta", 300}, {"local_rope_theta", 7.5}});
  const BertConfig of_old = *models::parse_config(old.dump(), "f").bert();
  CHECK(std::tuple(of_old.rotary.global_every, of_old.rotary.global_base, of_old.rotary.local_base) ==
        std::tuple(4, 300.0, 7.5));
  const auto again = models::to_json({of_old, {"a", "b"}}, "ModernBertModel");
  CHECK(models::parse_config(again.dump(), "f").bert()->rotary == of_old.rotary);
  // Members that do not fit changed sizes are written anew.
  models::PretrainedConfig changed = models::read_config(golden_model("modernbert_two"));
  BertConfig& sizes = std::get<BertConfig>(changed.sizes);
  sizes.layers = 4;
  sizes.rotary.window = 0;
  sizes.rotary.local_base = 30;
  CHECK(models::parse_config(models::to_json(changed, "ModernBertModel").dump(), "f").bert()->rotary == sizes.rotary);

  const auto error = [](const nlohmann::json& changes) { return config_error("modernbert", changes); };
  CHECK(error({{"classifier_pooling", "max"}}) == "'classifier_pooling' is 'max' but must be cls or mean");
  CHECK(error({{"num_attention_heads", 32}}) == "heads are 1 wide; rotary positions need an even width of at most 512");
  CHECK(error({{"rope_scaling", {{"factor", 2}}}}) ==
        "'rope_scaling' is not null; heddle reads rotary positions without scaling");
  CHECK(error({{"rope_parameters", {{"full_attention", {{"rope_type", "yarn"}}}}}}) ==
        "'rope_type' is 'yarn' but must be 'default'");
  CHECK(error({{"rope_parameters", {{"sliding_attention", {{"rope_type", nullptr}, {"type", "linear"}}}}}}) ==
        "'rope_type' is 'linear' but must be 'default'");
  CHECK(error({{"position_embedding_type", "sans_pos"}}) == "no error");
  CHECK(error({{"layer_types", {"full_attention"}}}) == "'layer_types' has 1 members; the model has 4 layers");
  CHECK(error({{"layer_types", {"sliding_attention", "full_attention", "full_attention", "full_attention"}}})
            .starts_with("'layer_types' has \"sliding_attention\" for layer 0; heddle reads"));
  CHECK(error({{"layer_types", 3}}) == "'layer_types' is 3 but must be an array");
  CHECK(error({{"local_attention", 0}}) == "'local_attention' is 0 but must be a whole number from 1 to 1000000");
  CHECK(error({{"pad_token_id", 61}}) == "'pad_token_id' is 61 but must be a whole number from -61 to 60");
  CHECK(error({{"mlp_bias", 1}}) == "'mlp_bias' is 1 but must be true or false");
}

TEST_CASE("models::require_sizes: sizes of MPNet, ELECTRA and ALBERT that their weights do not have") {
  const auto error = [](const char* name, const nlohmann::json& changes) {
    nlohmann::json json = nlohmann::json::parse(get(golden_model(name) + "/config.json"));
    json.merge_patch(changes);
    return error_of([&] { models::require_sizes(models::parse_config(json.dump(), "f"), golden_model(name)); });
  };
  CHECK(error("electra", {{"embedding_size", 16}}).find("mismatched 'electra.embeddings.word_embeddings.weight'") !=
        std::string::npos);
  CHECK(error("albert_encoder", {{"inner_group_num", 3}}).find("albert_layer_groups.0.albert_layers.2") !=
        std::string::npos);
  CHECK(error("modernbert", {{"intermediate_size", 36}}).find("mismatched 'model.layers.0.mlp.Wi.weight'") !=
        std::string::npos);
  CHECK(error("mpnet", {{"num_hidden_layers", 3}}).find("missing 'mpnet.encoder.layer.2.attention.attn.q.weight'") !=
        std::string::npos);
}

TEST_CASE("nn::BucketedPositionBias: buckets are those of transformers, and the bias that of its pairs") {
  const Case& buckets = golden("buckets", "models/relatives.txt")[0];
  nn::BucketedPositionBias<double> bias(32, 128, 2);
  std::vector<int> found;
  for (const int distance : buckets["distances"].as<int>()) found.push_back(static_cast<int>(bias.bucket(distance)));
  CHECK(found == buckets["buckets"].as<int>());

  Random random(1);
  nn::init::normal(bias.weight, random, 0, 1);
  const Sequences queries = Sequences::packed({3, 1, 20}), keys = Sequences::padded({2, 1, 9}, 11);
  const Tensor<double> of_pairs = bias(queries, keys);
  REQUIRE(of_pairs.shape() == Shape({1, 2, 20, 11}));
  const auto value = [&](const Tensor<double>& x, Index i) { return x.host()[static_cast<std::size_t>(i)]; };
  for (const Index h : {0, 1})
    for (const Index q : {0, 7, 19})
      for (const Index k : {0, 3, 10})
        CHECK(value(of_pairs, (h * 20 + q) * 11 + k) == value(bias.weight.value(), 2 * bias.bucket(k - q) + h));
  CHECK(bias(queries).shape() == Shape({1, 2, 20, 20}));
  CHECK(bias(Sequences::packed({})).shape() == Shape({1, 2, 0, 0}));
  CHECK_THROWS_WITH(nn::BucketedPositionBias<>(30, 128, 2), ContainsSubstring("must be a multiple of 4"));
  CHECK_THROWS_WITH(nn::BucketedPositionBias<>(32, 8, 2), ContainsSubstring("greatest must be in (8, 2^30), got 8"));
  CHECK_THROWS_WITH(nn::BucketedPositionBias<>(32, 128, 0), ContainsSubstring("heads"));
}

TEST_CASE("models::parse_config: defaults, older names and refused members of NomicBERT and GTE") {
  const BertConfig nomic = *models::parse_config(R"({"model_type": "nomic_bert"})", "f").bert();
  CHECK(std::tuple(nomic.vocabulary, nomic.D, nomic.layers, nomic.heads, nomic.ff_width, nomic.positions,
                   nomic.types) == std::tuple(30528, 768, 12, 12, 3072, 2048, 2));
  CHECK(nomic.rotary ==
        models::RotaryConfig{
            .norm_first = false, .global_base = 1000, .global_every = 1, .norm_bias = true, .head_bias = true});
  // nomic-embed-text-v1.5, without the members that say nothing of the model.
  const std::string older = R"({"model_type": "nomic_bert", "n_embd": 96, "n_head": 4, "n_inner": 200, "n_layer": 3,
      "n_positions": 8192, "vocab_size": 40, "type_vocab_size": 2, "activation_function": "swiglu",
      "layer_norm_epsilon": 1e-12, "rotary_emb_base": 700, "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": false,
      "rotary_scaling_factor": null, "prenorm": false, "use_rms_norm": false, "qkv_proj_bias": false,
      "mlp_fc1_bias": false, "mlp_fc2_bias": false, "resid_pdrop": 0.2, "attn_pdrop": 0.1, "auto_map": {}})";
  const auto check_older = [](const BertConfig& c) {
    CHECK(std::tuple(c.D, c.heads, c.ff_width, c.layers, c.positions, c.rotary.global_base, c.dropout) ==
          std::tuple(96, 4, 200, 3, 8192, 700.0, 0.2));
    CHECK(c.attention_dropout == 0.1);
  };
  const models::PretrainedConfig read = models::parse_config(older, "f");
  check_older(*read.bert());
  const auto written = models::to_json(read, "NomicBertModel");
  check_older(*models::parse_config(written.dump(), "f").bert());
  CHECK_FALSE(written.contains("n_embd"));

  const BertConfig gte = *models::parse_config(R"({"model_type": "gte"})", "f").bert();
  CHECK(std::tuple(gte.vocabulary, gte.positions, gte.types, gte.padding_id, gte.rotary.global_base) ==
        std::tuple(250048, 8192, 1, std::optional<Index>(1), 160000.0));
  // gte-base-en-v1.5: the base grows by the factor, and the frequencies of K = 64 are divided by factor^(2 / 64).
  const models::PretrainedConfig ntk = models::parse_config(
      R"({"model_type": "new", "rope_theta": 500000, "rope_scaling": {"factor": 2.0, "type": "ntk"}, "type_vocab_size": 0,
          "layer_norm_type": "layer_norm", "logn_attention_scale": false, "position_embedding_type": "rope"})",
      "f");
  CHECK(ntk.bert()->rotary.global_base == 1e6);
  CHECK(ntk.bert()->rotary.divisor == std::pow(2.0, 2.0 / 64));
  const auto as_gte = models::to_json(ntk, "GteModel");
  CHECK(as_gte["model_type"] == "gte");
  CHECK(models::parse_config(as_gte.dump(), "f").bert()->rotary == ntk.bert()->rotary);

  const auto base_of = [](nlohmann::json json, const char* type) {
    json["model_type"] = type;
    return models::parse_config(json.dump(), "f").bert()->rotary.global_base;
  };
  const nlohmann::json of_50{{"rope_type", "default"}, {"rope_theta", 50}},
      of_60{{"type", "linear"}, {"factor", 1}, {"rope_theta", 60}};
  CHECK(base_of({{"rope_theta", 50}}, "nomic_bert") == 50);
  CHECK(base_of({{"rope_theta", 50}, {"rope_parameters", {{"rope_type", "default"}}}}, "nomic_bert") == 50);
  CHECK(base_of({{"rope_parameters", of_50}, {"rope_scaling", of_60}}, "gte") == 60);
  CHECK(base_of({{"rope_parameters", of_50}, {"rope_scaling", nullptr}}, "gte") == 50);
  CHECK(base_of({{"rope_parameters", of_50}, {"rope_scaling", nlohmann::json::object()}}, "gte") == 50);

  const auto nomic_error = [](const nlohmann::json& changes) { return config_error("nomic", changes); };
  CHECK(nomic_error({{"head_dim", 16}}) == "'head_dim' is 16 but must be a whole number from 8 to 8");
  CHECK(nomic_error({{"rotary_emb_fraction", 0.5}}) == "'rotary_emb_fraction' is 0.5 but must be 1.0");
  CHECK(nomic_error({{"mlp_fc1_bias", true}}) == "'mlp_fc1_bias' is true but must be false");
  CHECK(
      nomic_error({{"rotary_scaling_factor", 2}}) ==
      "'rotary_scaling_factor' is not null; heddle reads rotary positions that do not depend on the length of a text");
  const auto gte_error = [](const nlohmann::json& changes) { return config_error("gte", changes); };
  CHECK(gte_error({{"rope_parameters", {{"rope_type", "yarn"}}}}) ==
        "'rope_type' is 'yarn' but must be default, linear or ntk");
  CHECK(gte_error({{"rope_parameters", {{"rope_type", "linear"}}}}) == "has no 'factor'");
  CHECK(gte_error({{"position_embedding_type", "absolute"}}) ==
        "'position_embedding_type' is \"absolute\" but must be \"rope\"");
  CHECK(gte_error({{"num_attention_heads", 32}}) ==
        "heads are 1 wide; rotary positions need an even width of at most 512");
}

TEST_CASE("models::parse_config: defaults and refused members of DeBERTa") {
  const BertConfig c = *models::read_config(golden_model("deberta")).bert();
  CHECK(c.deberta ==
        models::DebertaConfig{
            .buckets = 8, .greatest_distance = 26, .norms_distances = true, .pooler_activation = nn::Activation::relu});
  const models::PretrainedConfig far = models::read_config(golden_model("deberta_tagger"));
  CHECK(far.bert()->deberta == models::DebertaConfig{.buckets = 0, .greatest_distance = 7, .norms_distances = false});
  CHECK(far.bert()->types == 2);
  CHECK(models::parse_config(models::to_json(far, "DebertaV2Model").dump(), "f").bert()->deberta ==
        far.bert()->deberta);

  const auto error = [](const nlohmann::json& changes) { return config_error("deberta", changes); };
  CHECK(error({{"pos_att_type", "c2p"}}) == "'pos_att_type' is \"c2p\" but must have c2p and p2c");
  CHECK(error({{"pos_att_type", "p2c|c2p"}}) == "no error");
  CHECK(error({{"relative_attention", false}}) ==
        "'relative_attention' must be true; heddle reads DeBERTa with disentangled attention alone");
  CHECK(error({{"position_biased_input", nullptr}}) ==
        "'position_biased_input' must be false; heddle reads DeBERTa with disentangled attention alone");
  CHECK(error({{"conv_kernel_size", 3}}) == "'conv_kernel_size' is not 0; heddle reads DeBERTa without convolutions");
  CHECK(error({{"position_buckets", 7}}) ==
        "'position_buckets' is 7 but must be even and from 4 to 48, for distances up to 26");
  CHECK(error({{"position_buckets", 48}}) == "no error");
  CHECK(error({{"position_buckets", 50}}) ==
        "'position_buckets' is 50 but must be even and from 4 to 48, for distances up to 26");
  CHECK(error({{"embedding_size", 16}}) == "'embedding_size' is 16 but must be 'hidden_size', 32");
  CHECK(error({{"attention_head_size", 5}}) ==
        "'attention_head_size' is 5 but must be 'hidden_size' / 'num_attention_heads', 8");
  CHECK(error({{"pos_att_type", "c2pp2c"}}) == "'pos_att_type' is \"c2pp2c\" but must have c2p and p2c");
  CHECK(error({{"pos_att_type", nullptr}}) == "'pos_att_type' is absent but must have c2p and p2c");
  CHECK(error({{"pos_att_type", " C2P | p2c"}}) == "no error");
  CHECK(error({{"is_causal", true}}) == "'is_causal' is true; heddle reads encoders");
  const auto norms = [](const char* kinds) {
    nlohmann::json json = models::read_config(golden_model("deberta")).json;
    json["norm_rel_ebd"] = kinds;
    return models::parse_config(json.dump(), "f").bert()->deberta.norms_distances;
  };
  CHECK((norms("LAYER_NORM") && norms("x | layer_norm") && !norms("no_layer_norm") && !norms("none")));
  CHECK(models::to_json(far, "DebertaV2ForMaskedLM").at("legacy") == true);
}
