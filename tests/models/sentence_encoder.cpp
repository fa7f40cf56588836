#include <heddle/heddle.hpp>
#include <heddle/models/sentence_encoder.hpp>

#include <thread>

#include "../harness/compare.hpp"
#include "catch.hpp"
#include "model_folder.hpp"

using namespace heddle;
using namespace heddle::testing;
using models::Pooling;
using models::Precision;
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
    const bool mean = encoder.poolings() == std::vector{Pooling::mean};
    CHECK(mean == (name == std::string("sentence_mean")));
    CHECK((mean || encoder.poolings() == std::vector{Pooling::cls}));
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
  CHECK(encoder.poolings() == std::vector{Pooling::mean});
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
  const Index cat = text::read_tokenizer(folder.path()).vocabulary.id("cat");
  values[static_cast<std::size_t>(cat * table.shape()[1])] = std::nanf("");
  table.assign(Tensor<float>(table.shape(), values));
  models::save_pretrained(model, config, {}, folder.path());
  const SentenceEncoder encoder = SentenceEncoder::load(folder.path());
  CHECK_THROWS_WITH(encoder(std::vector<std::string>{"the dog", "the cat"}),
                    "SentenceEncoder: the result of text 1 is not finite; check the weights of the model");
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
  CHECK(
      same_bits(std::vector<float>(expected.end() - 8, expected.end()), encoder("the big dog sat on the mat").host()));
}

TEST_CASE("models::SentenceEncoder: applies poolings, Dense, LayerNorm and Normalize as sentence-transformers does") {
  for (const std::string name : {"sentence_max_dense", "sentence_weighted"}) {
    const SentenceEncoder encoder = SentenceEncoder::load(golden_model(name));
    const bool is_older = name == "sentence_max_dense";
    CHECK(encoder.poolings() == (is_older
                                     ? std::vector{Pooling::cls, Pooling::max, Pooling::mean}
                                     : std::vector{Pooling::weighted_mean, Pooling::last, Pooling::mean_sqrt_len}));
    CHECK(encoder.normalized() == is_older);
    CHECK(encoder.width() == (is_older ? 6 : 7));
    CHECK(encoder.row_width() == 8);
    std::vector<std::string> texts;
    std::vector<float> alone;
    for (const Case& c : golden_texts(name)) {
      INFO(name << ' ' << c.label);
      const auto vector = encoder(c.word("a")).host();
      expect_close(joined(vector), c["y"].values, part_of_largest(1e-5, c["y"].values));
      alone.insert(alone.end(), vector.begin(), vector.end());
      texts.push_back(c.word("a"));
      if (is_older) continue;
      const auto rows = encoder.rows(c.word("a"));
      CHECK(rows.shape() == c["rows"].shape);
      expect_close(joined(rows.host()), c["rows"].values, part_of_largest(1e-5, c["rows"].values));
    }
    CHECK(same_bits(encoder(texts).host(), alone));
  }
}

TEST_CASE("models::SentenceEncoder: puts prompts before texts, and truncates vectors") {
  const SentenceEncoder encoder = SentenceEncoder::load(golden_model("sentence_prompt"));
  CHECK(encoder.prompts() ==
        std::map<std::string, std::string>{{"document", ""}, {"passage", "a "}, {"query", "the dog "}});
  CHECK(encoder.width() == 27);
  CHECK_FALSE(encoder.normalized());
  const SentenceEncoder whole = encoder.with_dimensions(32), passage = encoder.with_prompt("passage"),
                        none = encoder.with_prompt_text(""), joined_to = encoder.with_prompt_text("unaff");
  CHECK(whole.normalized());
  CHECK(passage.width() == 27);
  std::vector<std::string> texts;
  std::vector<float> alone;
  for (const Case& c : golden_texts("sentence_prompt")) {
    INFO(c.label);
    const std::string& text = c.word("a");
    for (const auto& [by, role] :
         {std::pair{&encoder, "y"}, {&passage, "passage"}, {&none, "none"}, {&joined_to, "joined"}, {&whole, "whole"}})
      expect_close(joined((*by)(text).host()), c[role].values, part_of_largest(1e-5, c[role].values));
    CHECK(same_bits(encoder(text).host(), encoder.with_prompt("query")(text).host()));
    CHECK(same_bits(none(text).host(), encoder.with_prompt("document")(text).host()));
    // The prompt's tokens are part of the rows.
    CHECK(same_bits(encoder.rows(text).host(), none.rows("the dog " + text).host()));
    const auto vector = encoder(text).host();
    alone.insert(alone.end(), vector.begin(), vector.end());
    texts.push_back(text);
  }
  CHECK(same_bits(encoder(texts).host(), alone));
  const auto few = whole.with_dimensions(3)("a").host(), all = whole("a").host();
  CHECK(few == std::vector<float>(all.begin(), all.begin() + 3));
  CHECK_THROWS_WITH(encoder.with_dimensions(0),
                    "SentenceEncoder: a vector has 32 elements; it cannot be truncated to 0");
  CHECK_THROWS_WITH(encoder.with_dimensions(33),
                    "SentenceEncoder: a vector has 32 elements; it cannot be truncated to 33");
  CHECK_THROWS_WITH(
      encoder.with_prompt("title"),
      "SentenceEncoder: the folder has no prompt 'title'; its prompts are 'document', 'passage', 'query'");
}

