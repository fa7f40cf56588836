// Saves and loads a model's weights as a safetensors file, under the names that the model's visit() gives them. A
// combined parameter (q, k and v in one matrix) is several tensors in the file.
#pragma once
#include <functional>

#include <heddle/io/safetensors.hpp>
#include <heddle/nn/module.hpp>

namespace heddle::io {

/// Writes every parameter and buffer in its master type; a shared one is written once, under its first name. Replaces
/// the file atomically, and returns its size and checksum. @throws WriteError as write_safetensors() does, and Error
/// for a name that the model visits twice.
template <class M>
FileSum save(const M& model, const std::string& path, std::map<std::string, std::string> metadata = {}) {
  std::vector<TensorBytes> tensors;
  std::vector<std::any> kept;  // copies of tensors on a GPU, alive until they are written
  walk_once(model, [&](const Name& name, const auto& x) {
    using T = typename std::remove_cvref_t<decltype(x)>::Element;
    const Tensor<T> values = detach(x.value()).to(Device::cpu);
    const Index rows = x.shape().rank() ? x.shape()[0] / static_cast<Index>(name.blocks.size()) : 0;
    for (std::size_t block = 0; block < name.blocks.size(); ++block) {
      const auto first = static_cast<Index>(block) * rows;
      const Tensor<T> part = name.blocks.size() == 1 ? values : values.leading(first, first + rows);
      tensors.push_back(tensor_bytes(name.blocks[block], part));
      kept.emplace_back(part);
    }
  });
  return write_safetensors(path, std::move(tensors), std::move(metadata));
}

/// A tensor of an open file.
struct StoredTensor {
  const Safetensors* file;   ///< the file that holds it
  const TensorInfo* tensor;  ///< its entry in that file
};

/// The tensors of one or several files under the names of a model.
struct WeightSource {
  std::string name;                                               ///< the file or folder, for messages
  std::map<std::string, StoredTensor, std::less<>> tensors = {};  ///< the tensors by name
};

/// The names that load() did not find, and those that it ignored, in quotes and shortened as in messages.
struct LoadReport {
  std::vector<std::string> missing;     ///< in the model, but not in the file; may_miss() accepted them
  std::vector<std::string> unexpected;  ///< in the file, but not in the model
};

namespace detail {
inline std::string abridged(const char* what, const std::vector<std::string>& names) {
  constexpr std::size_t most = 8;
  if (names.empty()) return "";
  std::string text = std::string("; ") + what + ' ' + std::to_string(names.size()) + ": ";
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i) text += (i ? ", " : "") + names[i];
  return text + (names.size() > most ? ", …" : "");
}

// Returns whether two stored tensors hold the same values.
inline bool same_bytes(const StoredTensor& a, const StoredTensor& b) {
  return a.tensor->dtype == b.tensor->dtype && std::ranges::equal(a.file->bytes(*a.tensor), b.file->bytes(*b.tensor));
}

// Reads a stored tensor into elements of a weight from `first` on, without a copy of the whole tensor.
template <class T>
void read_weight(const StoredTensor& from, heddle::detail::MasterTensor<T>& weight, Index first) {
  if (weight.value().device() == Device::cpu) {
    from.file->read(*from.tensor, weight.data() + first);
    return;
  }
  from.file->each_piece<T>(*from.tensor, [&](Index offset, std::span<const T> values) {
    weight.assign_rows(first + offset, Tensor<T>({static_cast<Index>(values.size())}, {values.begin(), values.end()}));
  });
}
}  // namespace detail

/// Reads a model's weights in place, cast to its types, so that optimizers created before continue with them. An absent
/// buffer keeps its value, and so does an absent weight if may_miss(name) is true. The file may have a shared weight
/// under any of its names, but not with different values. @throws FileError that lists the missing, mismatched and
/// unexpected names if a weight is missing or if a weight or buffer has another shape, FileError for a value that does
/// not fit its type, and Error for a name that the model visits twice; the model is then unchanged. Unexpected names
/// alone are no error. After a FileError for a file that cannot be read to its end, the model may have some of the
/// file's weights.
template <class M>
LoadReport load(
    M& model, const WeightSource& source,
    const std::function<bool(const std::string&)>& may_miss = [](const std::string&) { return false; }) {
  const std::string shown = printable(source.name);
  std::vector<std::string> missing, mismatched;
  std::set<std::string> known;
  using Block = std::pair<const void*, Index>;  // a weight, which may have several names, and its block
  std::map<Block, std::pair<std::string, StoredTensor>> found;
  std::set<Block> of_another_shape;
  std::vector<std::pair<std::string, Block>> absent;
  std::vector<std::function<void(bool write)>> assignments;
  walk(model, [&](const Name& name, auto& x) {
    using X = std::remove_cvref_t<decltype(x)>;
    using T = typename X::Element;
    known.insert(name.blocks.begin(), name.blocks.end());
    const auto count = static_cast<Index>(name.blocks.size());
    const Shape part = count == 1 ? x.shape() : x.shape().with(0, x.shape()[0] / count);
    for (Index block = 0; block < count; ++block) {
      const std::string& one = name.blocks[static_cast<std::size_t>(block)];
      const auto stored = source.tensors.find(one);
      const Block key{x.identity().get(), block};
      if (stored == source.tensors.end()) {
        if (!heddle::detail::is_buffer<X>) absent.emplace_back(one, key);
        continue;
      }
      const StoredTensor from = stored->second;
      if (!(from.tensor->shape == part)) {
        mismatched.push_back(quoted_name(one) + ' ' + from.tensor->shape.str() + " for " + part.str());
        of_another_shape.insert(key);
        continue;
      }
      const auto [first, is_new] = found.emplace(key, std::pair(one, from));
      if (!is_new) {
        require<FileError>(detail::same_bytes(first->second.second, from), shown, ": ",
                           quoted_name(first->second.first), " and ", quoted_name(one),
                           " are one shared weight of this model, but their values differ");
        continue;
      }
      assignments.push_back([from, begin = block * part.size(), identity = x.identity()](bool write) {
        if (write)
          detail::read_weight(from, *identity, begin);
        else if (!detail::always_fits<T>(from.tensor->dtype))
          from.file->each_piece<T>(*from.tensor, [](Index, std::span<const T>) {});
      });
    }
  });
  LoadReport report;
  for (const auto& [name, block] : absent)
    if (!found.count(block) && !of_another_shape.count(block))
      (may_miss(name) ? report.missing : missing).push_back(quoted_name(name));
  for (const auto& [name, stored] : source.tensors)
    if (!known.count(name)) report.unexpected.push_back(quoted_name(name));
  require<FileError>(missing.empty() && mismatched.empty(), shown, ": does not hold the weights of this model",
                     detail::abridged("missing", missing), detail::abridged("mismatched", mismatched),
                     detail::abridged("unexpected", report.unexpected));
  // A value that does not fit its type is found before anything is written.
  for (const bool write : {false, true})
    for (const auto& assign : assignments) assign(write);
  return report;
}

/// Reads a model's weights from a safetensors file under the names that the model's visit() gives them. @throws
/// FileError and Error as above.
template <class M>
LoadReport load(M& model, const std::string& path) {
  const Safetensors file = read_safetensors(path);
  WeightSource source{path};
  for (const TensorInfo& tensor : file.tensors()) source.tensors[tensor.name] = {&file, &tensor};
  return load(model, source);
}

}  // namespace heddle::io
