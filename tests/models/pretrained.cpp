#include <heddle/heddle.hpp>
#include <heddle/models/text_batches.hpp>

#include "../harness/compare.hpp"
#include "catch.hpp"
#include "model_folder.hpp"

using namespace heddle;
using namespace heddle::testing;
using models::MissingHead;
using models::SequenceClassifier;

namespace {

SequenceClassifier<> load_classifier(const std::string& folder, MissingHead head = MissingHead::refused,
                                     io::LoadReport* report = nullptr) {
  Random random(3);
  SequenceClassifier<> model(models::read_config(folder), random);
  const io::LoadReport read = models::load_pretrained(model, folder, head);
  if (report) *report = read;
  return model;
}

struct GoldenBatch {
  std::vector<text::Encoding> texts;
  Tensor<int> ids, types;
  Sequences sequences = Sequences::packed({});
};

text::Encoding encode_golden(const text::Tokenizer& tokenizer, const Case& c) {
  text::Encoding text = c.has("b") ? tokenizer.encode_pair(c.word("a"), c.word("b")) : tokenizer.encode(c.word("a"));
  INFO(c.name << ' ' << c.label);
  CHECK(text.ids == c["ids"].as<std::int32_t>());
  return text;
}

// Returns all texts of a golden folder as one ragged batch.
GoldenBatch golden_batch(const std::string& folder, const std::vector<Case>& cases) {
  const auto tokenizer = models::detail::make_tokenizer(folder, models::read_config(folder)).tokenizer;
  GoldenBatch batch;
  std::vector<int> ids, types, lengths;
  for (const Case& c : cases) {
    const text::Encoding text = encode_golden(tokenizer, c);
    ids.insert(ids.end(), text.ids.begin(), text.ids.end());
    types.insert(types.end(), text.type_ids.begin(), text.type_ids.end());
    lengths.push_back(static_cast<int>(text.ids.size()));
  }
  const auto count = static_cast<Index>(ids.size());
  batch.ids = Tensor<int>({count}, ids);
  batch.types = Tensor<int>({count}, types);
  batch.sequences = Sequences::packed(lengths);
  return batch;
}

std::vector<float> logits(const SequenceClassifier<>& model, const GoldenBatch& batch) {
  const bool types = model.bert && model.bert->config().types > 0;
  return model.forward(batch.ids, batch.sequences, {.types = types ? batch.types : Tensor<int>()}).host();
}

template <class M>
std::vector<float> weights_of(M& model) {
  std::vector<float> all;
  walk(model, [&](const Name&, auto& x) {
    for (const float w : x.value().host()) all.push_back(w);
  });
  return all;
}

// Rewrites a weight file in another type.
template <class T>
void store_as(const std::string& path) {
  const auto stored = io::read_safetensors(path);
  std::vector<io::TensorBytes> tensors;
  std::deque<Tensor<T>> values;  // alive until they are written
  for (const auto& tensor : stored.tensors())
    tensors.push_back(io::tensor_bytes(tensor.name, values.emplace_back(stored.tensor<T>(tensor.name))));
  io::write_safetensors(path, tensors);
}

void expect_golden_values(const std::vector<float>& actual, const std::vector<double>& expected) {
  expect_close(joined(actual), expected, part_of_largest(1e-5, expected));
}

// Returns the error of a config.json with changes, without the file's name.
std::string config_error(const std::string& golden_folder, const nlohmann::json& changes) {
  nlohmann::json json = nlohmann::json::parse(get(golden_model(golden_folder) + "/config.json"));
  json.merge_patch(changes);
  const std::string error = error_of([&] { models::parse_config(json.dump(), "f"); });
  return error.starts_with("f: ") ? error.substr(3) : error;
}

}  // namespace

TEST_CASE("models: classifiers give the logits of transformers, all texts in one ragged batch") {
  for (const char* name : {"bert", "distilbert", "sharded", "pre_norm"}) {
    INFO(name);
    const auto& cases = golden_texts(name);
    const GoldenBatch batch = golden_batch(golden_model(name), cases);
    std::vector<double> expected;
    for (const Case& c : cases) expected.insert(expected.end(), c["y"].values.begin(), c["y"].values.end());
    expect_golden_values(logits(load_classifier(golden_model(name)), batch), expected);
  }
}

