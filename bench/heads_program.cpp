// heads_program: applies the heads of a Hugging Face folder to texts for bench/peers/heads_compare.py and
// heads_speed.py. Reads a JSON object from the standard input and prints one.
#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>

#include <heddle/heddle.hpp>
#include <heddle/models/fill_mask.hpp>
#include <heddle/models/reranker.hpp>
#include <heddle/models/sentence_encoder.hpp>
#include <heddle/models/text_classifier.hpp>
#include <heddle/models/token_classifier.hpp>

using namespace heddle;
namespace {

using nlohmann::json;
using Texts = std::vector<std::string>;

// Returns the time of a call in seconds, or the results of a call and whether those of single texts have the same bits.
template <class F, class Same>
json result_of(const json& input, F&& compute, Same&& same_alone) {
  if (!input.value("time", false)) {
    json result{{"results", compute()}};
    if (input.value("alone", true)) result["same_alone"] = same_alone();
    return result;
  }
  compute();
  const auto begin = std::chrono::steady_clock::now();
  compute();
  return {{"seconds", std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()}};
}

// Returns the logits of all tokens of a text. Tokens of the second text have the type 1.
template <class A>
std::vector<float> logits_of(const models::BertTokenClassifier<>& model, const std::vector<int>& ids,
                             const std::vector<int>& types) {
  const Shape shape{std::ssize(ids)};
  const Tensor<int> of_types = types.empty() ? Tensor<int>() : Tensor<int>(shape, types);
  const auto sequences = Sequences::packed({static_cast<int>(ids.size())});
  return cast<float>(model.forward<A>(Tensor<int>(shape, ids), sequences, {.types = of_types})).host();
}

json to_json(const std::vector<models::Entity>& entities) {
  json all = json::array();
  for (const auto& e : entities) all.push_back({e.label, e.begin, e.end, e.score});
  return all;
}
models::Aggregation aggregation_of(const std::string& name) {
  const char* const names[] = {"none", "simple", "first", "average", "max"};
  for (int i = 0; i < 5; ++i)
    if (name == names[i]) return static_cast<models::Aggregation>(i);
  fail("there is no aggregation ", name);
}

// Returns the logits of the tokens of each text, for labels of tokens or for answers.
json token_logits(const std::string& folder, const models::LoadOptions& options, const json& input) {
  const models::PretrainedConfig config = models::read_config(folder);
  const bool has_answers = input.value("answers", false);
  const nn::NoInit undrawn;
  const NoGrad quiet;
  Random unused(0);
  models::BertTokenClassifier<> model(*config.bert(),
                                      has_answers ? models::TokenHead::answer : models::TokenHead::labels,
                                      has_answers ? 2 : std::ssize(config.labels), unused);
  models::load_pretrained(model, folder);
  const bool is_bf16 = options.precision == models::Precision::bf16;
  json all = json::array();
  for (std::size_t i = 0; i < input.at("ids").size(); ++i) {
    const std::vector<int> ids = input["ids"][i];
    const auto types = input.contains("types") ? input["types"][i].get<std::vector<int>>() : std::vector<int>();
    all.push_back(is_bf16 ? logits_of<bf16>(model, ids, types) : logits_of<float>(model, ids, types));
  }
  return {{"results", all}};
}

// Whether all results for single texts have the bits of those for all texts.
template <class All, class One>
bool equals_alone(const All& all, std::size_t count, One&& one) {
  for (std::size_t i = 0; i < count; ++i)
    if (!(all[i] == one(i))) return false;
  return true;
}

json run(const std::string& head, const std::string& folder, const models::LoadOptions& options, const json& input) {
  if (head == "logits") return token_logits(folder, options, input);
  const Texts a = input.at("a"), b = input.value("b", Texts());
  if (head == "classify") {
    const auto classify = models::TextClassifier::load(folder, options);
    const auto compute = [&] {
      json all = json::array();
      for (const auto& p : classify(a)) all.push_back(p.values.empty() ? p.probabilities : p.values);
      return all;
    };
    return result_of(input, compute, [&] {
      return equals_alone(classify(a), a.size(), [&](std::size_t i) { return classify(a[i]); });
    });
  }
  if (head == "rerank") {
    const auto rerank = models::Reranker::load(folder, options);
    return result_of(
        input, [&] { return json(rerank.score(a, b)); },
        [&] {
          return equals_alone(rerank.score(a, b), a.size(), [&](std::size_t i) { return rerank.score(a[i], b[i]); });
        });
  }
  if (head == "embed") {  // only to take the time
    const auto encode = models::SentenceEncoder::load(folder, options);
    return result_of(
        input, [&] { return json(encode(a).host()); }, [] { return json(); });
  }
  if (head == "tag") {
    const auto tag = models::TokenClassifier::load(folder, options);
    const auto compute = [&] {
      json all = json::object();
      for (const std::string aggregation : input.at("aggregations"))
        for (const auto& entities : tag.entities(a, aggregation_of(aggregation)))
          all[aggregation].push_back(to_json(entities));
      return all;
    };
    return result_of(input, compute,
                     [&] { return equals_alone(tag(a), a.size(), [&](std::size_t i) { return tag(a[i]); }); });
  }
  if (head == "fill") {
    const auto fill = models::FillMask::load(folder, options);
    const auto compute = [&] {
      json all = json::array();
      for (const auto& masks : fill(a, input.value("count", std::size_t{5})))
        for (const auto& mask : masks) {
          json tokens = json::array();
          for (const auto& token : mask) tokens.push_back({token.id, token.token, token.probability});
          all.push_back(tokens);
        }
      return all;
    };
    return result_of(input, compute,
                     [&] { return equals_alone(fill(a), a.size(), [&](std::size_t i) { return fill(a[i]); }); });
  }
  fail("there is no head ", head);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Applies the head of a model folder to texts.");
  std::string head, folder, precision = "fp32";
  int threads = 2;
  app.add_option("head", head, "classify, rerank, embed, tag, fill, or logits of tokens")->required();
  app.add_option("folder", folder, "the model")->required();
  app.add_option("--threads", threads)->check(CLI::PositiveNumber);
  app.add_option("--precision", precision)->check(CLI::IsMember({"fp32", "bf16"}));
  try {
    app.parse(argc, argv);
    set_threads(threads);
    const models::LoadOptions options{.precision =
                                          precision == "bf16" ? models::Precision::bf16 : models::Precision::fp32};
    std::cout << run(head, folder, options, json::parse(std::cin)).dump() << '\n';
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const std::exception& error) {
    std::cerr << "heads_program: error: " << error.what() << '\n';
    return 2;
  }
}
