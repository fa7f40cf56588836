// Folders of tests/golden/models, and copies of them that a test changes.
#pragma once
#include <deque>
#include <filesystem>
#include <functional>
#include <heddle/io/safetensors.hpp>
#include <nlohmann/json.hpp>

#include "../golden/golden.hpp"
#include "../io/files.hpp"

namespace heddle::testing {

inline std::string golden_model(const std::string& name) { return HEDDLE_GOLDEN_DIR "/models/" + name; }
inline const std::vector<Case>& golden_texts(std::string_view name) { return golden(name, "models/expected.txt"); }
inline const std::vector<Case>& golden_heads(std::string_view name) { return golden(name, "models/heads.txt"); }

/// A copy of a golden folder, which is removed at the end of the test.
class ModelFolder : public TemporaryFolder {
 public:
  explicit ModelFolder(const std::string& name) {
    std::filesystem::copy(golden_model(name), path(), std::filesystem::copy_options::recursive);
  }

  /// Changes members of a JSON file; null removes one.
  void change(const std::string& file, const nlohmann::json& members) const {
    nlohmann::json json = nlohmann::json::parse(get(*this / file));
    json.merge_patch(members);
    put(*this / file, json.dump());
  }
  /// Gives the tensors of a weight file other names; an empty name removes one.
  void rename(const std::string& file, const std::function<std::string(const std::string&)>& name) const {
    const auto stored = io::read_safetensors(*this / file);
    std::vector<io::TensorBytes> tensors;
    std::deque<std::vector<std::byte>> bytes;  // alive until they are written
    for (const auto& tensor : stored.tensors())
      if (const std::string renamed = name(tensor.name); !renamed.empty())
        tensors.push_back({renamed, tensor.dtype, tensor.shape, bytes.emplace_back(stored.bytes(tensor))});
    io::write_safetensors(*this / file, tensors);
  }
  void remove(const std::string& file) const { std::filesystem::remove(*this / file); }
};

}  // namespace heddle::testing