TEST_CASE("models: hidden states and attention weights are those of transformers") {
  const auto model = load_classifier(golden_model("bert"));
  const Case& c = golden_texts("bert_internals")[0];
  const auto tokenizer =
      models::detail::make_tokenizer(golden_model("bert"), models::read_config(golden_model("bert"))).tokenizer;
  const text::Encoding text = tokenizer.encode_pair(c.word("a"), c.word("b"));
  const auto tensor = [](const std::vector<int>& values) {
    return Tensor<int>({static_cast<Index>(values.size())}, values);
  };
  std::vector<Tensor<float>> states, attentions;
  model.bert->encoder.forward(tensor(text.ids), Sequences::packed({static_cast<int>(text.ids.size())}),
                              {.types = tensor(text.type_ids), .hidden_states = &states, .attentions = &attentions});
  REQUIRE(states.size() == 3);
  REQUIRE(attentions.size() == 2);
  for (std::size_t i = 0; i < states.size(); ++i) {
    const GoldenTensor& expected = c["hidden" + std::to_string(i)];
    CHECK(states[i].shape() == expected.shape);
    expect_golden_values(states[i].host(), expected.values);
  }
  for (std::size_t i = 0; i < attentions.size(); ++i) {
    const GoldenTensor& expected = c["attention" + std::to_string(i)];
    CHECK(attentions[i].shape() == expected.shape);
    expect_golden_values(attentions[i].host(), expected.values);
  }
}

TEST_CASE("models::BertMaskedLm: gives the logits of transformers for a checkpoint with old names and half precision") {
  const Case& c = golden_texts("old")[0];
  const std::string folder = golden_model("old");
  const auto config = models::read_config(folder);
  Random random(1);
  models::BertMaskedLm<> model(*config.bert(), random);
  const io::LoadReport report = models::load_pretrained(model, folder);
  CHECK(report.missing.empty());
  CHECK(report.unexpected == std::vector<std::string>{"'cls.seq_relationship.bias'", "'cls.seq_relationship.weight'"});
  const GoldenBatch batch = golden_batch(folder, {c});
  const auto rows = c["rows"].as<int>();
  const Tensor<float> y = model.forward(batch.ids, batch.sequences,
                                        Tensor<int>({static_cast<Index>(rows.size())}, rows), {.types = batch.types});
  CHECK(y.shape() == c["y"].shape);
  expect_golden_values(y.host(), c["y"].values);
}

TEST_CASE("models::BertMaskedLm: refuses a decoder that is not the word embeddings") {
  const ModelFolder folder("old");
  const auto stored = io::read_safetensors(folder / "model.safetensors");
  Random random(1);
  models::BertMaskedLm<> model(*models::read_config(folder.path()).bert(), random);
  for (const bool is_tied : {true, false}) {
    std::vector<io::TensorBytes> tensors;
    std::deque<std::vector<std::byte>> bytes;
    for (const auto& tensor : stored.tensors())
      if (tensor.name != "cls.predictions.decoder.weight")
        tensors.push_back({tensor.name, tensor.dtype, tensor.shape, bytes.emplace_back(stored.bytes(tensor))});
    const auto words = std::find_if(tensors.begin(), tensors.end(), [](const io::TensorBytes& tensor) {
      return tensor.name.ends_with("word_embeddings.weight");
    });
    REQUIRE(words != tensors.end());
    std::vector<std::byte>& decoder = bytes.emplace_back(words->bytes.begin(), words->bytes.end());
    if (!is_tied) decoder[0] ^= std::byte{1};
    tensors.push_back({"cls.predictions.decoder.weight", words->dtype, words->shape, decoder});
    io::write_safetensors(folder / "model.safetensors", tensors);
    if (is_tied)
      CHECK(models::load_pretrained(model, folder.path()).missing.empty());
    else
      CHECK_THROWS_WITH(
          models::load_pretrained(model, folder.path()),
          folder /
              "model.safetensors: 'cls.predictions.decoder.weight' differs from the word embeddings; heddle reads "
              "models whose decoder is their word embeddings");
  }
}

TEST_CASE("models::require_sizes: each layer is compared before a model is made") {
  const ModelFolder folder("bert");
  const auto config = models::read_config(folder.path());
  const Index layers = config.bert()->layers;
  folder.change("config.json", {{"num_hidden_layers", 1'000'000}});
  CHECK_THROWS_WITH(
      models::require_sizes(models::read_config(folder.path()), folder.path()),
      folder / ("model.safetensors: does not hold the weights of this model; missing 'bert.encoder.layer." +
                std::to_string(layers) + ".attention.self.query.weight'"));
}

