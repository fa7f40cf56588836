// A model's weights to and from a safetensors file, under the names that its visits give them. A packed parameter (q, k and v
// in one matrix) is several tensors in the file.
#pragma once
#include <functional>

#include <heddle/io/safetensors.hpp>
#include <heddle/nn/module.hpp>

namespace heddle::io {

/// Writes every parameter and buffer in its master type, a shared one once under its first name. Replaces the file atomically, and
/// returns its size and checksum. @throws FileError.
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

// The names that load ignored.
struct LoadReport {
  std::vector<std::string> unexpected;  // in the file, but not in the model
};

namespace detail {
inline std::string abridged(const char* what, const std::vector<std::string>& names) {
  constexpr std::size_t most = 8;
  if (names.empty()) return "";
  std::string text = std::string("; ") + what + ' ' + std::to_string(names.size()) + ": ";
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i) text += (i ? ", " : "") + names[i];
  return text + (names.size() > most ? ", …" : "");
}

// Whether two tensors of a file hold the same values.
inline bool same_bytes(const Safetensors& file, const TensorInfo& a, const TensorInfo& b) {
  return a.dtype == b.dtype && std::ranges::equal(file.bytes(a), file.bytes(b));
}
}  // namespace detail

// Reads a model's weights in place, cast to its types; optimizers made before go on with them. Nothing is changed unless everything
// fits: FileError lists the missing, mismatched and unexpected names otherwise. Unexpected names alone are no error, and a buffer may
// be absent: it keeps its value. A shared weight may stand under any of its names, but not with different values.
template <class M>
LoadReport load(M& model, const std::string& path) {
  const Safetensors file = read_safetensors(path);
  std::vector<std::string> missing, mismatched;
  std::set<std::string> known;
  using Block = std::pair<const void*, Index>;  // of one weight, which may have several names
  std::map<Block, const TensorInfo*> found;
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
      const TensorInfo* tensor = file.find(one);
      const Block key{x.identity().get(), block};
      if (!tensor) {
        if (!heddle::detail::is_buffer<X>) absent.emplace_back(one, key);
        continue;
      }
      if (!(tensor->shape == part)) {
        mismatched.push_back(quoted_name(one) + ' ' + tensor->shape.str() + " for " + part.str());
        continue;
      }
      const auto [first, is_new] = found.emplace(key, tensor);
      if (!is_new) {
        require<FileError>(detail::same_bytes(file, *first->second, *tensor), printable(path), ": ",
                           quoted_name(first->second->name), " and ", quoted_name(one),
                           " are one shared weight of this model, but their values differ");
        continue;
      }
      assignments.push_back([&file, tensor, part, block, identity = x.identity()](bool write) {
        Tensor<T> values(part);
        file.read(*tensor, values.data());
        if (write) identity->assign_rows(block * part.size(), values);
      });
    }
  });
  for (const auto& [name, block] : absent)
    if (!found.count(block)) missing.push_back(quoted_name(name));
  LoadReport report;
  for (const TensorInfo& tensor : file.tensors())
    if (!known.count(tensor.name)) report.unexpected.push_back(quoted_name(tensor.name));
  require<FileError>(missing.empty() && mismatched.empty(), printable(path),
                     ": does not hold the weights of this model", detail::abridged("missing", missing),
                     detail::abridged("mismatched", mismatched), detail::abridged("unexpected", report.unexpected));
  // A value that does not fit its type is found before anything is written.
  for (const bool write : {false, true})
    for (const auto& assign : assignments) assign(write);
  return report;
}

}  // namespace heddle::io
