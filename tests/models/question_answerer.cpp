#include <heddle/heddle.hpp>
#include <heddle/models/question_answerer.hpp>

#include <thread>

#include "catch.hpp"
#include "model_folder.hpp"

using namespace heddle;
using namespace heddle::testing;
using models::Answer;
using models::AnswerOptions;
using models::QuestionAnswerer;

namespace {

constexpr const char* question_folders[] = {"question_bert", "question_distilbert"};

const std::vector<Case>& golden_questions(std::string_view name) { return golden(name, "models/questions.txt"); }

AnswerOptions answer_options(const Case& c) {
  AnswerOptions options;
  const auto value = [&](const char* key, Index absent) {
    return static_cast<Index>(c.option(key, static_cast<double>(absent)));
  };
  options.count = value("count", options.count);
  options.longest = value("longest", options.longest);
  options.may_be_empty = value("may_be_empty", 0) != 0;
  options.stride = value("stride", options.stride);
  options.max_length = value("max_length", options.max_length);
  return options;
}

void expect_answer(const Answer& found, const Answer& expected) {
  CHECK(found.begin == expected.begin);
  CHECK(found.end == expected.end);
  CHECK(found.text == expected.text);
  CHECK(std::abs(found.score - expected.score) <= 1e-5F * expected.score);
}

// Returns some questions and contexts, one of which is read in several spans.
std::pair<std::vector<std::string>, std::vector<std::string>> question_pairs() {
  std::pair<std::vector<std::string>, std::vector<std::string>> pairs;
  for (const Case& c : golden_questions("question_bert")) {
    if (c.has("max_length") || c.has("stride")) continue;
    pairs.first.push_back(c.word("question"));
    pairs.second.push_back(c.word("context"));
  }
  return pairs;
}

std::string answer_error(const AnswerOptions& options, const std::string& question = "is it a cat?",
                         const std::string& context = "the cat sat") {
  const QuestionAnswerer answer = QuestionAnswerer::load(golden_model("question_bert"));
  return error_of<Error>([&] { answer.best(question, context, options); });
}

}  // namespace

TEST_CASE("models::QuestionAnswerer: finds the answers of transformers' pipeline") {
  for (const char* name : question_folders) {
    const QuestionAnswerer answer = QuestionAnswerer::load(golden_model(name));
    for (const Case& c : golden_questions(name)) {
      INFO(name << ' ' << c.label);
      const std::string &question = c.word("question"), &context = c.word("context");
      const auto answers = answer.best(question, context, answer_options(c));
      const auto places = c["places"].as<std::size_t>();
      const auto& scores = c["scores"].values;
      REQUIRE(answers.size() == scores.size());
      for (std::size_t i = 0; i < answers.size(); ++i) {
        const std::size_t begin = places[2 * i], end = places[2 * i + 1];
        expect_answer(answers[i], {begin, end, context.substr(begin, end - begin), static_cast<float>(scores[i])});
      }
      if (!c.has("count")) expect_answer(answer(question, context, answer_options(c)), answers[0]);
    }
  }
}

TEST_CASE("models::QuestionAnswerer: a question has the same answer alone and beside others") {
  const auto [questions, contexts] = question_pairs();
  for (const char* name : question_folders) {
    const QuestionAnswerer answer = QuestionAnswerer::load(golden_model(name));
    const std::vector<Answer> answers = answer(questions, contexts);
    REQUIRE(answers.size() == questions.size());
    for (std::size_t i = 0; i < answers.size(); ++i) {
      INFO(name << ' ' << contexts[i]);
      expect_answer(answers[i], answer(questions[i], contexts[i]));
    }
    CHECK(answer(std::vector<std::string>{}, std::vector<std::string>{}).empty());
  }
}

