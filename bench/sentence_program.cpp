// sentence_program: computes vectors or rows of texts for bench/peers/sentence_compare.py. Prints a JSON array with one
// entry for each text.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>

#include <heddle/heddle.hpp>
#include <heddle/models/sentence_encoder.hpp>
#include <heddle/models/sparse_encoder.hpp>

namespace heddle::bench {
namespace {

struct Flags {
  std::string folder, texts, prompt, precision = "fp32";
  int threads = 2;
  bool alone = false;
};

template <class Encoder>
Encoder load(const Flags& flags) {
  const bool is_bf16 = flags.precision == "bf16";
  const Encoder encoder =
      Encoder::load(flags.folder, {.precision = is_bf16 ? models::Precision::bf16 : models::Precision::fp32});
  return flags.prompt.empty() ? encoder : encoder.with_prompt(flags.prompt);
}

// Returns the rows of a matrix.
nlohmann::json to_json(const Tensor<float>& x) {  // [N, D]
  nlohmann::json rows = nlohmann::json::array();
  for (Index n = 0; n < x.dim(0); ++n) {
    const float* const row = x.data() + n * x.dim(1);
    rows.push_back(std::vector<float>(row, row + x.dim(1)));
  }
  return rows;
}
nlohmann::json to_json(const std::vector<Tensor<float>>& all) {
  nlohmann::json rows = nlohmann::json::array();
  for (const Tensor<float>& x : all) rows.push_back(to_json(x));
  return rows;
}
nlohmann::json to_json(const std::vector<models::SparseVector>& all) {
  nlohmann::json vectors = nlohmann::json::array();
  for (const models::SparseVector& vector : all) vectors.push_back({{"ids", vector.ids}, {"weights", vector.weights}});
  return vectors;
}

// Prints the results of compute() for all texts at once, or for each text alone.
template <class Compute>
void print(const Flags& flags, Compute&& compute) {
  set_threads(flags.threads);
  std::ifstream file(flags.texts);
  require(file.good(), "cannot open ", flags.texts);
  const std::vector<std::string> texts = nlohmann::json::parse(file);
  nlohmann::json all = nlohmann::json::array();
  if (!flags.alone) all = to_json(compute(texts));
  for (std::size_t i = all.size(); i < texts.size(); ++i)
    all.push_back(to_json(compute(std::vector<std::string>{texts[i]})).at(0));
  std::puts(all.dump().c_str());
}

}  // namespace
}  // namespace heddle::bench

int main(int argc, char** argv) {
  using namespace heddle;
  using namespace heddle::bench;
  Flags flags;
  CLI::App app("Computes vectors or rows of texts with a folder of sentence-transformers, and prints them as JSON");
  app.require_subcommand(1);
  const auto add = [&](const char* name, const char* text, auto run) {
    CLI::App* const command = app.add_subcommand(name, text);
    command->add_option("folder", flags.folder, "Folder of the model")->required();
    command->add_option("--texts", flags.texts, "JSON array of texts")->required();
    command->add_option("--prompt", flags.prompt, "Name of a prompt of the folder");
    command->add_option("--precision", flags.precision, "Type of activations")->check(CLI::IsMember({"fp32", "bf16"}));
    command->add_option("--threads", flags.threads, "Threads")->check(CLI::Range(1, 1024))->capture_default_str();
    command->add_flag("--alone", flags.alone, "Compute each text in a call of its own");
    command->callback(run);
  };
  add("vectors", "Prints the vector of each text", [&] { print(flags, load<models::SentenceEncoder>(flags)); });
  add("rows", "Prints the rows of each text", [&] {
    print(flags, [encoder = load<models::SentenceEncoder>(flags)](const auto& texts) { return encoder.rows(texts); });
  });
  add("sparse", "Prints the tokens and weights of each text",
      [&] { print(flags, load<models::SparseEncoder>(flags)); });
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);
  } catch (const CLI::Error& e) {
    std::fprintf(stderr, "sentence_program: error: %s\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "sentence_program: error: %s\n", e.what());
    return 1;
  }
}
