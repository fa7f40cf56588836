// RoBERTa, XLM-RoBERTa and CamemBERT. The families' common tests are in bert.cpp.
#include <heddle/heddle.hpp>
#include <heddle/models/pretrained.hpp>

#include "../harness/parameter_gradients.hpp"
#include "model_folder.hpp"

using namespace heddle;
using namespace heddle::testing;
using models::BertConfig;
using models::BertFamily;

namespace {

const std::vector<Case>& roberta_texts(const std::string& name) { return golden(name, "models/roberta.txt"); }

// All texts of a golden folder as one ragged batch.
struct RobertaBatch {
  Tensor<int> ids;
  Sequences sequences = Sequences::packed({});
  std::vector<double> expected;

  explicit RobertaBatch(const std::string& name) {
    std::vector<int> all, lengths;
    for (const Case& c : roberta_texts(name)) {
      const std::vector<int> one = c["ids"].as<int>();
      all.insert(all.end(), one.begin(), one.end());
      lengths.push_back(static_cast<int>(one.size()));
      expected.insert(expected.end(), c["y"].values.begin(), c["y"].values.end());
    }
    ids = Tensor<int>({std::ssize(all)}, all);
    sequences = Sequences::packed(lengths);
  }
};

template <class T>
constexpr double golden_error = std::is_same_v<T, double> ? 1e-12 : 1e-5;

template <class T>
void expect_golden(const Tensor<T>& found, const std::vector<double>& expected) {
  expect_close(joined(found.host()), expected, part_of_largest(golden_error<T>, expected));
}

// Returns the model of a folder; `arguments` follow the configuration of its constructor.
template <class Model, class... Arguments>
Model read_model(const std::string& folder, const Arguments&... arguments) {
  Random random(3);
  Model model(*models::read_config(folder).bert(), arguments..., random);
  models::load_pretrained(model, folder);
  return model;
}
template <class T>
models::SequenceClassifier<T> read_classifier(const std::string& folder) {
  Random random(3);
  models::SequenceClassifier<T> model(models::read_config(folder), random);
  models::load_pretrained(model, folder);
  return model;
}

template <class T>
void check_golden_values() {
  for (const char* name : {"roberta", "roberta_reranker", "roberta_two"}) {
    INFO(name);
    const RobertaBatch batch(name);
    expect_golden(read_classifier<T>(golden_model(name)).forward(batch.ids, batch.sequences), batch.expected);
  }
  for (const auto& [name, head, outputs] : {std::tuple{"roberta_tagger", models::TokenHead::labels, 5},
                                            {"roberta_question", models::TokenHead::answer, 2}}) {
    INFO(name);
    const RobertaBatch batch(name);
    const auto model = read_model<models::BertTokenClassifier<T>>(golden_model(name), head, Index{outputs});
    expect_golden(model.forward(batch.ids, batch.sequences), batch.expected);
  }
  const RobertaBatch batch("roberta_encoder");
  const auto encoder = read_model<models::BertEncoder<T>>(golden_model("roberta_encoder"));
  expect_golden(encoder.forward(batch.ids, batch.sequences), batch.expected);
  const auto masked = read_model<models::BertMaskedLm<T>>(golden_model("roberta_mask"));
  for (const Case& c : roberta_texts("roberta_mask")) {
    INFO(c.label);
    const Tensor<int> ids(c["ids"].shape, c["ids"].as<int>()), rows(c["rows"].shape, c["rows"].as<int>());
    const Sequences one = Sequences::packed({static_cast<int>(ids.size())});
    expect_golden(masked.forward(ids, one, rows), c["y"].values);
  }
}

BertConfig tiny_roberta() {
  return {.family = BertFamily::roberta,
          .vocabulary = 9,
          .D = 6,
          .layers = 1,
          .heads = 3,
          .ff_width = 5,
          .positions = 5,
          .types = 1,
          .padding_id = 2,
          .deviation = 0.5};
}

// Returns the error of a config.json with changes, without the file's name.
std::string roberta_error(const nlohmann::json& changes) {
  nlohmann::json json = nlohmann::json::parse(get(golden_model("roberta") + "/config.json"));
  json.merge_patch(changes);
  const std::string error = error_of([&] { models::parse_config(json.dump(), "f"); });
  return error.starts_with("f: ") ? error.substr(3) : error;
}

}  // namespace

TEST_CASE("models: RoBERTa gives the numbers of transformers, with padding inside of texts, too") {
  check_golden_values<double>();
  check_golden_values<float>();
}