TEST_CASE("models::QuestionAnswerer: offsets are bytes of any context") {
  const QuestionAnswerer answer = QuestionAnswerer::load(golden_model("question_distilbert"));
  // Words with the same tokens, and what stands before each: blanks, dropped characters, and bytes that are not UTF-8.
  const std::string plain[] = {"the", "cat", "sat", "on", "a", "cafe", "."};
  const std::string other[] = {"Th\xC3\xA9", "CAT", "s\xCC\x81\x61t", "ON", "a", "Caf\xC3\xA9", "."};
  const std::string before[] = {"\xFF\xC3 ", " \xFE", " \xE2\x82 ", "\t", " \xCC\x81 ", "\n \xC2\xA0", "\x80"};
  std::string context, changed;
  std::map<std::size_t, std::size_t> begins, ends;  // offsets in the changed context, by those in the plain one
  for (std::size_t i = 0; i < std::size(plain); ++i) {
    context += ' ';
    changed += before[i];
    begins[context.size()] = changed.size();
    context += plain[i];
    changed += other[i];
    ends[context.size()] = changed.size();
  }
  const auto expected = answer.best("is it ?", context, {.count = 50}),
             found = answer.best("IS \xFF it ?", changed, {.count = 50});
  REQUIRE(expected.size() == 28);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::size_t begin = begins.at(expected[i].begin), end = ends.at(expected[i].end);
    expect_answer(found[i], {begin, end, changed.substr(begin, end - begin), expected[i].score});
  }
}

TEST_CASE("models::QuestionAnswerer: equal answers in any casing are one, and other texts are not") {
  const QuestionAnswerer answer = QuestionAnswerer::load(golden_model("question_bert"));
  const auto count = [&](const std::string& context) {
    return answer.best("is it ?", context, {.count = 50, .longest = 1}).size();
  };
  CHECK(count("\xC3\x89T\xC3\x89 \xC3\xA9t\xC3\xA9 \xC3\x89t\xC3\xA9") == 1);              // ÉTÉ été Été
  CHECK(count("\xCE\x9F\xCE\x94\xCE\x9F\xCE\xA3 \xCE\xBF\xCE\xB4\xCE\xBF\xCF\x82") == 1);  // ΟΔΟΣ οδος
  CHECK(count("\xC4\xB0 i\xCC\x87") == 1);                                                 // U+0130, its lower case
  CHECK(count("\xC3\x89t\xC3\xA9 ete E\xCC\x81t\xC3\xA9") == 3);
  const auto words = answer.best("is it ?", "big cat big\tcat", {.count = 50, .longest = 2});
  CHECK(std::count_if(words.begin(), words.end(), [](const Answer& a) { return a.end - a.begin == 7; }) == 3);
}

TEST_CASE("models::QuestionAnswerer: a context without tokens has no answer") {
  const QuestionAnswerer answer = QuestionAnswerer::load(golden_model("question_bert"));
  expect_answer(answer("is it ?", " \n"), {});
  CHECK(answer.best("is it ?", "\xFF", {.count = 3}).empty());
  expect_answer(answer("is it ?", " ", {.may_be_empty = true}), {0, 0, "", 1});
}

TEST_CASE("models::QuestionAnswerer: the best answer does not depend on `count`") {
  const QuestionAnswerer answer = QuestionAnswerer::load(golden_model("question_bert"));
  for (const Case& c : golden_questions("question_bert")) {
    AnswerOptions options = answer_options(c);
    options.count = 1;
    const auto expected = answer.best(c.word("question"), c.word("context"), options);
    if (expected.empty()) continue;
    options.count = 9;
    expect_answer(answer(c.word("question"), c.word("context"), options), expected[0]);
  }
}

TEST_CASE("models::QuestionAnswerer: the model is given token types if the tokenizer returns them in transformers") {
  const ModelFolder folder("question_bert");
  const auto score = [&](const nlohmann::json& names) {
    folder.change("tokenizer_config.json", {{"model_input_names", names}});
    return QuestionAnswerer::load(folder.path())("is it ?", "the cat sat").score;
  };
  const float with_types = score(nullptr);
  CHECK(score({"input_ids", "token_type_ids", "attention_mask"}) == with_types);
  CHECK(score({"input_ids", "attention_mask"}) != with_types);
}

TEST_CASE("models::QuestionAnswerer: several threads use one object and its copies") {
  const QuestionAnswerer answer = QuestionAnswerer::load(golden_model("question_bert"));
  const auto [questions, contexts] = question_pairs();
  const auto all = [&questions = questions, &contexts = contexts](const QuestionAnswerer& by) {
    std::vector<std::pair<std::string, float>> answers;
    for (const Answer& a : by(questions, contexts)) answers.emplace_back(a.text, a.score);
    return answers;
  };
  const auto expected = all(answer);
  std::vector<int> wrong(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t, copy = answer] {
      for (int repeat = 0; repeat < 5; ++repeat) wrong[t] += all(repeat % 2 ? answer : copy) != expected;
    });
  for (auto& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4));
}