TEST_CASE("models::load_weights: files in any floating type") {
  const auto& cases = golden_texts("sharded");  // its values are exact in BF16
  const ModelFolder folder("sharded");
  const auto expected = logits(load_classifier(folder.path()), golden_batch(folder.path(), cases));
  const auto again = [&] { return logits(load_classifier(folder.path()), golden_batch(folder.path(), cases)); };
  for (const std::string& name : folder.names()) {
    if (!name.ends_with(".safetensors")) continue;
    if (name.starts_with("model-00001")) store_as<float>(folder / name);
    if (name.starts_with("model-00002")) store_as<double>(folder / name);
  }
  CHECK(again() == expected);
}

TEST_CASE("models::load_weights: names of old checkpoints, with and without the prefix") {
  const ModelFolder folder("bert");
  auto model = load_classifier(folder.path());
  const auto expected = weights_of(model);
  const auto reload = [&] {
    auto loaded = load_classifier(folder.path());
    return weights_of(loaded);
  };
  const auto replaced = [](std::string name, const std::string& from, const std::string& to) {
    if (const std::size_t at = name.find(from); at != name.npos) name.replace(at, from.size(), to);
    return name;
  };
  folder.rename("model.safetensors", [&](const std::string& name) {
    return replaced(replaced(name, "LayerNorm.weight", "LayerNorm.gamma"), "LayerNorm.bias", "LayerNorm.beta");
  });
  CHECK(reload() == expected);
  folder.rename("model.safetensors", [&](const std::string& name) { return replaced(name, "bert.", ""); });
  CHECK(reload() == expected);
  // The file has a tensor under its old and its new name.
  folder.rename("model.safetensors", [&](const std::string& name) {
    return name == "classifier.bias" ? "embeddings.LayerNorm.weight" : name;
  });
  CHECK_THROWS_WITH(reload(), ContainsSubstring("'embeddings.LayerNorm.weight' and another tensor are both "
                                                "'bert.embeddings.LayerNorm.weight' of the model"));
}

TEST_CASE("models::load_weights: a missing model head is refused or drawn, and unexpected ones are reported") {
  const std::string old = golden_model("old");
  CHECK_THROWS_WITH(
      load_classifier(old),
      ContainsSubstring("does not hold the weights of this model; missing 4: 'bert.pooler.dense.weight', "
                        "'bert.pooler.dense.bias', 'classifier.weight', 'classifier.bias'; unexpected 7: "));
  io::LoadReport report;
  auto drawn = load_classifier(old, MissingHead::drawn, &report);
  CHECK(report.missing.size() == 4);
  CHECK(report.unexpected.size() == 7);
  CHECK(report.unexpected[0] == "'cls.predictions.bias'");
  Random random(3);
  SequenceClassifier<> fresh(models::read_config(old), random);
  CHECK(weights_of(drawn.bert->classifier) == weights_of(fresh.bert->classifier));
  CHECK(weights_of(drawn.bert->pooler) == weights_of(fresh.bert->pooler));
  CHECK(weights_of(drawn.bert->encoder) != weights_of(fresh.bert->encoder));

  for (const char* name : {"distilbert", "pre_norm"}) {
    const ModelFolder folder(name);
    folder.rename("model.safetensors", [](const std::string& n) { return n == "classifier.bias" ? "" : n; });
    CHECK_THROWS_WITH(load_classifier(folder.path()), ContainsSubstring("; missing 1: 'classifier.bias'"));
    load_classifier(folder.path(), MissingHead::drawn, &report);
    CHECK(report.missing == std::vector<std::string>{"'classifier.bias'"});
  }
  CHECK(load_classifier(golden_model("sentence_mean"), MissingHead::drawn, &report).bert);
  CHECK(report.missing == std::vector<std::string>{"'classifier.weight'", "'classifier.bias'"});
}

