// RoBERTa, XLM-RoBERTa and CamemBERT. The families' common tests are in bert.cpp.
#include <heddle/heddle.hpp>
#include <heddle/models/pretrained.hpp>

#include "../harness/parameter_gradients.hpp"
#include "relatives.hpp"

using namespace heddle;
using namespace heddle::testing;
using models::BertConfig;
using models::BertFamily;

namespace {

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

}  // namespace

TEST_CASE("models: a padded batch of RoBERTa gives the rows of its texts") {
  const auto encoder = read_model<models::BertEncoder<double>>(golden_model("roberta_encoder"));
  const Case& seven = relative_texts("roberta_encoder")[2];
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
  CHECK(embeddings.positions->weight.shape() == Shape({8, 6}));
  CHECK(embeddings.positions->longest() == 5);
  backward(sum(model.forward(Tensor<int>({4}, {0, 2, 5, 2}), Sequences::packed({4}))));
  const auto rows_other_than_zero = [](const Tensor<float>& x) {
    std::set<Index> rows;
    for (Index i = 0; i < x.size(); ++i)
      if (x.host()[static_cast<std::size_t>(i)] != 0) rows.insert(i / x.dim(1));
    return rows;
  };
  CHECK(rows_other_than_zero(embeddings.words.weight.grad()) == std::set<Index>{0, 5});
  CHECK(rows_other_than_zero(embeddings.positions->weight.grad()) == std::set<Index>{3, 4});
  for (const auto* table : {&embeddings.words.weight, &embeddings.positions->weight})
    CHECK(!rows_other_than_zero(table->value()).contains(2));
  const auto copy = clone(model);
  CHECK(copy.encoder.embeddings.positions->padding_id == 2);
}

TEST_CASE("models: a RoBERTa without a file is saved as roberta, and with its own sizes") {
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
  const FolderBatch batch("roberta");
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
  const FolderBatch texts("roberta_mask");
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

  CHECK(config_error("roberta", {{"model_type", "deberta"}}) ==
        "'model_type' is 'deberta'; heddle reads bert, distilbert, roberta, xlm-roberta, camembert, "
        "mpnet, electra, albert, modernbert, nomic_bert, gte, new, deberta-v2 and heddle-prenorm");
  nlohmann::json json = nlohmann::json::parse(get(golden_model("roberta") + "/config.json"));
  json["pad_token_id"] = nullptr;  // which merge_patch() would remove
  CHECK(error_of([&] { models::parse_config(json.dump(), "f"); }) ==
        "f: 'pad_token_id' is null but must be a token, because the positions of RoBERTa are counted from it");
  for (const nlohmann::json& wrong : {nlohmann::json(-1), nlohmann::json(61), nlohmann::json(1.5), nlohmann::json("1")})
    CHECK(config_error("roberta", {{"pad_token_id", wrong}}) ==
          "'pad_token_id' is " + wrong.dump() + " but must be a whole number from 0 to 60");
  CHECK(config_error("roberta", {{"pad_token_id", 25}}) ==
        "'max_position_embeddings' is 26, which leaves no position for a token: positions are counted from "
        "'pad_token_id', 25, plus 1");
  CHECK(config_error("roberta", {{"vocab_size", 1}, {"pad_token_id", nullptr}}) ==
        "'vocab_size' is 1, but 'pad_token_id' is 1 by default");
  CHECK(config_error("roberta", {{"max_position_embeddings", 3}}) == "no error");
  const auto size_error = [](const char* key, const nlohmann::json& value) {
    return '\'' + std::string(key) + "' is " + value.dump() + " but must be a whole number from 1 to 1000000";
  };
  for (const nlohmann::json& wrong : {nlohmann::json(0), nlohmann::json(-8), nlohmann::json(8.0), nlohmann::json("8")})
    for (const char* key : {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                            "max_position_embeddings", "type_vocab_size"})
      CHECK(config_error("roberta", {{key, wrong}}) == size_error(key, wrong));
  for (const char* key :
       {"hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout", "layer_norm_eps"})
    for (const nlohmann::json& wrong : {nlohmann::json(1), nlohmann::json(-0.1), nlohmann::json("0.1")})
      CHECK(config_error("roberta", {{key, wrong}}) ==
            '\'' + std::string(key) + "' is " + wrong.dump() + " but must be a number in [0, 1)");
  CHECK(config_error("roberta", {{"num_attention_heads", 5}}) == "a width of 32 does not divide into 5 heads");
  CHECK(config_error("roberta", {{"hidden_act", "mish"}}) ==
        "'hidden_act' is 'mish' but must be gelu, gelu_new, gelu_pytorch_tanh, relu, silu or swish");
  CHECK(config_error("roberta", {{"initializer_range", -1}}) ==
        "'initializer_range' is -1 but must be a number in [0, 100)");
  CHECK(config_error("roberta", {{"vocab_size", 0}}) ==
        "'vocab_size' is 0 but must be a whole number from 1 to 2147483647");
  CHECK(config_error("roberta", {{"position_embedding_type", "relative_key"}}) ==
        "'position_embedding_type' is 'relative_key' but must be 'absolute'");
  CHECK(config_error("roberta", {{"is_decoder", true}}) == "'is_decoder' is true; heddle reads encoders");
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
                    "BertEmbeddings: RoBERTa and MPNet need a padding_id, from which positions count");
  config.padding_id = 9;
  CHECK_THROWS_AS(models::BertEncoder<>(config, random), IndexError);
}
