#include <heddle/heddle.hpp>
#include <heddle/models/sparse_encoder.hpp>

#include <thread>

#include "../harness/compare.hpp"
#include "catch.hpp"
#include "model_folder.hpp"

using namespace heddle;
using namespace heddle::testing;
using models::SparseEncoder;
using models::SparseVector;

namespace {

std::string sparse_error(const ModelFolder& folder) {
  return error_of([&] { SparseEncoder::load(folder.path()); });
}

std::vector<double> dense(const SparseVector& vector, Index width) {
  std::vector<double> all(static_cast<std::size_t>(width), 0.0);
  for (std::size_t i = 0; i < vector.ids.size(); ++i)
    all[static_cast<std::size_t>(vector.ids[i])] = static_cast<double>(vector.weights[i]);
  return all;
}

bool is_equal(const SparseVector& a, const SparseVector& b) {
  return a.ids == b.ids && same_bits(a.weights, b.weights);
}

}  // namespace

TEST_CASE("models::SparseEncoder: gives the vectors of sentence-transformers") {
  for (const std::string name : {"splade", "splade_sum"}) {
    const SparseEncoder encoder = SparseEncoder::load(golden_model(name));
    CHECK(encoder.vocabulary() == 30);
    CHECK(encoder.token(8) == "Cat");
    std::vector<std::string> texts;
    std::vector<SparseVector> alone;
    for (const Case& c : golden_texts(name)) {
      INFO(name << ' ' << c.label);
      const SparseVector vector = alone.emplace_back(encoder(c.word("a")));
      texts.push_back(c.word("a"));
      REQUIRE(vector.weights.size() == vector.ids.size());
      CHECK(std::is_sorted(vector.ids.begin(), vector.ids.end()));
      CHECK(std::all_of(vector.weights.begin(), vector.weights.end(), [](float w) { return w > 0; }));
      CHECK((name == "splade" || vector.ids.size() == 5));
      expect_close(dense(vector, 30), c["y"].values, part_of_largest(1e-5, c["y"].values));
    }
    const std::vector<SparseVector> all = encoder(texts);
    REQUIRE(all.size() == alone.size());
    for (std::size_t i = 0; i < all.size(); ++i) CHECK(is_equal(all[i], alone[i]));
    CHECK(encoder(std::vector<std::string>{}).empty());

    const SparseEncoder coarse = SparseEncoder::load(golden_model(name), {.precision = models::Precision::bf16});
    for (const Case& c : golden_texts(name))
      if (name == "splade")
        expect_close(dense(coarse(c.word("a")), 30), c["y"].values, part_of_largest(0.1, c["y"].values));
  }
}

TEST_CASE("models::SparseEncoder: puts prompts before texts") {
  const SparseEncoder encoder = SparseEncoder::load(golden_model("splade_sum")), none = encoder.with_prompt_text("");
  CHECK(encoder.prompts() == std::map<std::string, std::string>{{"document", ""}, {"query", "the big "}});
  CHECK(is_equal(encoder("cat"), none("the big cat")));
  CHECK(is_equal(encoder("cat"), none.with_prompt("query")("cat")));
  CHECK_FALSE(is_equal(encoder("cat"), none("cat")));
  CHECK_THROWS_WITH(encoder.with_prompt("passage"),
                    "SparseEncoder: the folder has no prompt 'passage'; its prompts are 'document', 'query'");
}

TEST_CASE("models::SparseEncoder: several threads use one encoder, in batches") {
  const SparseEncoder encoder = SparseEncoder::load(golden_model("splade"));
  std::vector<std::string> texts(700, "the big dog sat on the mat");
  for (std::size_t i = 0; i < texts.size(); i += 3) texts[i] = "the cat";
  texts[3] = "\xff";
  const std::vector<SparseVector> expected = encoder(texts);
  std::vector<int> wrong(3);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      const std::vector<SparseVector> all = encoder(texts);
      for (std::size_t i = 0; i < all.size(); ++i) wrong[t] += !is_equal(all[i], expected[i]);
    });
  for (auto& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(3));
  for (const std::size_t i : {0U, 1U, 3U, 699U}) CHECK(is_equal(encoder(texts[i]), expected[i]));
}

