// sentence_trainer: fine-tunes, evaluates and applies sentence encoders and rerankers from Hugging Face folders.
#include "flags.hpp"

namespace heddle::examples {
namespace {

// Returns whether the command line names the loss of a reranker, or, without a loss, the folder of one.
bool is_reranking(const std::vector<std::string>& words) {
  if (const auto loss = value_of(words, "--loss")) return *loss == "rerank";
  const auto out = value_of(words, "--out");
  if (!out || !io::path_exists(*out + "/config.json")) return false;
  const auto json = nlohmann::json::parse(io::read_file(*out + "/config.json"), nullptr, false);
  if (!json.is_object() || !json.contains("heddle") || !json["heddle"].is_object()) return false;
  return json["heddle"].value("loss", nlohmann::json()) == "rerank";
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
