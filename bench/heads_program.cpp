// heads_program: applies the heads of a Hugging Face folder to texts for bench/peers/heads_compare.py. Reads a JSON
// object from the standard input and prints one.
#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>

#include <heddle/heddle.hpp>
#include <heddle/models/fill_mask.hpp>
#include <heddle/models/reranker.hpp>
#include <heddle/models/text_classifier.hpp>
#include <heddle/models/token_classifier.hpp>

using namespace heddle;
namespace {

using nlohmann::json;
using Texts = std::vector<std::string>;

// Returns the median time of five calls, in seconds.
template <class F>
double median_of(F&& f) {
  std::vector<double> times;
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    f();
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(times.begin(), times.end());
  return times[2];
}

// Calls compute() once for the results, and more often for their time.
template <class F>
json timed(bool time, F&& compute) {
  json result{{"results", compute()}};
  if (time) result["seconds"] = median_of(compute);
  return result;
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

// Whether all results for single texts have the bits of those for all texts.
template <class All, class One>
bool equals_alone(const All& all, std::size_t count, One&& one) {
  for (std::size_t i = 0; i < count; ++i)
    if (!(all[i] == one(i))) return false;
  return true;
}

json run(const std::string& head, const std::string& folder, const models::LoadOptions& options, const json& input) {
  const bool time = input.value("time", false);
  const Texts a = input.at("a"), b = input.value("b", Texts());
  json output;
  if (head == "classify") {
    const auto classify = models::TextClassifier::load(folder, options);
    const auto compute = [&] {
      json all = json::array();
      for (const auto& p : b.empty() ? classify(a) : classify(a, b))
        all.push_back(p.values.empty() ? p.probabilities : p.values);
      return all;
    };
    output = timed(time, compute);
    output["same_alone"] = equals_alone(b.empty() ? classify(a) : classify(a, b), a.size(), [&](std::size_t i) {
      return b.empty() ? classify(a[i]) : classify(a[i], b[i]);
    });
  } else if (head == "rerank") {
    const auto rerank = models::Reranker::load(folder, options);
    output = timed(time, [&] { return json(rerank.score(a, b)); });
    output["same_alone"] =
        equals_alone(rerank.score(a, b), a.size(), [&](std::size_t i) { return rerank.score(a[i], b[i]); });
  } else if (head == "tag") {
    const auto tag = models::TokenClassifier::load(folder, options);
    const models::Aggregation aggregation = aggregation_of(input.value("aggregation", "simple"));
    output = timed(time, [&] {
      json all = json::array();
      for (const auto& entities : tag.entities(a, aggregation)) all.push_back(to_json(entities));
      return all;
    });
    output["same_alone"] = equals_alone(tag(a), a.size(), [&](std::size_t i) { return tag(a[i]); });
  } else if (head == "fill") {
    const auto fill = models::FillMask::load(folder, options);
    output = timed(time, [&] {
      json all = json::array();
      for (const auto& masks : fill(a, input.value("count", std::size_t{5})))
        for (const auto& mask : masks) {
          json tokens = json::array();
          for (const auto& token : mask) tokens.push_back({token.id, token.token, token.probability});
          all.push_back(tokens);
        }
      return all;
    });
    output["same_alone"] = equals_alone(fill(a), a.size(), [&](std::size_t i) { return fill(a[i]); });
  } else {
    fail("there is no head ", head);
  }
  return output;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Applies the head of a model folder to texts.");
  std::string head, folder, precision = "fp32";
  int threads = 2;
  app.add_option("head", head, "classify, rerank, tag or fill")->required();
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
