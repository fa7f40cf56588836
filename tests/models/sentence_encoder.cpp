#include <heddle/heddle.hpp>
#include <heddle/models/sentence_encoder.hpp>

#include <thread>

#include "../harness/compare.hpp"
#include "catch.hpp"
#include "model_folder.hpp"

using namespace heddle;
using namespace heddle::testing;
using models::Pooling;
using models::SentenceEncoder;

namespace {

double length_of(const std::vector<float>& vector) {
  double square = 0;
  for (const float v : vector) square += static_cast<double>(v) * static_cast<double>(v);
  return std::sqrt(square);
}

std::string encoder_error(const ModelFolder& folder) {
  return error_of([&] { SentenceEncoder::load(folder.path()); });
}

nlohmann::json module_of(const std::string& kind, const std::string& path) {
  return {{"type", "sentence_transformers.models." + kind}, {"path", path}};
}

}  // namespace

TEST_CASE("models::SentenceEncoder: gives the vectors of sentence-transformers") {
  for (const char* name : {"sentence_mean", "sentence_cls"}) {
    const SentenceEncoder encoder = SentenceEncoder::load(golden_model(name));
    const bool mean = encoder.pooling() == Pooling::mean;
    CHECK(mean == (name == std::string("sentence_mean")));
    CHECK(encoder.normalized() == mean);
    CHECK(encoder.width() == 8);
    std::vector<std::string> texts;
    std::vector<double> expected;
    for (const Case& c : golden_texts(name)) {
      INFO(name << ' ' << c.label);
      const auto vector = encoder(c.word("a"));
      CHECK(vector.shape() == Shape({8}));
      expect_close(joined(vector.host()), c["y"].values, part_of_largest(1e-5, c["y"].values));
      if (mean) CHECK(length_of(vector.host()) == Approx(1));
      texts.push_back(c.word("a"));
      expected.insert(expected.end(), c["y"].values.begin(), c["y"].values.end());
    }
    const Tensor<float> all = encoder(texts);
    CHECK(all.shape() == Shape({static_cast<Index>(texts.size()), 8}));
    expect_close(joined(all.host()), expected, part_of_largest(1e-5, expected));
    CHECK(encoder(std::vector<std::string>{}).shape() == Shape({0, 8}));
  }
}

TEST_CASE("models::SentenceEncoder: a folder without modules.json gives normalized means") {
  const SentenceEncoder encoder = SentenceEncoder::load(golden_model("bert"));
  CHECK(encoder.pooling() == Pooling::mean);
  CHECK(encoder.normalized());
  CHECK(length_of(encoder("the cat").host()) == Approx(1));
  // This folder has the golden encoder without its limit of 8 tokens.
  const ModelFolder folder("sentence_mean");
  folder.remove("modules.json");
  const auto& c = golden_texts("sentence_mean")[0];
  REQUIRE(c.word("a") == "the cat sat on the mat.");
  const SentenceEncoder longer = SentenceEncoder::load(folder.path()),
                        limited = SentenceEncoder::load(golden_model("sentence_mean"));
  CHECK(longer("the cat sat on the mat").host() == limited("the cat sat on the mat").host());
  CHECK(longer(c.word("a")).host() != limited(c.word("a")).host());
}

TEST_CASE("models::SentenceEncoder: names the first text whose vector is not finite") {
  const ModelFolder folder("bert");
  const models::PretrainedConfig config = models::read_config(folder.path());
  auto model = models::make_without_values<models::SequenceClassifier<>>(config);
  models::load_pretrained(model, folder.path());
  auto& table = model.bert->encoder.embeddings.words.weight;
  std::vector<float> values = table.value().host();
  const Index cat = io::read_tokenizer(folder.path()).vocabulary.id("cat");
  values[static_cast<std::size_t>(cat * table.shape()[1])] = std::nanf("");
  table.assign(Tensor<float>(table.shape(), values));
  models::save_pretrained(model, config, {}, folder.path());
  const SentenceEncoder encoder = SentenceEncoder::load(folder.path());
  CHECK_THROWS_WITH(encoder(std::vector<std::string>{"the dog", "the cat"}),
                    "SentenceEncoder: the vector of text 1 is not finite; check the weights of the model");
}

TEST_CASE("models::SentenceEncoder: several threads use one encoder, in batches") {
  const SentenceEncoder encoder = SentenceEncoder::load(golden_model("sentence_mean"));
  std::vector<std::string> texts(520, "the big dog sat on the mat");
  texts[3] = "";
  const auto expected = encoder(texts).host();
  std::vector<int> wrong(3);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] { wrong[t] += encoder(texts).host() != expected; });
  for (auto& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(3));
  const auto last = encoder("the big dog sat on the mat").host();
  expect_close(joined(std::vector<float>(expected.end() - 8, expected.end())), joined(last),
               [](double) { return 1e-6; });
}

