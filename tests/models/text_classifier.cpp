#include <heddle/heddle.hpp>
#include <heddle/models/text_classifier.hpp>

#include <thread>

#include "../harness/compare.hpp"
#include "catch.hpp"
#include "model_folder.hpp"

using namespace heddle;
using namespace heddle::testing;
using models::Prediction;
using models::TextClassifier;

namespace {

std::vector<double> softmax_of(const std::vector<double>& scores) {
  std::vector<double> p;
  double sum = 0;
  for (const double score : scores) sum += p.emplace_back(std::exp(score));
  for (double& value : p) value /= sum;
  return p;
}

std::string load_error(const ModelFolder& folder) {
  return error_of([&] { TextClassifier::load(folder.path()); });
}

}  // namespace

TEST_CASE("models::TextClassifier: classifies texts and pairs as transformers does") {
  for (const char* name : {"bert", "distilbert", "sharded", "pre_norm"}) {
    const TextClassifier classifier = TextClassifier::load(golden_model(name));
    std::vector<std::string> texts;
    std::vector<std::vector<float>> alone;
    for (const Case& c : golden_texts(name)) {
      INFO(name << ' ' << c.label);
      const bool is_pair = c.has("b");
      const Prediction prediction = is_pair ? classifier(c.word("a"), c.word("b")) : classifier(c.word("a"));
      const auto expected = softmax_of(c["y"].values);
      expect_close(joined(prediction.probabilities), expected, part_of_largest(1e-5, expected));
      const auto best = static_cast<std::size_t>(std::max_element(expected.begin(), expected.end()) - expected.begin());
      CHECK(prediction.index == static_cast<int>(best));
      CHECK(prediction.label == classifier.labels()[best]);
      if (is_pair) continue;
      texts.push_back(c.word("a"));
      alone.push_back(prediction.probabilities);
    }
    const std::vector<Prediction> predictions = classifier(texts);
    REQUIRE(predictions.size() == texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) CHECK(predictions[i].probabilities == alone[i]);
  }
}

TEST_CASE("models::TextClassifier: has the labels of the folder, and takes any string type and invalid UTF-8") {
  const TextClassifier classifier = TextClassifier::load(golden_model("bert"));
  CHECK(classifier.labels() == std::vector<std::string>{"bad", "so-so", "good"});
  CHECK(classifier.config().model_type() == "bert");
  const auto expected = classifier("the cat").probabilities;
  CHECK(classifier(std::string("the cat")).probabilities == expected);
  CHECK(classifier(std::string_view("the cat")).probabilities == expected);
  CHECK(classifier("the cat", std::string_view("")).probabilities != expected);
  CHECK(classifier(std::vector<std::string>{}).empty());
  CHECK(classifier("\xff\xfe").probabilities == classifier("").probabilities);  // invalid UTF-8 is dropped
}

TEST_CASE("models::TextClassifier: a pair has token types if the tokenizer returns them in transformers") {
  const ModelFolder folder("bert");
  const auto scores = [&](const nlohmann::json& tokenizer_config) {
    folder.change("tokenizer_config.json", tokenizer_config);
    return TextClassifier::load(folder.path())("the cat", "a dog").probabilities;
  };
  const auto config = models::read_config(folder.path());
  const auto tokenizer = models::detail::make_tokenizer(folder.path(), config).tokenizer;
  auto model = models::make_without_values<models::SequenceClassifier<>>(config);
  models::load_pretrained(model, folder.path());
  const text::Encoding pair = tokenizer.encode_pair("the cat", "a dog");
  const auto N = static_cast<Index>(pair.ids.size());
  const auto of = [&](const std::vector<std::int32_t>& values) {
    return Tensor<int>({N}, std::vector<int>(values.begin(), values.end()));
  };
  const Sequences one = Sequences::packed({static_cast<int>(N)});
  const RowwiseProducts rowwise;  // as the classifier
  const auto with_types = softmax(model.forward(of(pair.ids), one, {.types = of(pair.type_ids)}), -1).host(),
             without = softmax(model.forward(of(pair.ids), one), -1).host();
  REQUIRE(with_types != without);
  CHECK(scores(nlohmann::json::object()) == with_types);
  CHECK(scores({{"model_input_names", {"input_ids", "attention_mask"}}}) == without);
  CHECK(scores({{"model_input_names", {"input_ids", "token_type_ids"}}}) == with_types);
  CHECK(scores({{"model_input_names", nullptr}, {"tokenizer_class", "DistilBertTokenizer"}}) == without);
}