TEST_CASE("models::QuestionAnswerer: computes in bf16") {
  const auto [questions, contexts] = question_pairs();
  const QuestionAnswerer exact = QuestionAnswerer::load(golden_model("question_bert")),
                         rounded = QuestionAnswerer::load(golden_model("question_bert"),
                                                          {.precision = models::Precision::bf16});
  const AnswerOptions options{.longest = 1, .may_be_empty = true};
  for (std::size_t i = 0; i < questions.size(); ++i)
    CHECK(rounded(questions[i], contexts[i], options).score ==
          Approx(exact(questions[i], contexts[i], options).score).epsilon(0.2));
}

TEST_CASE("models::QuestionAnswerer: errors of texts and options") {
  CHECK(answer_error({}, "") == "QuestionAnswerer: question 0 is empty");
  CHECK(answer_error({}, "is it?", "") == "QuestionAnswerer: context 0 is empty");
  CHECK(answer_error({.count = 0}) == "QuestionAnswerer: count must be at least 1, got 0");
  CHECK(answer_error({.longest = 0}) == "QuestionAnswerer: longest must be at least 1, got 0");
  CHECK(answer_error({.stride = -1}) == "QuestionAnswerer: stride must be at least 0, got -1");
  CHECK(answer_error({.max_length = 0}) == "QuestionAnswerer: max_length must be at least 1, got 0");
  // The question has 5 tokens.
  CHECK(answer_error({.max_length = 11}) == "no error");
  CHECK(
      answer_error({.stride = 2, .max_length = 10}) ==
      "QuestionAnswerer: the stride is 2 but must be less than 2, the number of tokens of the context that fit beside "
      "question 0 into max_length, 10");
  CHECK(answer_error({.stride = 1, .max_length = 10}) == "no error");
  CHECK(
      answer_error({.stride = 0, .max_length = 8}) ==
      "QuestionAnswerer: question 0 has 5 tokens; with 3 special tokens and a token of the context, that is more than "
      "max_length, 8");
  QuestionAnswerer first = QuestionAnswerer::load(golden_model("question_bert"));
  CHECK(error_of<Error>([&] {
          first(std::vector<std::string>{"a", "a"}, std::vector<std::string>{"a"});
        }) == "QuestionAnswerer: each question needs a context, but the sizes are 2 and 1");
  CHECK(error_of<Error>([&] {
          first(std::vector<std::string>{"a", "a"}, std::vector<std::string>{"a", ""});
        }) == "QuestionAnswerer: context 1 is empty");
  const QuestionAnswerer second = std::move(first);
  CHECK_THROWS_WITH(first("a", "a"), "QuestionAnswerer: the object was moved from");
  CHECK(second("a", "a").text == "a");
}

TEST_CASE("models::QuestionAnswerer: a folder that does not fit is refused") {
  const auto load_error = [](const std::string& folder) { return error_of([&] { QuestionAnswerer::load(folder); }); };
  CHECK(load_error("/nowhere") == "/nowhere: is not a folder");
  CHECK(load_error(golden_model("pre_norm")) ==
        golden_model("pre_norm") + "/config.json: describes a heddle-prenorm model, which cannot answer questions");
  CHECK(load_error(golden_model("bert")) ==
        golden_model("bert") +
            "/model.safetensors: does not hold the weights of this model; missing 2: "
            "'qa_outputs.weight', 'qa_outputs.bias'; unexpected 4: 'bert.pooler.dense.bias', "
            "'bert.pooler.dense.weight', 'classifier.bias', 'classifier.weight'");
  const ModelFolder folder("question_bert");
  folder.change("tokenizer_config.json", {{"padding_side", "left"}});
  CHECK(load_error(folder.path()) == folder /
                                         "tokenizer_config.json: 'padding_side' is \"left\"; heddle reads WordPiece "
                                         "tokenizers where it is \"right\"");
}
