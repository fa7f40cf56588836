// bert_classifier: fine-tunes, evaluates and applies models with a head from Hugging Face folders of BERT, DistilBERT
// and their relatives, trains an encoder from scratch, and pre-trains one on plain text.
#include <optional>

#include "setup.hpp"

namespace heddle::examples {
namespace {

// Returns the text of a key, or nothing unless it has one.
std::string text_of(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Returns whether a folder with this config.json is a CrossEncoder of sentence-transformers.
bool is_cross_encoder(const std::string& folder, const nlohmann::json& config) {
  if (config.contains("sentence_transformers") || config.contains("sbert_ce_default_activation_function")) return true;
  const std::string path = folder + "/config_sentence_transformers.json";
  if (!io::path_exists(path)) return false;
  const auto json = nlohmann::json::parse(io::read_file(path), nullptr, false);
  return json.is_object() && text_of(json, "model_type") == "CrossEncoder";
}

// Returns the problem that the model in a folder solves, if its config.json says so. Faults of the file are reported
// later, when it is read.
std::optional<std::string> problem_of_folder(const std::string& folder) {
  const std::string path = folder + "/config.json";
  if (!io::path_exists(path)) return std::nullopt;
  const auto json = nlohmann::json::parse(io::read_file(path), nullptr, false);
  if (!json.is_object()) return std::nullopt;
  if (const auto own = json.find("heddle"); own != json.end() && own->is_object()) {
    const std::string objective = text_of(*own, "objective");
    for (const auto& [problem, name] : {std::pair{"multi", "label sets"},
                                        {"regression", "values"},
                                        {"pair", "pair scores"},
                                        {"token", "word labels"}})
      if (objective == name) return problem;
    return "single";
  }
  const auto architectures = json.find("architectures");
  if (architectures != json.end() && architectures->is_array() && architectures->size() == 1 &&
      (*architectures)[0].is_string() && (*architectures)[0].get<std::string>().ends_with("ForTokenClassification"))
    return "token";
  const std::string type = text_of(json, "problem_type");
  if (type == "multi_label_classification") return "multi";
  const auto labels = json.find("id2label");
  const bool has_one = labels != json.end() && labels->is_object() && labels->size() == 1;
  if (type == "regression") return "regression";
  if (type.empty() && has_one) return is_cross_encoder(folder, json) ? "pair" : "regression";
  return std::nullopt;
}

// Returns the problem that the command line names, otherwise that of the model that it applies, continues or begins
// with.
std::string problem_of(const std::vector<std::string>& words) {
  if (const auto problem = value_of(words, "--problem")) return *problem;
  for (const char* flag : {"--out", "--model"})
    if (const auto folder = value_of(words, flag))
      if (const auto problem = problem_of_folder(*folder)) return *problem;
  return "single";
}

}  // namespace
}  // namespace heddle::examples

int main(int argc, char** argv) {
  using namespace heddle::examples;
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (value_of(words, "--pretrain")) return pretrain(argc, argv);
  std::string problem = "single";
  try {
    problem = problem_of(words);
  } catch (const heddle::Error&) {  // a file that cannot be read is reported where it is used
  }
  if (problem == "token") return train_words(argc, argv);
  if (problem == "multi" || problem == "regression" || problem == "pair") return train_targets(argc, argv, problem);
  return train_classes(argc, argv);
}