TEST_CASE("models: hidden states of RoBERTa are those of transformers") {
  const auto encoder = read_model<models::BertEncoder<double>>(golden_model("roberta_encoder"));
  int compared = 0;
  for (const Case& c : roberta_texts("roberta_encoder")) {
    if (!c.has("hidden0")) continue;
    INFO(c.label);
    std::vector<Tensor<double>> states;
    const Tensor<int> ids(c["ids"].shape, c["ids"].as<int>());
    encoder.forward(ids, Sequences::packed({static_cast<int>(ids.size())}), {.hidden_states = &states});
    REQUIRE(states.size() == 3);
    for (std::size_t i = 0; i < states.size(); ++i) expect_golden(states[i], c["hidden" + std::to_string(i)].values);
    ++compared;
  }
  CHECK(compared == 2);
}

TEST_CASE("models: a padded batch of RoBERTa gives the rows of its texts") {
  const auto encoder = read_model<models::BertEncoder<double>>(golden_model("roberta_encoder"));
  const Case& seven = roberta_texts("roberta_encoder")[2];
  for (const int padding : {0, 1, 60}) {
    std::vector<int> ids = seven["ids"].as<int>();
    ids.resize(20, padding);
    std::copy_n(ids.begin(), 7, ids.begin() + 10);
    const Tensor<double> y = encoder.forward(Tensor<int>({20}, ids), Sequences::padded({7, 7}, 10));
    for (const Index first : {0, 10}) expect_golden(y.leading(first, first + 7), seven["y"].values);
  }
}

TEST_CASE("models: the rows of padding of RoBERTa's embeddings begin as zeros and are not trained") {
  Random random(1);
  models::BertClassifier<> model(tiny_roberta(), 2, random);
  const auto& embeddings = model.encoder.embeddings;
  CHECK(embeddings.positions.weight.shape() == Shape({8, 6}));
  CHECK(embeddings.positions.longest() == 5);
  backward(sum(model.forward(Tensor<int>({4}, {0, 2, 5, 2}), Sequences::packed({4}))));
  const auto rows_other_than_zero = [](const Tensor<float>& x) {
    std::set<Index> rows;
    for (Index i = 0; i < x.size(); ++i)
      if (x.host()[static_cast<std::size_t>(i)] != 0) rows.insert(i / x.dim(1));
    return rows;
  };
  CHECK(rows_other_than_zero(embeddings.words.weight.grad()) == std::set<Index>{0, 5});
  CHECK(rows_other_than_zero(embeddings.positions.weight.grad()) == std::set<Index>{3, 4});
  for (const auto* table : {&embeddings.words.weight, &embeddings.positions.weight})
    CHECK(!rows_other_than_zero(table->value()).contains(2));
  const auto copy = clone(model);
  CHECK(copy.encoder.embeddings.positions.padding_id == 2);
}

TEST_CASE("models: heads of RoBERTa are saved under transformers' names, and load bit for bit") {
  const auto same_file = [](const std::string& name, const TemporaryFolder& folder, const std::string& architecture) {
    const auto config = models::read_config(golden_model(name)), saved = models::read_config(folder.path());
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
    CHECK(names_of(folder.path()) == names_of(golden_model(name)));
  };
  const auto check = [&](const std::string& name, const std::string& architecture, const auto& read) {
    INFO(name);
    const TemporaryFolder folder;
    const auto model = read(golden_model(name));
    models::save_pretrained(model, models::read_config(golden_model(name)), {}, folder.path());
    same_file(name, folder, architecture);
    const RobertaBatch batch(name);
    CHECK(read(folder.path()).forward(batch.ids, batch.sequences).host() ==
          model.forward(batch.ids, batch.sequences).host());
  };
  check("roberta", "RobertaForSequenceClassification", read_classifier<float>);
  check("roberta_reranker", "XLMRobertaForSequenceClassification", read_classifier<float>);
  check("roberta_two", "CamembertForSequenceClassification", read_classifier<float>);
  check("roberta_tagger", "CamembertForTokenClassification", [](const std::string& folder) {
    return read_model<models::BertTokenClassifier<>>(folder, models::TokenHead::labels, Index{5});
  });
  check("roberta_question", "XLMRobertaForQuestionAnswering", [](const std::string& folder) {
    return read_model<models::BertTokenClassifier<>>(folder, models::TokenHead::answer, Index{2});
  });
  check("roberta_mask", "RobertaForMaskedLM",
        [](const std::string& folder) { return read_model<models::BertMaskedLm<>>(folder); });

  // Without a file, the type is that of the family.
  const models::PretrainedConfig fresh{tiny_roberta(), {"no", "yes"}};
  Random random(1);
  const TemporaryFolder folder;
  models::save_pretrained(models::SequenceClassifier<>(fresh, random), fresh, {}, folder.path());
  const auto saved = models::read_config(folder.path());
  CHECK(saved.json.at("architectures")[0] == "RobertaForSequenceClassification");
  CHECK(saved.json.at("max_position_embeddings") == 8);
  CHECK(saved.bert()->positions == 5);
  BertConfig other = tiny_roberta();
  other.padding_id = 3;
  CHECK_THROWS_WITH(
      models::save_pretrained(models::SequenceClassifier<>({other, {"no", "yes"}}, random), fresh, {}, folder.path()),
      ContainsSubstring("the configuration is not the model's"));
}