TEST_CASE("models::SentenceEncoder: settings of prompts and dimensions") {
  const ModelFolder folder("sentence_prompt");
  const std::string file = folder / "config_sentence_transformers.json";
  const auto error = [&](const nlohmann::json& members) {
    folder.change("config_sentence_transformers.json", members);
    return encoder_error(folder);
  };
  CHECK(error({{"truncate_dim", 1000}, {"default_prompt_name", nullptr}}) == "no error");
  const SentenceEncoder encoder = SentenceEncoder::load(folder.path());
  CHECK(encoder.width() == 32);
  CHECK(same_bits(encoder("a").host(), encoder.with_prompt_text("")("a").host()));
  CHECK(error({{"truncate_dim", 0}}) == file + ": 'truncate_dim' is 0 but must be a whole number from 1 to 1000000000");
  CHECK(error({{"truncate_dim", nullptr}, {"default_prompt_name", "title"}}) ==
        file + ": 'default_prompt_name' is 'title', which is not one of 'prompts'");
  CHECK(error({{"default_prompt_name", 3}}) == file + ": 'default_prompt_name' is 3 but must be a string");
  CHECK(error({{"default_prompt_name", nullptr}, {"prompts", {{"query", 3}}}}) ==
        file + ": 'query' is 3 but must be a string");
  CHECK(error({{"prompts", 3}}) == file + ": 'prompts' is 3 but must be an object");
  CHECK(error({{"prompts", nullptr}, {"model_type", "SparseEncoder"}}) ==
        file + ": 'model_type' is 'SparseEncoder' but must be SentenceTransformer, MultiVectorEncoder or ColBERT");
  CHECK(error({{"model_type", nullptr}}) == "no error");
  CHECK(SentenceEncoder::load(folder.path()).prompts().size() == 2);
}

TEST_CASE("models::SentenceEncoder: gives the rows of late interaction") {
  for (const char* name : {"colbert", "multi_vector"}) {
    const SentenceEncoder encoder = SentenceEncoder::load(golden_model(name)), query = encoder.with_prompt("query"),
                          document = encoder.with_prompt("document");
    CHECK(encoder.width() == 0);
    CHECK(encoder.poolings().empty());
    CHECK(encoder.row_width() == 5);
    std::vector<std::string> texts;
    for (const Case& c : golden_texts(name)) texts.push_back(c.word("a"));
    for (const auto& [by, role] : {std::pair{&encoder, "none"}, {&query, "query"}, {&document, "document"}}) {
      const std::vector<Tensor<float>> all = by->rows(texts);
      REQUIRE(all.size() == texts.size());
      for (std::size_t i = 0; i < texts.size(); ++i) {
        const Case& c = golden_texts(name)[i];
        INFO(name << ' ' << role << ' ' << c.label);
        CHECK(all[i].shape() == c[role].shape);
        expect_close(joined(all[i].host()), c[role].values, part_of_largest(1e-5, c[role].values));
        CHECK(same_bits(by->rows(texts[i]).host(), all[i].host()));
      }
    }
    CHECK_THROWS_WITH(encoder("a"), "SentenceEncoder: the folder's modules have no Pooling; use rows()");
  }
}

