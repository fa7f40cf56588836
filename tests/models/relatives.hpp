// The golden folders of BERT's relatives, which scripts/golden-relatives.py writes.
#pragma once
#include <heddle/heddle.hpp>
#include <heddle/models/pretrained.hpp>

#include "../harness/golden.hpp"
#include "model_folder.hpp"

namespace heddle::testing {

// Returns the texts of a golden folder, and what the model gives for them.
inline const std::vector<Case>& relative_texts(const std::string& name) {
  return golden(name, name.starts_with("roberta") ? "models/roberta.txt" : "models/relatives.txt");
}

// All texts of a golden folder as one ragged batch.
struct FolderBatch {
  Tensor<int> ids, types;
  Sequences sequences = Sequences::packed({});
  std::vector<double> expected;

  explicit FolderBatch(const std::string& name) {
    std::vector<int> all, all_types, lengths;
    for (const Case& text : relative_texts(name)) {
      const std::vector<int> one = text["ids"].as<int>();
      all.insert(all.end(), one.begin(), one.end());
      if (text.has("types"))
        for (const int type : text["types"].as<int>()) all_types.push_back(type);
      lengths.push_back(static_cast<int>(one.size()));
      expected.insert(expected.end(), text["y"].values.begin(), text["y"].values.end());
    }
    ids = Tensor<int>({std::ssize(all)}, all);
    if (!all_types.empty()) types = Tensor<int>({std::ssize(all)}, all_types);
    sequences = Sequences::packed(lengths);
  }
  // Returns what a model gives for the batch.
  template <class T = float>
  auto run(const auto& model) const {
    return model.forward(ids, sequences, models::ForwardOptions<T>{.types = types});
  }
};

template <class T>
void expect_golden(const Tensor<T>& found, const std::vector<double>& expected) {
  constexpr double error = std::is_same_v<T, double> ? 1e-12 : 1e-5;
  expect_close(joined(found.host()), expected, part_of_largest(error, expected));
}

// Returns the model of a folder; `arguments` follow the configuration of its constructor.
template <class Model, class... Arguments>
Model read_model(const std::string& folder, const Arguments&... arguments) {
  Random random(3);
  Model model(*models::read_config(folder).bert(), arguments..., random);
  models::load_pretrained(model, folder);
  return model;
}
template <class T>
models::SequenceClassifier<T> read_classifier(const std::string& folder) {
  Random random(3);
  models::SequenceClassifier<T> model(models::read_config(folder), random);
  models::load_pretrained(model, folder);
  return model;
}

// Returns the error of the configuration of a golden folder with changes, without the file's name.
inline std::string config_error(const char* folder, const nlohmann::json& changes) {
  nlohmann::json json = nlohmann::json::parse(get(golden_model(folder) + "/config.json"));
  json.merge_patch(changes);
  const std::string error = error_of([&] { models::parse_config(json.dump(), "f"); });
  return error.starts_with("f: ") ? error.substr(3) : error;
}

}  // namespace heddle::testing