TEST_CASE("models::load_weights: a missing weight of the encoder is always an error") {
  for (const char* name : {"bert", "distilbert", "pre_norm"}) {
    const ModelFolder folder(name);
    std::string missing;
    folder.rename("model.safetensors", [&](const std::string& n) {
      if (!n.ends_with("orm.weight") && !n.ends_with("norm_1.weight")) return n;
      missing = n;
      return std::string();
    });
    for (const MissingHead head : {MissingHead::refused, MissingHead::drawn})
      CHECK_THROWS_WITH(load_classifier(folder.path(), head),
                        ContainsSubstring("; missing ") && ContainsSubstring('\'' + missing + '\''));
  }
  const ModelFolder folder("bert");
  folder.rename("model.safetensors", [](const std::string& n) { return n.ends_with("key.bias") ? n + 's' : n; });
  Random random(1);
  models::BertEncoder<> encoder(*models::read_config(folder.path()).bert(), random);
  CHECK_THROWS_WITH(models::load_pretrained(encoder, folder.path()),
                    ContainsSubstring("; missing 2: 'bert.encoder.layer.0.attention.self.key.bias', "
                                      "'bert.encoder.layer.1.attention.self.key.bias'; unexpected "));
}

TEST_CASE("models::load_weights: sizes that differ from config.json are listed") {
  const ModelFolder folder("bert");
  folder.change("config.json", {{"id2label", nullptr}, {"num_labels", 5}});
  CHECK_THROWS_WITH(
      load_classifier(folder.path()),
      ContainsSubstring("; mismatched 2: 'classifier.weight' [3, 8] for [5, 8], 'classifier.bias' [3] for [5]"));
  folder.change("config.json", {{"num_labels", 3}, {"num_hidden_layers", 3}});
  CHECK_THROWS_WITH(load_classifier(folder.path(), MissingHead::drawn),
                    ContainsSubstring("; missing 16: 'bert.encoder.layer.2.attention.self.query.weight', "));
  folder.change("config.json", {{"num_hidden_layers", 1}});
  io::LoadReport report;
  load_classifier(folder.path(), MissingHead::refused, &report);
  CHECK(report.unexpected.size() == 16);
}

TEST_CASE("models::load_weights: BertEncoder takes the encoder of any folder") {
  const auto same_encoder = [](const std::string& name) {
    const auto config = models::read_config(golden_model(name));
    Random random(1);
    models::BertEncoder<> encoder(*config.bert(), random);
    models::load_pretrained(encoder, golden_model(name));
    const auto model = load_classifier(golden_model(name), MissingHead::drawn);
    const Tensor<int> ids({3}, {2, 6, 3});
    const Sequences sequences = Sequences::packed({3});
    CHECK(encoder.forward(ids, sequences).host() == model.bert->encoder.forward(ids, sequences).host());
  };
  for (const char* name : {"bert", "distilbert", "old", "sentence_mean", "sentence_cls/0_Transformer"})
    same_encoder(name);
}

TEST_CASE("models::save_pretrained: a saved model loads bit for bit") {
  for (const char* name : {"bert", "distilbert", "sharded", "pre_norm"}) {
    INFO(name);
    const TemporaryFolder folder;
    auto config = models::read_config(golden_model(name));
    auto model = load_classifier(golden_model(name));
    models::save_pretrained(model, config, text::read_tokenizer(golden_model(name)).files, folder.path());
    const auto saved = models::read_config(folder.path());
    CHECK(saved.labels == config.labels);
    CHECK(saved.model_type() == config.model_type());
    CHECK(saved.json.at("architectures") == nlohmann::json::array({models::classifier_architecture(config)}));
    CHECK(saved.json.at("dtype") == "float32");
    CHECK(!saved.json.contains("num_labels"));
    // All other members stay as they are.
    for (const auto& [key, value] : config.json.items())
      if (key != "dtype" && key != "classifier_dropout" && key != "num_labels" && key != "label2id")
        CHECK(saved.json.at(key) == value);
    CHECK(models::to_json(saved, models::classifier_architecture(saved)) == saved.json);
    auto loaded = load_classifier(folder.path());
    CHECK(same_bits(weights_of(loaded), weights_of(model)));
    CHECK(text::read_tokenizer(folder.path()).files == text::read_tokenizer(golden_model(name)).files);
  }
}