TEST_CASE("models::SentenceEncoder: modules that heddle does not have are refused") {
  CHECK_THROWS_WITH(SentenceEncoder::load("/nowhere"), "/nowhere: is not a folder");
  CHECK(error_of([] { SentenceEncoder::load(golden_model("pre_norm")); }) ==
        golden_model("pre_norm") + "/config.json: must describe a BERT or DistilBERT to embed sentences");
  const ModelFolder folder("sentence_mean");
  const std::string path = folder / "modules.json";
  const auto error = [&](const nlohmann::json& modules) {
    put(path, modules.dump());
    return encoder_error(folder);
  };
  const auto transformer = module_of("Transformer", ""), pooling = module_of("Pooling", "1_Pooling");
  const std::string order = "; heddle has Transformer, Pooling and Normalize, in this order";
  CHECK(error({transformer, pooling}) == "no error");
  CHECK(error({transformer, pooling, module_of("Normalize", "")}) == "no error");
  CHECK(error(nlohmann::json::array({transformer})) == path + ": the modules are 'Transformer'" + order);
  CHECK(error({pooling, transformer}) == path + ": the modules are 'Pooling, Transformer'" + order);
  CHECK(error({transformer, pooling, module_of("Dense", "2_Dense")}) ==
        path + ": the modules are 'Transformer, Pooling, Dense'" + order);
  CHECK(error(nlohmann::json::array()) == path + ": the modules are ''" + order);
  CHECK(error(nlohmann::json::object()) == path + ": must be a JSON array");
  CHECK(error({1, 2}) == path + ": a module must be a JSON object");
  CHECK(error({{{"path", ""}}, pooling}) == path + ": has no 'type'");
  for (const char* outside : {"/etc", "..", "../x", "a/../b"})
    CHECK(error({transformer, module_of("Pooling", outside)}) ==
          path + ": the module's path '" + outside + "' is outside the folder");
  CHECK(error({module_of("Transformer", "absent"), pooling}) == folder / "absent: is not a folder");
  put(path, "[");
  CHECK(encoder_error(folder).starts_with(path + ": is not JSON: at line 1"));
}

TEST_CASE("models::SentenceEncoder: poolings and limits that heddle does not have are refused") {
  const ModelFolder folder("sentence_mean");
  const std::string pooling = folder / "1_Pooling/config.json";
  const auto pooling_error = [&](const char* config) {
    put(pooling, config);
    return encoder_error(folder);
  };
  CHECK(pooling_error(R"({"pooling_mode": "mean"})") == "no error");
  CHECK(pooling_error(R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false})") == "no error");
  CHECK(SentenceEncoder::load(folder.path()).pooling() == Pooling::cls);
  CHECK(pooling_error(R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true})") ==
        pooling + ": has more than one pooling; heddle uses 'mean' or 'cls'");
  const std::string known = " is not one of 'mean' and 'cls'";
  CHECK(pooling_error(R"({"pooling_mode_max_tokens": true, "pooling_mode_mean_tokens": false})") ==
        pooling + ": the pooling 'pooling_mode_max_tokens'" + known);
  CHECK(pooling_error(R"({"pooling_mode": "lasttoken"})") == pooling + ": the pooling 'lasttoken'" + known);
  CHECK(pooling_error(R"({"pooling_mode_mean_tokens": false})") == pooling + ": the pooling 'none'" + known);
  // pooling_mode replaces the other members.
  CHECK(pooling_error(R"({"pooling_mode": "mean", "pooling_mode_cls_token": true})") == "no error");
  // The default of pooling_mode_mean_tokens is true.
  CHECK(pooling_error("{}") == "no error");
  CHECK(SentenceEncoder::load(folder.path()).pooling() == Pooling::mean);
  CHECK(pooling_error(R"({"pooling_mode_cls_token": true})") ==
        pooling + ": has more than one pooling; heddle uses 'mean' or 'cls'");
  CHECK(pooling_error(R"({"pooling_mode": 1})") == pooling + ": 'pooling_mode' is 1 but must be a string");
  for (const char* wider : {R"({"pooling_mode": "mean", "embedding_dimension": 9})",
                            R"({"pooling_mode_mean_tokens": true, "word_embedding_dimension": 9})"})
    CHECK(pooling_error(wider) == pooling + ": is for vectors of width 9; the model's width is 8");
  folder.remove("1_Pooling/config.json");
  CHECK_THROWS_WITH(SentenceEncoder::load(folder.path()), ContainsSubstring("1_Pooling/config.json: cannot be opened"));

  const ModelFolder limits("sentence_mean");
  const std::string file = limits / "sentence_bert_config.json";
  for (const char* length : {"0", "1"}) {
    put(file, R"({"max_seq_length": )" + std::string(length) + "}");
    CHECK(encoder_error(limits) ==
          file + ": 'max_seq_length' is " + length + " but must be a whole number from 2 to 1000000000");
  }
  // max_seq_length replaces the tokenizer's limit.
  limits.change("tokenizer_config.json", {{"model_max_length", 3}});
  const std::string words = "the big dog sat on the mat";
  const auto with_limit = [&](const char* limit) {
    put(file, R"({"max_seq_length": )" + std::string(limit) + "}");
    return SentenceEncoder::load(limits.path())(words).host();
  };
  const auto all = with_limit("8"), few = with_limit("null");
  CHECK(with_limit("3") == few);
  CHECK(all != few);
  limits.change("tokenizer_config.json", {{"model_max_length", nullptr}});
  CHECK(with_limit("8") == all);
  put(file, R"({"max_seq_length": null, "do_lower_case": true})");
  CHECK(encoder_error(limits) == "no error");
  limits.change("tokenizer_config.json", {{"do_lower_case", false}});
  CHECK(encoder_error(limits) ==
        limits.path() + ": 'do_lower_case' is true in sentence_bert_config.json, but the tokenizer is cased");
}