TEST_CASE("models::load_pretrained: names of RoBERTa's weights in bare, old and untied folders") {
  const RobertaBatch batch("roberta");
  const auto expected = read_classifier<float>(golden_model("roberta")).forward(batch.ids, batch.sequences).host();
  const ModelFolder folder("roberta");
  const auto rename = [&](const std::string& from, const std::string& to) {
    folder.rename("model.safetensors", [&](std::string name) {
      if (const std::size_t at = name.find(from); at != name.npos) name.replace(at, from.size(), to);
      return name;
    });
  };
  rename("LayerNorm.weight", "LayerNorm.gamma");
  rename("roberta.", "");
  CHECK(read_classifier<float>(folder.path()).forward(batch.ids, batch.sequences).host() == expected);
  models::require_sizes(models::read_config(folder.path()), folder.path());

  Random random(3);
  models::SequenceClassifier<> drawn(models::read_config(golden_model("roberta_mask")), random);
  CHECK_THROWS_WITH(models::load_pretrained(drawn, golden_model("roberta_mask")),
                    ContainsSubstring("missing 4: 'classifier.dense.weight', 'classifier.dense.bias', "
                                      "'classifier.out_proj.weight', 'classifier.out_proj.bias'; unexpected 5: "));
  CHECK(models::load_pretrained(drawn, golden_model("roberta_mask"), models::MissingHead::drawn).missing.size() == 4);

  const ModelFolder masked("roberta_mask");
  const RobertaBatch texts("roberta_mask");
  const auto logits = [&](const std::string& path) {
    return read_model<models::BertMaskedLm<>>(path).forward(texts.ids, texts.sequences).host();
  };
  const auto of_golden = logits(golden_model("roberta_mask"));
  const auto change = [&](const std::string& from, const std::string& to, bool keep) {
    const ModelFolder changed("roberta_mask");
    const auto stored = io::read_safetensors(changed / "model.safetensors");
    std::vector<io::TensorBytes> tensors;
    std::deque<std::vector<std::byte>> bytes;
    for (const auto& tensor : stored.tensors()) {
      bytes.emplace_back(stored.bytes(tensor));
      if (tensor.name != from || keep) tensors.push_back({tensor.name, tensor.dtype, tensor.shape, bytes.back()});
      if (tensor.name == from) tensors.push_back({to, tensor.dtype, tensor.shape, bytes.back()});
    }
    io::write_safetensors(masked / "model.safetensors", tensors);
  };
  change("lm_head.bias", "lm_head.decoder.bias", true);
  CHECK(logits(masked.path()) == of_golden);
  change("lm_head.bias", "lm_head.decoder.bias", false);
  CHECK(logits(masked.path()) == of_golden);
  change("roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight", true);
  CHECK(logits(masked.path()) == of_golden);
  change("roberta.embeddings.position_embeddings.weight", "lm_head.decoder.weight", true);
  CHECK_THROWS_WITH(logits(masked.path()),
                    ContainsSubstring("'lm_head.decoder.weight' differs from the word embeddings"));
  change("lm_head.dense.bias", "lm_head.decoder.bias", true);
  CHECK_THROWS_WITH(logits(masked.path()),
                    ContainsSubstring("'lm_head.decoder.bias' differs from 'lm_head.bias', which "
                                      "is the same bias"));
}

