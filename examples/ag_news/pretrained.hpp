// BERT's embedding layer from a Hugging Face folder.
#pragma once
#include <nlohmann/json.hpp>

#include <heddle/io/file_sum.hpp>

#include "../common/out_folder.hpp"
#include "model.hpp"

namespace heddle::examples {

// The embedding layer in a folder with config.json and model.safetensors.
class PretrainedEmbeddings {
 public:
  // Throws FileError for a folder without these files, and for a configuration that is not BERT's.
  explicit PretrainedEmbeddings(const std::string& folder) : file_(folder + "/model.safetensors") {
    const std::string config = folder + "/config.json", shown = io::printable(config);
    require<FileError>(io::is_folder(folder), io::printable(folder), ": is no folder; --embeddings needs one");
    const auto json = nlohmann::json::parse(io::read_file(config), nullptr, false);
    require<FileError>(json.is_object() && (!json.contains("model_type") || json["model_type"] == "bert"), shown,
                       ": is not the configuration of a BERT model");
    const auto size = [&](const char* key, Index most) {
      const auto found = json.find(key);
      require<FileError>(found != json.end() && found->is_number_integer() && *found >= 1 && *found <= most, shown,
                         ": '", key, "' must be a whole number from 1 to ", most);
      return found->get<Index>();
    };
    vocabulary_ = size("vocab_size", std::numeric_limits<std::int32_t>::max());
    width_ = size("hidden_size", largest_size);
    positions_ = size("max_position_embeddings", largest_size);
  }

  const std::string& file() const { return file_; }
  Index vocabulary() const { return vocabulary_; }
  Index width() const { return width_; }
  Index positions() const { return positions_; }

  // Writes the layer into a model's, whose positions may be fewer. Throws FileError for a missing tensor and a wrong shape.
  void read_into(BertEmbeddings& to) const {
    const io::Safetensors weights = io::read_safetensors(file_);
    const auto read = [&](const std::string& name, const std::string& older, Parameter<float>& p) {
      const Tensor<float> x = find(weights, name, older);
      Shape expected = p.shape();
      if (&p == &to.positions.weight) expected = expected.with(0, positions_);
      require<FileError>(x.shape() == expected, weights.file(), ": '", name, "' is ", x.shape(), ", expected ",
                         expected);
      p.assign(&p == &to.positions.weight ? slice(x, 0, 0, p.shape()[0]) : x);
    };
    read("word_embeddings.weight", "", to.words.weight);
    read("position_embeddings.weight", "", to.positions.weight);
    read("token_type_embeddings.weight", "", to.types.weight);
    read("LayerNorm.weight", "LayerNorm.gamma", to.norm.gamma);
    read("LayerNorm.bias", "LayerNorm.beta", to.norm.beta);
  }

 private:
  // Returns a tensor of the layer. Its name begins with the name of the model in which it was saved, if any.
  static Tensor<float> find(const io::Safetensors& weights, const std::string& name, const std::string& older) {
    for (const char* prefix : {"", "bert."})
      for (const std::string& each : {name, older}) {
        const std::string whole = prefix + ("embeddings." + each);
        if (!each.empty() && weights.find(whole)) return weights.tensor<float>(whole);
      }
    fail<FileError>(weights.file(), ": has no tensor 'bert.embeddings.", name, "'");
  }

  std::string file_;
  Index vocabulary_ = 0, width_ = 0, positions_ = 0;
};

}  // namespace heddle::examples