TEST_CASE("models::SparseEncoder: names the first text whose weights are not finite") {
  const ModelFolder folder("splade");
  const models::PretrainedConfig config = models::read_config(folder.path());
  auto model = models::make_without_values<models::BertMaskedLm<>>(*config.bert());
  models::load_pretrained(model, folder.path());
  auto& table = model.encoder.embeddings.words.weight;
  std::vector<float> values = table.value().host();
  const Index cat = text::read_tokenizer(folder.path()).vocabulary.id("cat");
  values[static_cast<std::size_t>(cat * table.shape()[1])] = std::nanf("");
  table.assign(Tensor<float>(table.shape(), values));
  models::save_pretrained(model, config, {}, folder.path());
  // The decoder has the same matrix, so the logits of "cat" are NaN in each text.
  CHECK_THROWS_WITH(SparseEncoder::load(folder.path())("the dog"),
                    "SparseEncoder: the result of text 0 is not finite; check the weights of the model");
}

TEST_CASE("models::SparseEncoder: a masked language model without modules.json gives the largest weights") {
  const ModelFolder folder("splade");
  folder.remove("modules.json");
  CHECK(
      is_equal(SparseEncoder::load(folder.path())("the cat"), SparseEncoder::load(golden_model("splade"))("the cat")));
  CHECK(error_of([] {
          SparseEncoder::load(golden_model("bert"));
        }).starts_with(golden_model("bert") + "/model.safetensors: does not hold the weights of this model; missing"));
}

TEST_CASE("models::SparseEncoder: folders that heddle does not read are refused") {
  CHECK_THROWS_WITH(SparseEncoder::load("/nowhere"), "/nowhere: is not a folder");
  CHECK(error_of([] { SparseEncoder::load(golden_model("pre_norm")); }) ==
        golden_model("pre_norm") +
            "/config.json: describes a heddle-prenorm model, which cannot compute sparse vectors");
  CHECK(error_of([] { SparseEncoder::load(golden_model("sentence_mean")); }) ==
        golden_model("sentence_mean") +
            "/sentence_bert_config.json: the transformer's task is 'feature-extraction' but must be 'fill-mask'");
  const ModelFolder folder("splade_sum");
  const std::string pooling = folder / "1_SpladePooling/config.json", list = folder / "modules.json";
  const auto pooling_error = [&](const char* config) {
    put(pooling, config);
    return sparse_error(folder);
  };
  CHECK(pooling_error("{}") == "no error");
  CHECK(pooling_error(R"({"pooling_strategy": "mean"})") ==
        pooling + ": 'pooling_strategy' is 'mean' but must be max or sum");
  CHECK(pooling_error(R"({"activation_function": "tanh"})") ==
        pooling + ": 'activation_function' is 'tanh' but must be relu or log1p_relu");
  put(pooling, "{}");
  const std::string settings = folder / "config_sentence_transformers.json";
  folder.change("config_sentence_transformers.json", {{"max_active_dims", 0}});
  CHECK(sparse_error(folder) == settings + ": 'max_active_dims' is 0 but must be a whole number from 1 to 1000000000");
  folder.change("config_sentence_transformers.json", {{"max_active_dims", nullptr}, {"model_type", "CrossEncoder"}});
  CHECK(sparse_error(folder) ==
        settings + ": 'model_type' is \"CrossEncoder\"; heddle reads folders where it is \"SparseEncoder\"");
  folder.change("config_sentence_transformers.json", {{"model_type", nullptr}});
  const auto error = [&](std::vector<std::pair<const char*, const char*>> modules) {
    nlohmann::json all = nlohmann::json::array();
    for (const auto& [kind, path] : modules)
      all.push_back({{"type", std::string("sentence_transformers.sparse_encoder.models.") + kind}, {"path", path}});
    put(list, all.dump());
    return sparse_error(folder);
  };
  const std::pair transformer{"MLMTransformer", ""}, splade{"SpladePooling", "1_SpladePooling"};
  CHECK(error({transformer, splade}) == "no error");
  CHECK(error({transformer}) == list + ": has no SpladePooling");
  const std::string known =
      " is one that heddle does not have in a sparse encoder; it has a Transformer and a SpladePooling";
  CHECK(error({transformer, splade, splade}) ==
        list + ": the module 'sentence_transformers.sparse_encoder.models.SpladePooling'" + known);
  CHECK(error({transformer, {"SparseAutoEncoder", "1_SparseAutoEncoder"}}) ==
        list + ": the module 'sentence_transformers.sparse_encoder.models.SparseAutoEncoder'" + known);
}
