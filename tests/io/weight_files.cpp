#include <heddle/heddle.hpp>
#include <heddle/io/weight_files.hpp>

#include "../catch.hpp"
#include "files.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

// Writes a file of tensors with one element each. The value of a tensor is its index in `names`.
void write_shard(const std::string& path, const std::vector<std::string>& names) {
  std::vector<float> values;
  for (std::size_t i = 0; i < names.size(); ++i) values.push_back(static_cast<float>(i));
  std::vector<io::TensorBytes> tensors;
  for (std::size_t i = 0; i < names.size(); ++i)
    tensors.push_back({names[i], io::DType::f32, {1}, std::as_bytes(std::span(&values[i], 1))});
  io::write_safetensors(path, tensors);
}

struct ShardFolder : TemporaryFolder {
  const std::string index = *this / "model.safetensors.index.json";
  // Writes an index with this weight_map.
  void list(const std::string& weight_map) const {
    put(index, R"({"metadata": {}, "weight_map": )" + weight_map + "}");
  }
  std::string error() const {
    return error_of([&] { io::WeightFiles files(path()); });
  }
};

std::string as_stored(const std::string& name) { return name; }

}  // namespace

TEST_CASE("io::WeightFiles: one file, or the shards of an index") {
  const ShardFolder folder;
  CHECK_THROWS_WITH(io::WeightFiles(folder.path()), ContainsSubstring("/model.safetensors: cannot be opened"));
  put(folder / "pytorch_model.bin", "PK");
  CHECK(
      folder.error() ==
      folder /
          "model.safetensors: does not exist; the pytorch_model.bin beside it is a pickle, which heddle does not read");
  write_shard(folder / "one.safetensors", {"a", "b"});
  write_shard(folder / "two.safetensors", {"c"});
  folder.list(R"({"a": "one.safetensors", "b": "one.safetensors", "c": "two.safetensors"})");
  io::WeightFiles opened(folder.path());
  const io::WeightFiles files = std::move(opened);
  CHECK(files.folder() == folder.path());
  CHECK(files.has("c"));
  CHECK(!files.has("d"));
  const auto source = files.weights(as_stored);
  REQUIRE(source.tensors.size() == 3);
  CHECK(source.name == folder.path());
  const auto value = [](const io::StoredTensor& stored) {
    return stored.file->tensor<float>(stored.tensor->name).item();
  };
  CHECK(value(source.tensors.at("b")) == 1);
  CHECK(value(source.tensors.at("c")) == 0);
  // As in transformers, model.safetensors is read if both exist.
  write_shard(folder / "model.safetensors", {"d"});
  const io::WeightFiles single(folder.path());
  CHECK(single.has("d"));
  CHECK(!single.has("a"));
  CHECK(single.weights(as_stored).name == folder / "model.safetensors");
}

TEST_CASE("io::WeightFiles: names may be changed or left out, but two tensors may not get the same name") {
  const ShardFolder folder;
  write_shard(folder / "model.safetensors", {"x.gamma", "x.weight", "ids"});
  const io::WeightFiles files(folder.path());
  const auto source = files.weights([](const std::string& name) { return name == "ids" ? "" : "m." + name; });
  CHECK(source.tensors.size() == 2);
  CHECK(source.tensors.count("m.x.gamma") == 1);
  CHECK(error_of([&] { files.weights([](const std::string&) { return "x.weight"; }); }) ==
        folder / "model.safetensors: 'x.gamma' and another tensor are both 'x.weight' of the model");
}

TEST_CASE("io::WeightFiles: an index that does not agree with its shards is refused") {
  const ShardFolder folder;
  write_shard(folder / "one.safetensors", {"a", "b"});
  write_shard(folder / "two.safetensors", {"b", "c"});
  const auto error = [&](const std::string& weight_map) {
    folder.list(weight_map);
    return folder.error();
  };
  CHECK(error(R"({"a": "one.safetensors", "b": "one.safetensors", "c": "three.safetensors"})") ==
        folder.index + ": the shard 'three.safetensors' is missing");
  CHECK(error(R"({"a": "one.safetensors", "b": "one.safetensors", "c": "two.safetensors"})") ==
        folder / "two.safetensors: has 'b', which model.safetensors.index.json lists in another shard");
  CHECK(error(R"({"a": "one.safetensors"})") ==
        folder / "one.safetensors: has 'b', which model.safetensors.index.json does not list");
  CHECK(error(R"({"a": "one.safetensors", "b": "one.safetensors", "x": "one.safetensors"})") ==
        folder.index + ": lists 'x' in 'one.safetensors', which does not have it");
  for (const char* path : {"../one.safetensors", "/one.safetensors", "sub/one.safetensors", "..", ".", "", "a\\\\b",
                           "one.safetensors\\u0000"})
    CHECK(error(R"({"a": ")" + std::string(path) + "\"}").ends_with(" of 'a' is not the name of a file in the folder"));
  CHECK(error(R"({"a": 1})") == folder.index + ": the shard of 'a' must be the name of a file");
  CHECK(error("{}") == folder.index + ": 'weight_map' is empty");
  CHECK(error("[]") == folder.index + ": 'weight_map' is [] but must be an object");
  CHECK(error("null") == folder.index + ": 'weight_map' is null but must be an object");
  put(folder.index, "{");
  CHECK(folder.error().starts_with(folder.index + ": is not JSON: at line 1"));
  put(folder / "one.safetensors", "damaged");
  CHECK(error(R"({"a": "one.safetensors"})").starts_with(folder / "one.safetensors: "));
}