TEST_CASE("models::parse_config: defaults and refused members of RoBERTa, XLM-RoBERTa and CamemBERT") {
  for (const auto& [type, vocabulary] : {std::pair{"roberta", 50265}, {"xlm-roberta", 30522}, {"camembert", 30522}}) {
    const auto config = models::parse_config(R"({"model_type": ")" + std::string(type) + "\"}", "f");
    const BertConfig& sizes = *config.bert();
    CHECK(config.model_type() == type);
    CHECK(config.vocabulary() == vocabulary);
    CHECK(config.positions() == 510);
    CHECK(std::tuple(sizes.D, sizes.layers, sizes.heads, sizes.ff_width) == std::tuple(768, 12, 12, 3072));
    CHECK(std::tuple(sizes.types, sizes.padding_id, sizes.eps) == std::tuple(2, std::optional<Index>(1), 1e-12));
    CHECK(std::tuple(sizes.dropout, sizes.attention_dropout, sizes.classifier_dropout) == std::tuple(0.1, 0.1, 0.1));
  }
  const auto config = models::read_config(golden_model("roberta_two"));
  CHECK(config.positions() == 24);
  CHECK(config.bert()->position_rows() == 28);
  CHECK(!config.has_types());
  CHECK(config.bert()->eps == 1e-5);

  CHECK(roberta_error({{"model_type", "deberta"}}) ==
        "'model_type' is 'deberta'; heddle reads bert, distilbert, roberta, xlm-roberta, camembert and heddle-prenorm");
  nlohmann::json json = nlohmann::json::parse(get(golden_model("roberta") + "/config.json"));
  json["pad_token_id"] = nullptr;  // which merge_patch() would remove
  CHECK(error_of([&] { models::parse_config(json.dump(), "f"); }) ==
        "f: 'pad_token_id' is null but must be a token, because the positions of RoBERTa are counted from it");
  for (const nlohmann::json& wrong : {nlohmann::json(-1), nlohmann::json(61), nlohmann::json(1.5), nlohmann::json("1")})
    CHECK(roberta_error({{"pad_token_id", wrong}}) ==
          "'pad_token_id' is " + wrong.dump() + " but must be a whole number from 0 to 60");
  CHECK(roberta_error({{"pad_token_id", 25}}) ==
        "'max_position_embeddings' is 26, which leaves no position for a token: positions are counted from "
        "'pad_token_id', 25, plus 1");
  CHECK(roberta_error({{"vocab_size", 1}, {"pad_token_id", nullptr}}) ==
        "'vocab_size' is 1, but 'pad_token_id' is 1 by default");
  CHECK(roberta_error({{"max_position_embeddings", 3}}) == "no error");
  const auto size_error = [](const char* key, const nlohmann::json& value) {
    return '\'' + std::string(key) + "' is " + value.dump() + " but must be a whole number from 1 to 1000000";
  };
  for (const nlohmann::json& wrong : {nlohmann::json(0), nlohmann::json(-8), nlohmann::json(8.0), nlohmann::json("8")})
    for (const char* key : {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                            "max_position_embeddings", "type_vocab_size"})
      CHECK(roberta_error({{key, wrong}}) == size_error(key, wrong));
  for (const char* key :
       {"hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout", "layer_norm_eps"})
    for (const nlohmann::json& wrong : {nlohmann::json(1), nlohmann::json(-0.1), nlohmann::json("0.1")})
      CHECK(roberta_error({{key, wrong}}) ==
            '\'' + std::string(key) + "' is " + wrong.dump() + " but must be a number in [0, 1)");
  CHECK(roberta_error({{"num_attention_heads", 5}}) == "a width of 32 does not divide into 5 heads");
  CHECK(roberta_error({{"hidden_act", "silu"}}) ==
        "'hidden_act' is 'silu' but must be gelu, gelu_new, gelu_pytorch_tanh or relu");
  CHECK(roberta_error({{"initializer_range", -1}}) == "'initializer_range' is -1 but must be a number in [0, 100)");
  CHECK(roberta_error({{"vocab_size", 0}}) == "'vocab_size' is 0 but must be a whole number from 1 to 2147483647");
  CHECK(roberta_error({{"position_embedding_type", "relative_key"}}) ==
        "'position_embedding_type' is 'relative_key' but must be 'absolute'");
  CHECK(roberta_error({{"is_decoder", true}}) == "'is_decoder' is true; heddle reads encoders");
}

TEST_CASE("models: RoBERTa refuses inputs and configurations that do not fit") {
  Random random(1);
  const models::BertEncoder<> encoder(tiny_roberta(), random);
  CHECK_THROWS_WITH(encoder.forward(zeros<int>({6}), Sequences::packed({6})),
                    "LearnedPositions: a sequence of 6 tokens is longer than the table's 5 positions");
  CHECK_THROWS_AS(encoder.forward(zeros<int>({2}), Sequences::packed({3})), ShapeError);
  CHECK_THROWS_AS(encoder.forward(Tensor<int>({1}, {9}), Sequences::packed({1})), IndexError);
  BertConfig config = tiny_roberta();
  config.padding_id.reset();
  CHECK_THROWS_WITH(models::BertEncoder<>(config, random),
                    "BertEmbeddings: RoBERTa needs a padding_id, from which positions count");
  config.padding_id = 9;
  CHECK_THROWS_AS(models::BertEncoder<>(config, random), IndexError);
}
