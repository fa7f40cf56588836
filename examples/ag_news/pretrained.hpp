// BERT's embedding layer from a Hugging Face folder.
#pragma once
#include <heddle/io/file_sum.hpp>
#include <heddle/models/pretrained.hpp>

#include "../common/flags.hpp"
#include "model.hpp"

namespace heddle::examples {

// The embedding layer in a folder with config.json and weights.
class PretrainedEmbeddings {
 public:
  // Reads the configuration. Throws FileError if `folder` is not a folder or has no config.json, or if the
  // configuration is not BERT's.
  explicit PretrainedEmbeddings(const std::string& folder) : folder_(folder) {
    require<FileError>(io::is_folder(folder), io::printable(folder), ": is not a folder; --embeddings needs one");
    const io::JsonFile file(folder + "/config.json");
    const io::JsonObject config = file.object();
    require<FileError>(!config.has("model_type") || config.json()["model_type"] == "bert", config.file(),
                       ": is not the configuration of a BERT model");
    vocabulary_ = config.count("vocab_size", 1, std::numeric_limits<std::int32_t>::max());
    width_ = config.count("hidden_size", 1, largest_size);
    positions_ = config.count("max_position_embeddings", 1, largest_size);
  }

  // Returns a checksum of the weights' file. Throws FileError if they are in several files.
  std::uint64_t checksum() const { return io::sum_of_file(folder_ + "/model.safetensors").crc64; }
  Index vocabulary() const { return vocabulary_; }
  Index width() const { return width_; }
  Index positions() const { return positions_; }

  // Copies the layer into that of a model, which may have fewer positions. Throws FileError for a missing tensor and a
  // wrong shape.
  void read_into(models::BertEmbeddings<>& to) const {
    const io::WeightFiles files(folder_);
    const io::WeightSource weights = files.weights(models::detail::bert_names(files, models::BertFamily::bert));
    each_parameter(to, [&](const Name& name, Parameter<float>& p) {
      const auto found = weights.tensors.find("bert.embeddings." + name.str());
      require<FileError>(found != weights.tensors.end(), weights.name, ": has no tensor 'bert.embeddings.", name.str(),
                         "'");
      const io::TensorInfo& stored = *found->second.tensor;
      const bool is_positions = &p == &to.positions->weight;
      const Shape expected = is_positions ? p.shape().with(0, positions_) : p.shape();
      require<FileError>(stored.shape == expected, weights.name, ": '", name.str(), "' is ", stored.shape,
                         ", expected ", expected);
      const Tensor<float> x = found->second.file->tensor<float>(stored.name);
      p.assign(is_positions ? slice(x, 0, 0, p.shape()[0]) : x);
    });
  }

 private:
  std::string folder_;
  Index vocabulary_ = 0, width_ = 0, positions_ = 0;
};

}  // namespace heddle::examples
