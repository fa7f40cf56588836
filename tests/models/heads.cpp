// The heads of transformers' and sentence-transformers' folders: Reranker, TokenClassifier and FillMask.
#include <heddle/heddle.hpp>
#include <heddle/models/fill_mask.hpp>
#include <heddle/models/reranker.hpp>
#include <heddle/models/token_classifier.hpp>

#include <thread>

#include "../harness/compare.hpp"
#include "catch.hpp"
#include "model_folder.hpp"

using namespace heddle;
using namespace heddle::testing;
using models::Aggregation;
using models::Entity;
using models::FillMask;
using models::Precision;
using models::Reranker;
using models::TokenClassifier;

namespace {

constexpr std::pair<const char*, Aggregation> aggregations[] = {{"none", Aggregation::none},
                                                                {"simple", Aggregation::simple},
                                                                {"first", Aggregation::first},
                                                                {"average", Aggregation::average},
                                                                {"max", Aggregation::max}};

// Compares entities with those of a golden case: labels and places must be equal.
void expect_entities(const std::vector<Entity>& found, const Case& c, const std::string& how) {
  INFO(how);
  std::string labels;
  std::vector<double> places, scores;
  for (const Entity& e : found) {
    labels += (labels.empty() ? "" : " ") + e.label;
    places.insert(places.end(), {static_cast<double>(e.begin), static_cast<double>(e.end)});
    scores.push_back(static_cast<double>(e.score));
  }
  CHECK((labels.empty() ? "-" : labels) == c.word(how));
  CHECK(places == c[how + "_places"].values);
  expect_close(scores, c[how + "_scores"].values, [](double) { return 1e-5; });
}

}  // namespace

TEST_CASE("models::Reranker: gives the scores of sentence-transformers, alone and among others to the bit") {
  for (const char* name : {"reranker", "reranker_old", "reranker_plain"}) {
    const Reranker reranker = Reranker::load(golden_model(name));
    CHECK(reranker.is_sigmoid() == (name == std::string("reranker_plain")));
    std::vector<std::string> queries, texts;
    std::vector<float> alone;
    std::vector<double> expected;
    for (const Case& c : golden_heads(name)) {
      INFO(name << ' ' << c.label);
      queries.push_back(c.word("a"));
      texts.push_back(c.word("b"));
      alone.push_back(reranker.score(queries.back(), texts.back()));
      expected.push_back(c["y"].values[0]);
    }
    expect_close(std::vector<double>(alone.begin(), alone.end()), expected, part_of_largest(1e-5, expected));
    CHECK(reranker.score(queries, texts) == alone);
    const std::vector<float> of_first = reranker.score(queries[0], texts);
    for (std::size_t i = 0; i < texts.size(); ++i) CHECK(of_first[i] == reranker.score(queries[0], texts[i]));
    const Reranker in_bf16 = Reranker::load(golden_model(name), {.precision = Precision::bf16});
    for (std::size_t i = 0; i < texts.size(); ++i)
      CHECK(in_bf16.score(queries[i], texts[i]) == Approx(alone[i]).margin(0.05));
  }
}

TEST_CASE("models::Reranker: ranks texts, best first") {
  const Reranker reranker = Reranker::load(golden_model("reranker"));
  const std::vector<std::string> texts{"the cat sat", "a", "the cat sat", "it is big", "the dog"};
  const std::vector<float> scores = reranker.score("the cat", texts);
  const auto ranked = reranker.rank("the cat", texts);
  REQUIRE(ranked.size() == texts.size());
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    CHECK(ranked[i].score == scores[ranked[i].index]);
    if (i == 0) continue;
    CHECK(ranked[i - 1].score >= ranked[i].score);
    if (ranked[i - 1].score == ranked[i].score) CHECK(ranked[i - 1].index < ranked[i].index);
  }
  const auto best = reranker.rank("the cat", texts, 2);
  REQUIRE(best.size() == 2);
  CHECK(best[1].index == ranked[1].index);
  CHECK(reranker.rank("the cat", {}).empty());
  const Reranker sigmoid = reranker.with_sigmoid(true);
  CHECK(sigmoid.score("the cat", "a") == Approx(1 / (1 + std::exp(-scores[1]))));
  CHECK(reranker.score("the cat", "a") == scores[1]);
}