TEST_CASE("models::TextClassifier: more texts than one batch takes are classified in order") {
  const TextClassifier classifier = TextClassifier::load(golden_model("bert"));
  std::vector<std::string> texts(1000, "the cat sat");
  texts[400] = texts[999] = "the dog";
  const auto predictions = classifier(texts);
  REQUIRE(predictions.size() == 1000);
  const auto cat = classifier("the cat sat").probabilities, dog = classifier("the dog").probabilities;
  for (std::size_t i = 0; i < texts.size(); ++i)
    CHECK(predictions[i].probabilities == (i == 400 || i == 999 ? dog : cat));
}

TEST_CASE("models::TextClassifier: a text is truncated at the model's positions") {
  const TextClassifier classifier = TextClassifier::load(golden_model("bert"));
  std::string text = "the big dog sat on the mat . the cat";  // 10 tokens and two special ones
  const auto expected = classifier(text).probabilities;
  text += " is";
  CHECK(classifier(text).probabilities == expected);
  for (int i = 0; i < 1000; ++i) text += " big";
  CHECK(classifier(text).probabilities == expected);
  const ModelFolder folder("bert");
  folder.change("tokenizer_config.json", {{"model_max_length", 4}});
  const TextClassifier shorter = TextClassifier::load(folder.path());
  CHECK(shorter("the big dog").probabilities == classifier("the big").probabilities);
}

TEST_CASE("models::TextClassifier: several threads use one classifier") {
  const TextClassifier classifier = TextClassifier::load(golden_model("bert"));
  const std::vector<std::string> texts{"the cat sat", "", "a big dog, is it?"};
  const auto all = [&] {
    std::vector<float> values;
    for (const Prediction& p : classifier(texts))
      values.insert(values.end(), p.probabilities.begin(), p.probabilities.end());
    const auto pair = classifier("a cat", "a dog").probabilities;
    values.insert(values.end(), pair.begin(), pair.end());
    return values;
  };
  const auto expected = all();
  std::vector<int> wrong(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      for (int repeat = 0; repeat < 5; ++repeat) wrong[t] += all() != expected;
    });
  for (auto& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4));
}

TEST_CASE("models: errors of moved-from objects, of probabilities that are not finite, and of save_pretrained") {
  TextClassifier first = TextClassifier::load(golden_model("bert"));
  const TextClassifier second = std::move(first);
  CHECK_THROWS_WITH(first("a cat"), "TextClassifier: the object was moved from");
  CHECK(second("a cat").probabilities.size() == second.labels().size());
  const ModelFolder folder("bert");
  models::PretrainedConfig config = models::read_config(folder.path());
  auto model = models::make_without_values<models::SequenceClassifier<>>(config);
  models::load_pretrained(model, folder.path());
  model.bert->classifier.bias->assign(full<float>(model.bert->classifier.bias->shape(), std::nanf("")));
  models::save_pretrained(model, config, {}, folder.path());
  CHECK_THROWS_WITH(TextClassifier::load(folder.path())("a cat"),
                    "TextClassifier: the result of text 0 is not finite; check the weights of the model");
  const auto save_error = [&](const std::map<std::string, std::string>& tokenizer_files) {
    return error_of<Error>([&] { models::save_pretrained(model, config, tokenizer_files, folder.path()); });
  };
  for (const char* name : {"../vocab.txt", "", "config.json"})
    CHECK(save_error({{name, "x"}}) ==
          "save_pretrained: " + io::quoted_name(name) + " is not the name of a tokenizer's file");
  for (auto change : {+[](models::BertConfig& c) { ++c.layers; }, +[](models::BertConfig& c) { c.D *= 2; },
                      +[](models::BertConfig& c) { c.activation = nn::Activation::relu; },
                      +[](models::BertConfig& c) { c.eps = 0.5; }}) {
    const auto right = config;
    change(std::get<models::BertConfig>(config.sizes));
    CHECK(save_error({}) ==
          "save_pretrained: the configuration is not the model's: its kind, sizes, activation or eps differ");
    config = right;
  }
  const auto right = config;
  std::get<models::BertConfig>(config.sizes).dropout = 1;
  CHECK(save_error({}) ==
        "save_pretrained: the configuration is not valid: config.json: 'hidden_dropout_prob' is 1.0 but must be a "
        "number in [0, 1)");
  config = right;
  config.json["hidden_act"] = nullptr;
  CHECK(save_error({}) == "no error");
  config.labels[0] = config.labels[1];
  CHECK(save_error({}) == "save_pretrained: the configuration is not valid: config.json: 'id2label' has " +
                              io::quoted_name(config.labels[1]) + " twice");
  config.labels.emplace_back("another");
  CHECK(save_error({}).starts_with("save_pretrained: the model has "));
}