TEST_CASE("models::SentenceEncoder: settings of late interaction") {
  const ModelFolder folder("colbert");
  const std::string file = folder / "config_sentence_transformers.json";
  const auto error = [&](const nlohmann::json& members) {
    folder.change("config_sentence_transformers.json", members);
    return encoder_error(folder);
  };
  const auto rows_of = [&](const char* prompt, const char* text) {
    return SentenceEncoder::load(folder.path()).with_prompt(prompt).rows(text);
  };
  const auto expanded = rows_of("query", "the cat"), document = rows_of("document", "the cat, the dog");
  CHECK(expanded.dim(0) == 9);
  CHECK(document.dim(0) == 7);  // without the comma
  // A folder that does not say what it is has the same settings.
  CHECK(error({{"model_type", nullptr}}) == "no error");
  CHECK(same_bits(rows_of("query", "the cat").host(), expanded.host()));
  CHECK(error({{"do_query_expansion", false}, {"skiplist_words", nullptr}}) == "no error");
  CHECK(rows_of("query", "the cat").dim(0) == 5);
  CHECK(same_bits(rows_of("document", "the cat, the dog").host(), document.host()));  // punctuation by default
  CHECK(error({{"skiplist_words", nlohmann::json::array()}}) == "no error");
  CHECK(rows_of("document", "the cat, the dog").dim(0) == 8);
  CHECK(error({{"skiplist_words", {1}}}) == file + ": 'skiplist_words' must be an array of strings");
  CHECK(error({{"skiplist_words", nullptr}, {"document_length", 2}}) ==
        file + ": 'document_length' is 2 but must be a whole number from 3 to 1000000000");
  CHECK(error({{"document_length", 4}}) == "no error");
  CHECK(rows_of("document", "the cat, the dog").dim(0) == 4);
  CHECK(error({{"do_query_expansion", true}, {"query_length", 13}}) ==
        file + ": queries are expanded to 13 tokens; the model has 12 positions");
  CHECK(error({{"query_length", nullptr}}) == file + ": queries are expanded to 32 tokens; the model has 12 positions");
  CHECK(error({{"query_expansion", {{"strategy", "most"}, {"length", 8}}}}) ==
        file + ": 'strategy' is 'most' but must be fixed or min");
  CHECK(error({{"query_expansion", {{"strategy", "min"}, {"token", "house"}}}}) ==
        file + ": queries are expanded with 'house', which the vocabulary does not have");
  // Tokens attend only to those of the query, in some of its texts: 4 + 8 tokens, and 12.
  CHECK(error({{"query_expansion", {{"token", nullptr}}}}) == "no error");
  const SentenceEncoder query = SentenceEncoder::load(folder.path()).with_prompt("query");
  const auto rows = query.rows(std::vector<std::string>{"a big big dog sat on the mat", "cat", "a big big dog"});
  CHECK(rows[0].dim(0) == 11);
  CHECK(rows[1].dim(0) == 8);
  CHECK(same_bits(rows[2].host(), query.rows("a big big dog").host()));
  CHECK(same_bits(rows[0].host(), query.rows("a big big dog sat on the mat").host()));

  const ModelFolder vectors("multi_vector");
  const std::string mask = vectors / "2_MultiVectorMask/config.json";
  put(mask, R"({"skiplist_words": ["the"], "skiplist_tasks": "query"})");
  const SentenceEncoder encoder = SentenceEncoder::load(vectors.path());
  CHECK(encoder.with_prompt("document").rows("the cat").dim(0) == 5);
  CHECK(encoder.with_prompt("query").rows("the cat").dim(0) == 7);
  put(mask, R"({"keep_only_token_ids": []})");
  CHECK(encoder_error(vectors) == "no error");
  put(mask, R"({"keep_only_token_ids": [3]})");
  CHECK(encoder_error(vectors) == mask + ": 'keep_only_token_ids' is given; heddle has 'skiplist_words' only");
}