TEST_CASE("models::Reranker: refuses folders that are no rerankers, and settings that it does not have") {
  CHECK(error_of([] { Reranker::load(golden_model("bert")); }) ==
        golden_model("bert") + "/config.json: has 3 labels; a reranker has one");
  const ModelFolder folder("reranker");
  const auto error = [&](const nlohmann::json& settings) {
    folder.change("config_sentence_transformers.json", settings);
    return error_of([&] { Reranker::load(folder.path()); });
  };
  const std::string file = folder / "config_sentence_transformers.json";
  CHECK(error({{"activation_fn", "torch.nn.modules.activation.Tanh"}}) ==
        file + ": 'activation_fn' is 'torch.nn.modules.activation.Tanh'; heddle has Sigmoid and Identity");
  CHECK(error({{"activation_fn", 3}}) == file + ": 'activation_fn' is 3 but must be a string");
  CHECK(error({{"activation_fn", "own.module.Scale"}}) == "no error");
  CHECK(Reranker::load(folder.path()).is_sigmoid());
  CHECK(error({{"default_prompt_name", "query"}}) ==
        file + ": 'default_prompt_name' is given; a reranker puts no prompt before a query");
  folder.change("config_sentence_transformers.json", {{"default_prompt_name", nullptr}});
  const auto modules_error = [&](const nlohmann::json& modules) {
    put(folder / "modules.json", modules.dump());
    return error_of([&] { Reranker::load(folder.path()); });
  };
  const nlohmann::json transformer{{"type", "sentence_transformers.models.Transformer"}, {"path", ""}};
  CHECK(modules_error(nlohmann::json::array({transformer})) == "no error");
  CHECK(modules_error({transformer, {{"type", "a.Dense"}, {"path", "1_Dense"}}}) ==
        folder / "modules.json" + ": has the module 'a.Dense'; a reranker has one Transformer, with an empty path");
  CHECK(modules_error(nlohmann::json::array()) ==
        folder / "modules.json" + ": has 0 modules; a reranker has one Transformer");
  CHECK(modules_error(3) == folder / "modules.json" + ": must be a JSON array");
  folder.remove("modules.json");  // then the settings are not read
  CHECK(Reranker::load(folder.path()).is_sigmoid());
  folder.change("config.json", {{"sentence_transformers", {{"activation_fn", "torch.nn.modules.linear.Identity"}}}});
  CHECK_FALSE(Reranker::load(folder.path()).is_sigmoid());
  Reranker first = Reranker::load(folder.path());
  const Reranker second = std::move(first);
  CHECK_THROWS_WITH(first.score("a", "b"), "Reranker: the object was moved from");
}

TEST_CASE("models::TokenClassifier: gives the probabilities and entities of transformers, to the bit in a batch") {
  for (const char* name : {"tagger", "tagger_distilbert"}) {
    const TokenClassifier tagger = TokenClassifier::load(golden_model(name));
    CHECK(tagger.labels() == std::vector<std::string>{"O", "B-PER", "I-PER", "B-LOC", "I-LOC"});
    std::vector<std::string> texts;
    for (const Case& c : golden_heads(name)) {
      INFO(name << ' ' << c.label);
      texts.push_back(c.word("a"));
      for (const auto& [how, aggregation] : aggregations)
        expect_entities(tagger.entities(texts.back(), aggregation), c, how);
    }
    for (const auto& [how, aggregation] : aggregations) {
      const auto all = tagger.entities(texts, aggregation);
      for (std::size_t i = 0; i < texts.size(); ++i) CHECK(all[i] == tagger.entities(texts[i], aggregation));
    }
    const auto words = tagger(texts);
    for (std::size_t i = 0; i < texts.size(); ++i) CHECK(words[i] == tagger(texts[i]));
  }
}