TEST_CASE("models::save_pretrained: the config.json of a new model has all members, and an absent folder is an error") {
  const TemporaryFolder folder;
  Random random(1);
  const models::BertConfig sizes{.family = models::BertFamily::distilbert,
                                 .vocabulary = 9,
                                 .D = 4,
                                 .layers = 1,
                                 .heads = 2,
                                 .ff_width = 6,
                                 .positions = 8,
                                 .types = 0,
                                 .activation = nn::Activation::gelu_tanh,
                                 .deviation = 0.1,
                                 .dropout = 0.3,
                                 .attention_dropout = 0.4,
                                 .classifier_dropout = 0.5};
  const models::PretrainedConfig config{sizes, {"no", "yes", "10"}};
  const SequenceClassifier<> model(config, random);
  models::save_pretrained(model, config, {}, folder.path());
  CHECK(folder.names() == std::set<std::string>{"config.json", "model.safetensors"});
  const auto saved = models::read_config(folder.path());
  CHECK(saved.labels == config.labels);
  CHECK(saved.json.at("label2id").at("yes") == 1);
  const models::BertConfig& read = *saved.bert();
  CHECK(
      std::tuple(read.family, read.vocabulary, read.D, read.layers, read.heads, read.ff_width, read.positions) ==
      std::tuple(sizes.family, sizes.vocabulary, sizes.D, sizes.layers, sizes.heads, sizes.ff_width, sizes.positions));
  CHECK(std::tuple(read.types, read.activation, read.deviation, read.dropout) ==
        std::tuple(sizes.types, sizes.activation, sizes.deviation, sizes.dropout));
  CHECK(std::tuple(read.attention_dropout, read.classifier_dropout) == std::tuple(0.4, 0.5));
  CHECK_THROWS_AS(models::save_pretrained(model, config, {}, folder / "absent"), FileError);

  const std::string weights = get(folder / "model.safetensors");
  const SequenceClassifier<> other(config, random);
  CHECK_THROWS_WITH(models::save_pretrained(other, {sizes, {"no", "\xff", "10"}}, {}, folder.path()),
                    "save_pretrained: a label or another text of the configuration is not UTF-8");
  CHECK(get(folder / "model.safetensors") == weights);
  CHECK(!models::BertEncoder<>(
             {.family = models::BertFamily::distilbert, .vocabulary = 9, .D = 4, .layers = 0, .heads = 2}, random)
             .embeddings.types);
}

TEST_CASE("models::parse_config: defaults are those of transformers") {
  const auto config = [](const char* type) {
    return models::parse_config(R"({"model_type": ")" + std::string(type) + "\"}", "f");
  };
  const auto bert = config("bert"), distilbert = config("distilbert");
  CHECK(bert.labels == std::vector<std::string>{"LABEL_0", "LABEL_1"});
  CHECK(bert.vocabulary() == 30522);
  CHECK(bert.positions() == 512);
  CHECK(bert.bert()->layers == 12);
  CHECK(bert.bert()->types == 2);
  CHECK(distilbert.bert()->layers == 6);
  CHECK(distilbert.bert()->types == 0);
  CHECK(distilbert.bert()->classifier_dropout == 0.2);
  const auto dropout = models::parse_config(
      R"({"model_type": "bert", "hidden_dropout_prob": 0.25, "classifier_dropout": null, "hidden_act": "relu"})", "f");
  CHECK(dropout.bert()->classifier_dropout == 0.25);
  CHECK(dropout.bert()->activation == nn::Activation::relu);
  CHECK(models::parse_config(R"({"model_type": "bert", "num_labels": 3})", "f").labels.size() == 3);
}