TEST_CASE("models::TextClassifier: a folder that does not fit together is refused") {
  CHECK_THROWS_WITH(TextClassifier::load("/nowhere"), "/nowhere: is not a folder");
  CHECK_THROWS_WITH(TextClassifier::load(golden_model("old")), ContainsSubstring("; missing 4: "));
  const ModelFolder folder("bert");
  put(folder / "vocab.txt", get(folder / "vocab.txt") + "extra\n");
  CHECK(load_error(folder) == folder / "vocab.txt: has 31 tokens; the model has 30 embeddings");
  put(folder / "vocab.txt", "[UNK]\n[CLS]\n");
  CHECK(load_error(folder) == folder / "vocab.txt: has no token '[SEP]'");
  folder.change("tokenizer_config.json", {{"model_max_length", 1}});
  CHECK(load_error(folder) == folder / "tokenizer_config.json: 'model_max_length' is 1; a text has 2 special tokens");
  folder.remove("vocab.txt");
  CHECK(load_error(folder) == folder.path() + ": has neither tokenizer.json nor vocab.txt");
  const ModelFolder no_weights("bert");
  no_weights.remove("model.safetensors");
  CHECK_THROWS_WITH(TextClassifier::load(no_weights.path()), ContainsSubstring("model.safetensors: cannot be opened"));
}

TEST_CASE("models::TextClassifier: several labels have probabilities of their own, and a regression has values") {
  for (const char* name : {"multi", "regression"}) {
    const TextClassifier classifier = TextClassifier::load(golden_model(name));
    const bool is_multi = classifier.problem() == models::Problem::multi_label;
    CHECK(is_multi == (name == std::string("multi")));
    std::vector<std::string> texts;
    for (const Case& c : golden_heads(name)) {
      INFO(name << ' ' << c.label);
      const Prediction p = c.has("b") ? classifier(c.word("a"), c.word("b")) : classifier(c.word("a"));
      const std::vector<double>& expected = c["y"].values;
      expect_close(joined(is_multi ? p.probabilities : p.values), expected, part_of_largest(1e-5, expected));
      CHECK((is_multi ? p.values : p.probabilities).empty());
      std::vector<std::size_t> above;
      for (std::size_t i = 0; i < expected.size(); ++i)
        if (is_multi && expected[i] >= 0.5) above.push_back(i);
      CHECK(p.indices == above);
      CHECK(p.label == classifier.labels()[static_cast<std::size_t>(p.index)]);
      if (!c.has("b")) texts.push_back(c.word("a"));
    }
    const auto all = classifier(texts);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      CHECK(all[i].probabilities == classifier(texts[i]).probabilities);
      CHECK(all[i].values == classifier(texts[i]).values);
    }
  }
  const TextClassifier classifier = TextClassifier::load(golden_model("multi"));
  CHECK(classifier.with_threshold(0)("the cat").indices == std::vector<std::size_t>{0, 1, 2});
  CHECK(classifier.with_threshold(1)("the cat").indices.empty());
  CHECK_THROWS_WITH(classifier.with_threshold(1.5F), "TextClassifier: a threshold must be in [0, 1], got 1.5");
}

TEST_CASE("models::TextClassifier: a problem that contradicts the labels, or is unknown, is refused") {
  const ModelFolder folder("reranker_plain");
  const std::string file = folder / "config.json";
  const auto error = [&](const char* problem) {
    folder.change("config.json", {{"problem_type", problem}});
    return load_error(folder);
  };
  CHECK(error("single_label_classification") ==
        file + ": has one class, but 'problem_type' is \"single_label_classification\"; a classifier has at least two");
  CHECK(error("multi") == file +
                              ": 'problem_type' is 'multi' but must be single_label_classification, "
                              "multi_label_classification or regression");
  CHECK(error("multi_label_classification") == "no error");
  CHECK(TextClassifier::load(folder.path())("a").probabilities.size() == 1);
  CHECK(error("regression") == "no error");
  folder.change("config.json", {{"problem_type", nullptr}});
  CHECK(TextClassifier::load(folder.path()).problem() == models::Problem::regression);
  folder.change("config.json", {{"id2label", nlohmann::json::object()}});
}

TEST_CASE("models::TextClassifier: pairs in a batch have the bits of a pair alone") {
  const TextClassifier classifier = TextClassifier::load(golden_model("bert"));
  const std::vector<std::string> a{"the cat", "", "is it a cat?"}, b{"a dog", "the", "the big big dog sat on the mat"};
  const auto all = classifier(a, b);
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(all[i].probabilities == classifier(a[i], b[i]).probabilities);
  CHECK_THROWS_AS(classifier(a, {"one"}), Error);
}