TEST_CASE("models::SentenceEncoder: computes in bf16") {
  for (const char* name : {"sentence_mean", "sentence_cls", "sentence_max_dense", "sentence_weighted"}) {
    const SentenceEncoder encoder =
        SentenceEncoder::load(golden_model(name), {.device = Device::cpu, .precision = Precision::bf16});
    for (const Case& c : golden_texts(name)) {
      INFO(name << ' ' << c.label);
      expect_close(joined(encoder(c.word("a")).host()), c["y"].values, part_of_largest(0.1, c["y"].values));
    }
  }
  const SentenceEncoder late =
      SentenceEncoder::load(golden_model("colbert"), {.precision = Precision::bf16}).with_prompt("query");
  for (const Case& c : golden_texts("colbert"))
    expect_close(joined(late.rows(c.word("a")).host()), c["query"].values, part_of_largest(0.1, c["query"].values));
}

TEST_CASE("models::SentenceEncoder: embeds odd texts") {
  const SentenceEncoder encoder = SentenceEncoder::load(golden_model("sentence_weighted"));
  const auto vector = [&](const std::string& text) { return encoder(text).host(); };
  CHECK(same_bits(vector(""), vector(" \t\n")));
  CHECK(same_bits(vector("the \xff\xfe cat"), vector("the \xef\xbf\xbd\xef\xbf\xbd cat")));
  CHECK(same_bits(vector(std::string("the\0 cat", 8)), vector("the cat")));
  std::string longer;
  for (int i = 0; i < 10'000; ++i) longer += "the big dog ";
  CHECK(encoder.rows(longer).dim(0) == 12);
  CHECK(same_bits(vector(longer), vector("the big dog the big dog the big dog the big dog")));
  CHECK(encoder.rows(std::vector<std::string>{}).empty());
}

TEST_CASE("models::SentenceEncoder: copies share the model") {
  SentenceEncoder encoder = SentenceEncoder::load(golden_model("sentence_prompt"));
  const SentenceEncoder copy = encoder;
  const auto expected = encoder("a").host();
  const SentenceEncoder moved = std::move(encoder);
  CHECK(same_bits(moved("a").host(), expected));
  CHECK(same_bits(copy("a").host(), expected));
  // NOLINTBEGIN(bugprone-use-after-move)
  CHECK_THROWS_WITH(encoder("a"), "SentenceEncoder: the object was moved from");
  CHECK_THROWS_WITH(encoder.width(), "SentenceEncoder: the object was moved from");
  CHECK_THROWS_WITH(encoder.with_prompt("query"), "SentenceEncoder: the object was moved from");
  // NOLINTEND(bugprone-use-after-move)
}

TEST_CASE("models::SentenceEncoder: modules that heddle does not have are refused") {
  CHECK_THROWS_WITH(SentenceEncoder::load("/nowhere"), "/nowhere: is not a folder");
  CHECK(error_of([] { SentenceEncoder::load(golden_model("pre_norm")); }) ==
        golden_model("pre_norm") + "/config.json: describes a heddle-prenorm model, which cannot embed sentences");
  const ModelFolder folder("sentence_mean");
  const std::string path = folder / "modules.json";
  const auto error = [&](const nlohmann::json& modules) {
    put(path, modules.dump());
    return encoder_error(folder);
  };
  const auto transformer = module_of("Transformer", ""), pooling = module_of("Pooling", "1_Pooling");
  const std::string first = "; the first module, and only this one, must be a Transformer";
  CHECK(error({transformer, pooling}) == "no error");
  CHECK(error({transformer, pooling, module_of("Normalize", "")}) == "no error");
  CHECK(error({transformer, pooling, module_of("Dropout", "2_Dropout")}) == "no error");
  CHECK(error({transformer, pooling, pooling}) == "no error");
  CHECK(error({transformer, module_of("Normalize", ""), pooling}) == "no error");
  CHECK(error(nlohmann::json::array({transformer})) == path + ": has no Pooling");
  CHECK(error({pooling, transformer}) == path + ": module 0 is 'Pooling'" + first);
  CHECK(error({transformer, transformer}) == path + ": module 1 is 'Transformer'" + first);
  CHECK(error(nlohmann::json::array()) == path + ": has no modules");
  CHECK(error({transformer, pooling, module_of("CNN", "2_CNN")}) ==
        path +
            ": the module 'sentence_transformers.models.CNN' is one that heddle does not have; it has Transformer, "
            "Pooling, Dense, LayerNorm, Normalize and Dropout");
  CHECK(error({transformer, {{"type", "own.Pooling"}, {"path", "1_Pooling"}}}) ==
        path + ": the module 'own.Pooling' is not one of sentence-transformers");
  CHECK(error({transformer, module_of("Dense", "2_Dense")}).starts_with(folder / "2_Dense/config.json: "));
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

TEST_CASE("models::SentenceEncoder: a Dense or LayerNorm that does not fit is refused") {
  const ModelFolder folder("sentence_max_dense");
  const std::string dense = folder / "2_Dense/config.json", weights = folder / "2_Dense/model.safetensors";
  const auto error = [&](const char* file, const nlohmann::json& members) {
    folder.change(file, members);
    return encoder_error(folder);
  };
  const auto dense_error = [&](const nlohmann::json& members) { return error("2_Dense/config.json", members); };
  CHECK(dense_error({{"in_features", 8}}) ==
        dense + ": 'in_features' is 8 but must be 24, the width of the preceding module");
  CHECK(dense_error({{"in_features", 24}, {"out_features", 900'000'000}}) ==
        weights + ": 'linear.weight' is [6, 24] but must be [900000000, 24] as in config.json");
  CHECK(dense_error({{"out_features", 0}}) ==
        dense + ": 'out_features' is 0 but must be a whole number from 1 to 1000000000");
  CHECK(dense_error({{"out_features", 6}, {"bias", false}}) ==
        weights + ": has 'linear.bias', which config.json does not describe");
  CHECK(dense_error({{"bias", true}, {"use_residual", true}}) == weights + ": has no 'residual.weight'");
  const std::string known = "; heddle has Identity, Tanh, ReLU, GELU, Sigmoid, SiLU, Softplus of torch.nn";
  for (const std::string other : {"torch.nn.modules.activation.PReLU", "own.GELU"})
    CHECK(dense_error({{"use_residual", nullptr}, {"activation_function", other}}) ==
          dense + ": 'activation_function' is '" + other + '\'' + known);
  // The activation is tanh if none is named.
  CHECK(dense_error({{"activation_function", nullptr}}) == "no error");
  const auto by_default = SentenceEncoder::load(folder.path())("a").host();
  CHECK(dense_error({{"activation_function", "torch.nn.modules.activation.Tanh"}}) == "no error");
  CHECK(same_bits(SentenceEncoder::load(folder.path())("a").host(), by_default));
  CHECK(dense_error({{"module_input_name", "scores"}}) ==
        dense + ": 'module_input_name' is 'scores' but must be token_embeddings or sentence_embedding");
  CHECK(dense_error({{"module_input_name", nullptr}, {"module_output_name", "token_embeddings"}}) ==
        dense +
            ": 'module_output_name' is \"token_embeddings\"; heddle reads folders where it is \"sentence_embedding\"");
  CHECK(dense_error({{"module_output_name", nullptr}}) == "no error");
  CHECK(error("3_LayerNorm/config.json", {{"dimension", 7}}) ==
        folder / "3_LayerNorm/config.json: 'dimension' is 7 but must be 6, the width of the preceding module");
  folder.change("3_LayerNorm/config.json", {{"dimension", 6}});
  folder.rename("2_Dense/model.safetensors", [](const std::string& name) { return name == "linear.bias" ? "" : name; });
  CHECK(encoder_error(folder) == weights + ": does not hold the weights of this model; missing 1: 'linear.bias'");
  folder.remove("2_Dense/model.safetensors");
  put(folder / "2_Dense/pytorch_model.bin", "");
  CHECK(encoder_error(folder) ==
        weights + ": does not exist; the pytorch_model.bin beside it is a pickle, which heddle does not read");
  put(folder / "modules.json", nlohmann::json({module_of("Transformer", ""), module_of("LayerNorm", "3_LayerNorm"),
                                               module_of("Pooling", "1_Pooling")})
                                   .dump());
  CHECK(encoder_error(folder) ==
        folder / "3_LayerNorm/config.json: reads the vector of a text, but no Pooling precedes it");
}

TEST_CASE("models::SentenceEncoder: poolings and limits that heddle does not have are refused") {
  const ModelFolder folder("sentence_mean");
  const std::string pooling = folder / "1_Pooling/config.json";
  const auto pooling_error = [&](const char* config) {
    put(pooling, config);
    return encoder_error(folder);
  };
  const auto poolings = [&](const char* config) {
    put(pooling, config);
    return SentenceEncoder::load(folder.path()).poolings();
  };
  CHECK(pooling_error(R"({"pooling_mode": "mean"})") == "no error");
  CHECK(poolings(R"({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false})") ==
        std::vector{Pooling::cls});
  CHECK(poolings(R"({"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true})") ==
        std::vector{Pooling::cls, Pooling::mean});
  CHECK(poolings(R"({"pooling_mode": ["mean", "cls"]})") == std::vector{Pooling::mean, Pooling::cls});
  CHECK(poolings(R"({"pooling_mode": ["mean", "mean"]})") == std::vector{Pooling::mean, Pooling::mean});
  // pooling_mode replaces the other members.
  CHECK(poolings(R"({"pooling_mode": "mean", "pooling_mode_cls_token": true})") == std::vector{Pooling::mean});
  // The mean is the default.
  for (const char* none : {"{}", R"({"pooling_mode_mean_tokens": false})"})
    CHECK(poolings(none) == std::vector{Pooling::mean});
  const std::string known = " is not one of cls, max, mean, mean_sqrt_len_tokens, weightedmean, lasttoken";
  CHECK(pooling_error(R"({"pooling_mode": "min"})") == pooling + ": the pooling 'min'" + known);
  CHECK(pooling_error(R"({"pooling_mode": ["mean", ""]})") == pooling + ": the pooling ''" + known);
  CHECK(pooling_error(R"({"pooling_mode_min_tokens": true})") ==
        pooling + ": the pooling 'pooling_mode_min_tokens' is one that heddle does not have");
  CHECK(pooling_error(R"({"pooling_mode": 1})") == pooling + ": 'pooling_mode' is 1 but must be a string");
  CHECK(pooling_error(R"({"pooling_mode": [1]})") ==
        pooling + ": 'pooling_mode' must be a string or an array of strings");
  CHECK(pooling_error(R"({"pooling_mode": []})") == pooling + ": 'pooling_mode' is empty");
  CHECK(pooling_error(R"({"include_prompt": null})") ==
        pooling + ": 'include_prompt' is null but must be true or false");
  CHECK(pooling_error(R"({"pooling_mode_cls_token": 1})") ==
        pooling + ": 'pooling_mode_cls_token' is 1 but must be true or false");
  for (const char* wider : {R"({"pooling_mode": "mean", "embedding_dimension": 9})",
                            R"({"pooling_mode_mean_tokens": true, "word_embedding_dimension": 9})"})
    CHECK(pooling_error(wider) == pooling + ": is for rows of width 9; those of the model have width 8");
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

TEST_CASE("models::SentenceEncoder: settings of the transformer that heddle does not have are refused") {
  const ModelFolder folder("sentence_mean");
  const std::string file = folder / "sentence_bert_config.json";
  const auto error = [&](const char* content) {
    put(file, content);
    return encoder_error(folder);
  };
  CHECK(error(R"({"transformer_task": "feature-extraction", "module_output_name": "token_embeddings", "modality_config":
      {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}, "processing_kwargs": {}})") ==
        "no error");
  CHECK(error(R"({"transformer_task": "fill-mask"})") ==
        file + ": the transformer's task is 'fill-mask' but must be 'feature-extraction'");
  CHECK(error(R"({"processing_kwargs": {"text": {"max_length": 3}}})") ==
        file + ": 'processing_kwargs' is {\"text\":{\"max_length\":3}}; heddle reads folders where it is {}");
  CHECK(error(R"({"modality_config": {"text": {"method": "forward", "method_output_name": "pooler_output"}}})") ==
        file + ": 'method_output_name' is \"pooler_output\"; heddle reads folders where it is \"last_hidden_state\"");
  CHECK(error(R"({"modality_config": {"image": {}}})") == file + ": has no 'text'");
  CHECK(error_of([] {
          SentenceEncoder::load(golden_model("splade"));
        }).starts_with(golden_model("splade") + "/config_sentence_transformers.json: 'model_type' is 'SparseEncoder'"));
}
