// The weights of a Hugging Face folder: model.safetensors, or the shards that model.safetensors.index.json lists.
#pragma once
#include <deque>
#include <set>

#include <heddle/io/json_object.hpp>
#include <heddle/io/model.hpp>

namespace heddle::io {

namespace detail {

// Returns the file name of each tensor's shard from the content of model.safetensors.index.json. Throws FileError for a
// shard that is not the name of a file in the folder.
inline std::map<std::string, std::string> parse_weight_index(std::string content, const std::string& path) {
  const JsonFile file(std::move(content), path);
  const JsonObject object = file.object();
  std::map<std::string, std::string> shard_of;
  for (const auto& [name, value] : object.object("weight_map").get_ref<const nlohmann::json::object_t&>()) {
    require<FileError>(value.is_string(), object.file(), ": the shard of ", quoted_name(name),
                       " must be the name of a file");
    const std::string shard = value.get<std::string>();
    require<FileError>(
        !shard.empty() && shard != "." && shard != ".." && shard.find_first_of(std::string("/\\\0", 3)) == shard.npos,
        object.file(), ": the shard ", quoted_name(shard), " of ", quoted_name(name),
        " is not the name of a file in the folder");
    shard_of[name] = shard;
  }
  require<FileError>(!shard_of.empty(), object.file(), ": 'weight_map' is empty");
  return shard_of;
}

}  // namespace detail

/// The open weight files of a folder. The result of weights() refers to them.
class WeightFiles {
 public:
  /// Opens model.safetensors, or otherwise the shards of model.safetensors.index.json. @throws FileError for a folder
  /// without them, a shard that is missing or outside the folder, and an index that does not agree with its shards.
  explicit WeightFiles(const std::string& folder) : folder_(folder) {
    const std::string single = folder + "/model.safetensors", index = single + ".index.json";
    if (path_exists(single) || !path_exists(index)) {
      require<FileError>(path_exists(single) || !path_exists(folder + "/pytorch_model.bin"), printable(single),
                         ": does not exist; the pytorch_model.bin beside it is a pickle, which heddle does not read");
      add(single);
      return;
    }
    const auto shard_of = detail::parse_weight_index(read_file(index), index);
    std::set<std::string> shards;
    for (const auto& [name, shard] : shard_of) shards.insert(shard);
    for (const std::string& shard : shards) {
      require<FileError>(path_exists(folder + '/' + shard), printable(index), ": the shard ", quoted_name(shard),
                         " is missing");
      const Safetensors& opened = add(folder + '/' + shard);
      for (const TensorInfo& tensor : opened.tensors()) {
        const auto listed = shard_of.find(tensor.name);
        require<FileError>(listed != shard_of.end() && listed->second == shard, printable(opened.file()), ": has ",
                           quoted_name(tensor.name), ", which model.safetensors.index.json ",
                           listed == shard_of.end() ? "does not list" : "lists in another shard");
      }
    }
    for (const auto& [name, shard] : shard_of)
      require<FileError>(tensors_.count(name), printable(index), ": lists ", quoted_name(name), " in ",
                         quoted_name(shard), ", which does not have it");
  }
  /// Takes over the open files.
  WeightFiles(WeightFiles&&) = default;

  /// Returns the path of the folder.
  const std::string& folder() const { return folder_; }
  /// Returns the tensors under the names that rename(name) gives them; an empty name leaves a tensor out.
  /// @throws FileError for two tensors of one name.
  template <class Rename>
  WeightSource weights(Rename rename) const {
    WeightSource source{files_.size() == 1 ? files_.front().file() : folder_};
    for (const auto& [name, stored] : tensors_) {
      const std::string renamed = rename(name);
      if (renamed.empty()) continue;
      require<FileError>(source.tensors.emplace(renamed, stored).second, printable(source.name), ": ",
                         quoted_name(name), " and another tensor are both ", quoted_name(renamed), " of the model");
    }
    return source;
  }
  /// Returns whether there is a tensor of this name.
  bool has(const std::string& name) const { return tensors_.count(name) > 0; }
  /// Returns the paths of the open files.
  std::vector<std::string> paths() const {
    std::vector<std::string> all;
    for (const Safetensors& file : files_) all.push_back(file.file());
    return all;
  }

 private:
  const Safetensors& add(const std::string& path) {
    const Safetensors& file = files_.emplace_back(read_safetensors(path));
    for (const TensorInfo& tensor : file.tensors()) tensors_[tensor.name] = {&file, &tensor};
    return file;
  }

  std::string folder_;
  std::deque<Safetensors> files_;
  std::map<std::string, StoredTensor> tensors_;
};

}  // namespace heddle::io