TEST_CASE("models::TokenClassifier: words have the label of their first token, and bytes of the text") {
  const TokenClassifier tagger = TokenClassifier::load(golden_model("tagger"));
  const std::string text = "unaffable cats, it's café";
  std::vector<std::string> words;
  for (const models::TaggedWord& word : tagger(text)) words.push_back(text.substr(word.begin, word.end - word.begin));
  CHECK(words == std::vector<std::string>{"unaffable", "cats", ",", "it", "'", "s", "café"});
  const auto tokens = tagger.entities(text, Aggregation::none);
  for (const models::TaggedWord& word : tagger(text)) {
    const auto same =
        std::find_if(tokens.begin(), tokens.end(), [&](const Entity& token) { return token.begin == word.begin; });
    CHECK((same == tokens.end() ? "O" : same->label) == word.label);
  }
  CHECK(tagger("").empty());
  CHECK(tagger.entities("\xff\xfe").empty());
  CHECK(tagger(std::vector<std::string>{}).empty());
}

TEST_CASE("models::TokenClassifier: BIOES and BILOU labels end entities") {
  const ModelFolder folder("tagger");
  const std::string text = "the cat sat on the mat the dog sat on a big mat";
  const auto entities_of = [&](const nlohmann::json& labels) {
    folder.change("config.json", {{"id2label", labels}, {"label2id", nullptr}});
    return TokenClassifier::load(folder.path()).entities(text);
  };
  const auto plain = entities_of({{"0", "O"}, {"1", "B-PER"}, {"2", "I-PER"}, {"3", "B-LOC"}, {"4", "I-LOC"}});
  const auto ends = entities_of({{"0", "O"}, {"1", "B-PER"}, {"2", "E-PER"}, {"3", "S-LOC"}, {"4", "I-LOC"}});
  const auto last = entities_of({{"0", "O"}, {"1", "B-PER"}, {"2", "L-PER"}, {"3", "U-LOC"}, {"4", "I-LOC"}});
  CHECK(ends == last);
  CHECK(ends.size() >= plain.size());
  for (const Entity& e : ends) CHECK((e.label == "PER" || e.label == "LOC"));
}

TEST_CASE("models::TokenClassifier: refuses folders without its head") {
  const std::string error = error_of([] { TokenClassifier::load(golden_model("mask")); });
  CHECK_THAT(error, ContainsSubstring("missing 2: 'classifier.weight', 'classifier.bias'"));
  CHECK(error_of([] { TokenClassifier::load(golden_model("pre_norm")); }) ==
        golden_model("pre_norm") + "/config.json: describes a heddle-prenorm model, which cannot label tokens");
}

TEST_CASE("models::FillMask: gives the probabilities of transformers, alone and among others to the bit") {
  for (const char* name : {"mask", "mask_distilbert"}) {
    const FillMask fill = FillMask::load(golden_model(name));
    std::vector<std::string> texts;
    for (const Case& c : golden_heads(name)) {
      INFO(name << ' ' << c.label);
      texts.push_back(c.word("a"));
      const auto masks = fill(texts.back(), 1000);
      const std::vector<double>& expected = c["y"].values;
      const auto tokens = static_cast<std::size_t>(c["y"].shape[1]);
      REQUIRE(masks.size() == expected.size() / tokens);
      for (std::size_t m = 0; m < masks.size(); ++m) {
        REQUIRE(masks[m].size() == tokens);
        for (std::size_t i = 0; i < tokens; ++i) {
          const auto& [id, token, probability] = masks[m][i];
          CHECK(probability == Approx(expected[m * tokens + static_cast<std::size_t>(id)]).epsilon(1e-5));
          if (i > 0) CHECK(masks[m][i - 1].probability >= probability);
        }
      }
    }
    const auto all = fill(texts);
    for (std::size_t t = 0; t < texts.size(); ++t) {
      CHECK(all[t] == fill(texts[t]));
      for (const auto& mask : all[t]) CHECK(mask.size() == 5);
    }
    CHECK_THROWS_WITH(fill("the cat"), "FillMask: text 0 has no [MASK] among its 4 tokens");
    CHECK_THROWS_WITH(fill(std::vector<std::string>{"a [MASK]", "the the the the the the the the the the the [MASK]"}),
                      "FillMask: text 1 has no [MASK] among its 12 tokens, to which it was truncated");
    CHECK(fill("[MASK]", 0)[0].empty());
  }
}

TEST_CASE("models::FillMask: several threads use one model") {
  const FillMask fill = FillMask::load(golden_model("mask"));
  const auto expected = fill("the [MASK] sat on")[0][0];
  std::vector<int> wrong(3);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) wrong[t] += fill("the [MASK] sat on")[0][0] != expected;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(3));
}
