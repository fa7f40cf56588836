// sentence_trainer: fine-tunes, evaluates and applies sentence encoders and rerankers from Hugging Face folders.
#include "flags.hpp"

namespace heddle::examples {
namespace {

// Returns whether a folder has a reranker that this program trained.
bool is_reranker(const std::string& folder) {
  const std::string path = folder + "/config.json";
  if (!io::path_exists(path)) return false;
  const auto json = nlohmann::json::parse(io::read_file(path), nullptr, false);
  if (!json.is_object() || !json.contains("heddle") || !json["heddle"].is_object()) return false;
  return json["heddle"].value("loss", nlohmann::json()) == "rerank";
}

// Returns whether the command line names the loss of a reranker, or, without a loss, the folder of one: that of --out,
// or the one of --model that is applied.
bool is_reranking(const std::vector<std::string>& words) {
  if (const auto loss = value_of(words, "--loss")) return *loss == "rerank";
  if (const auto out = value_of(words, "--out")) return is_reranker(*out);
  const bool is_applied =
      value_of(words, "--predict") || std::find(words.begin(), words.end(), "--evaluate") != words.end();
  const auto model = value_of(words, "--model");
  return is_applied && model && is_reranker(*model);
}

}  // namespace
}  // namespace heddle::examples

int main(int argc, char** argv) {
  using namespace heddle::examples;
  bool reranks = false;
  try {
    reranks = is_reranking({argv + 1, argv + argc});
  } catch (const heddle::Error&) {  // a file that cannot be read is reported where it is used
  }
  return reranks ? train_rerankers(argc, argv) : train_encoders(argc, argv);
}
