// config.json of a model folder: an accepted one can be saved and read again.
#include <heddle/models/pretrained.hpp>

#include "fuzz.hpp"

namespace {

using namespace heddle;
using models::PretrainedConfig;

void check_sizes(const PretrainedConfig& config) {
  const auto check = [](const auto& c) {
    const Index least = std::min({c.vocabulary, c.D, c.layers, c.heads, c.ff_width, c.positions});
    fuzz::claim(least >= 1 && c.D % c.heads == 0, "a model can have these sizes");
    fuzz::claim(c.dropout >= 0 && c.dropout < 1, "a dropout is a fraction");
  };
  std::visit(check, config.sizes);
  fuzz::claim(!config.labels.empty(), "a classifier has a class");
}

void check_again(const PretrainedConfig& config) {
  const std::string type = models::classifier_architecture(config);
  const nlohmann::json saved = models::to_json(config, type);
  const PretrainedConfig again = models::parse_config(saved.dump(), "again");
  fuzz::claim(again.labels == config.labels && again.model_type() == saved.at("model_type"),
              "a saved configuration is read back unchanged");
  const auto family = [](const PretrainedConfig& c) {
    return c.bert() ? std::optional(c.bert()->family) : std::nullopt;
  };
  fuzz::claim(family(again) == family(config), "a saved configuration describes the same architecture");
  fuzz::claim(models::to_json(again, type) == saved, "a configuration that was read back is saved unchanged");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::Input input(data, size);
  const auto config = fuzz::attempt<FileError>([&] { return models::parse_config(input.string(), "input"); });
  if (!config) return 0;
  constexpr std::size_t few = 1000;  // num_labels may ask for a hundred times as many
  check_sizes(*config);
  if (config->labels.size() <= few) check_again(*config);
  return 0;
}