TEST_CASE("models::read_config: settings that no model supports are refused") {
  const TemporaryFolder folder;
  CHECK(error_of([&] { models::read_config(folder / "absent"); }) == folder / "absent: is not a folder");
  CHECK_THROWS_WITH(models::read_config(folder.path()), ContainsSubstring("/config.json: cannot be opened"));
  put(folder / "config.json", "[]");
  CHECK(error_of([&] { models::read_config(folder.path()); }) ==
        folder / "config.json: the file must be a JSON object");

  CHECK(config_error("bert", {{"model_type", nullptr}}) == "has no 'model_type'");
  CHECK(
      config_error("bert", {{"model_type", "gpt2"}}) ==
      "'model_type' is 'gpt2'; heddle reads bert, distilbert, roberta, xlm-roberta, camembert, mpnet, electra, albert, "
      "modernbert, nomic_bert, gte, new, deberta-v2 and heddle-prenorm");
  const auto size_error = [](const char* key, const nlohmann::json& value) {
    return '\'' + std::string(key) + "' is " + value.dump() + " but must be a whole number from 1 to 1000000";
  };
  for (const nlohmann::json& wrong : {nlohmann::json(0), nlohmann::json(-8), nlohmann::json(8.0), nlohmann::json("8"),
                                      nlohmann::json(1'000'001), nlohmann::json(std::uint64_t(-1))}) {
    for (const char* key : {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                            "max_position_embeddings", "type_vocab_size"})
      CHECK(config_error("bert", {{key, wrong}}) == size_error(key, wrong));
    for (const char* key : {"dim", "n_layers", "n_heads", "hidden_dim"})
      CHECK(config_error("distilbert", {{key, wrong}}) == size_error(key, wrong));
    CHECK(config_error("pre_norm", {{"hidden_size", wrong}}) == size_error("hidden_size", wrong));
  }
  CHECK(config_error("bert", {{"vocab_size", 1'000'001}}) == "no error");
  CHECK(config_error("bert", {{"vocab_size", 2'147'483'648}}) ==
        "'vocab_size' is 2147483648 but must be a whole number from 1 to 2147483647");
  CHECK(config_error("pre_norm", {{"num_hidden_layers", nullptr}}) == "has no 'num_hidden_layers'");
  for (const char* name : {"bert", "pre_norm"})
    CHECK(config_error(name, {{"num_attention_heads", 3}}) == "a width of 8 does not divide into 3 heads");
  const auto fraction_error = [](const char* key, const nlohmann::json& value) {
    return '\'' + std::string(key) + "' is " + value.dump() + " but must be a number in [0, 1)";
  };
  for (const char* key :
       {"hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout", "layer_norm_eps"})
    for (const nlohmann::json& wrong : {nlohmann::json(1), nlohmann::json(-0.1), nlohmann::json("0.1")})
      CHECK(config_error("bert", {{key, wrong}}) == fraction_error(key, wrong));
  for (const char* key : {"dropout", "attention_dropout", "seq_classif_dropout"})
    CHECK(config_error("distilbert", {{key, 1}}) == fraction_error(key, 1));
  CHECK(config_error("pre_norm", {{"embedding_dropout_prob", 1}}) == fraction_error("embedding_dropout_prob", 1));
  CHECK(config_error("bert", {{"hidden_dropout_prob", 65535. / 65536}}) == "no error");
  CHECK(config_error("bert", {{"hidden_dropout_prob", 0.999999}}) ==
        "'hidden_dropout_prob' is 0.999999, which is rounded to 1 and drops every element");
  CHECK(config_error("bert", {{"hidden_act", "mish"}}) ==
        "'hidden_act' is 'mish' but must be gelu, gelu_new, gelu_pytorch_tanh, relu, silu or swish");
  CHECK(config_error("distilbert", {{"activation", 1}}) == "'activation' is 1 but must be a string");
  CHECK(config_error("bert", {{"position_embedding_type", "relative_key"}}) ==
        "'position_embedding_type' is 'relative_key' but must be 'absolute'");
  CHECK(config_error("bert", {{"is_decoder", true}}) == "'is_decoder' is true; heddle reads encoders");
}

TEST_CASE("models::read_config: labels are the members 0, 1 and so on of id2label") {
  const auto labels = [](const char* id2label) {
    return models::parse_config(R"({"model_type": "bert", "id2label": )" + std::string(id2label) + "}", "f").labels;
  };
  CHECK(labels(R"({"1": "b", "0": "a"})") == std::vector<std::string>{"a", "b"});
  CHECK_THROWS_WITH(labels(R"({"0": "a", "2": "b"})"), "f: 'id2label' has 2 members, but no '1'");
  CHECK_THROWS_WITH(labels(R"({"00": "a"})"), "f: 'id2label' has 1 members, but no '0'");
  CHECK_THROWS_WITH(labels(R"({"0": 1})"), "f: '0' of 'id2label' is 1 but must be a string");
  CHECK_THROWS_WITH(labels(R"({"0": "a", "1": "a"})"), "f: 'id2label' has 'a' twice");
  CHECK_THROWS_WITH(labels("{}"), "f: 'id2label' is empty");
  CHECK_THROWS_WITH(labels("[]"), "f: 'id2label' is [] but must be an object");
  CHECK_THROWS_WITH(models::parse_config(R"({"model_type": "bert", "num_labels": 0})", "f"),
                    "f: 'num_labels' is 0 but must be a whole number from 1 to 100000");
}
