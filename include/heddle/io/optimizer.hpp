// What an optimizer remembers, to and from a safetensors file: for each parameter NAME `first.NAME`, `second.NAME` (moments; the first
// is SGD's momentum) and `steps.NAME`. Files of PyTorch's optimizers are pickles and are not read.
#pragma once
#include <heddle/io/safetensors.hpp>
#include <heddle/optim/slots.hpp>

namespace heddle::io {

// Replaces the file atomically. Throws WriteError.
template <class Calls = SystemCalls>
void save_optimizer(const optim::Slots& slots, const std::string& path) {
  std::vector<TensorBytes> tensors;
  slots.each([&](const auto& slot) {
    using T = typename std::remove_cvref_t<decltype(slot)>::Element;
    tensors.push_back({"steps." + slot.name, DType::i64, {}, std::as_bytes(std::span(&slot.steps, 1))});
    for (const auto& [kind, values] : {std::pair{"first.", &slot.first}, std::pair{"second.", &slot.second}})
      if (!values->empty())
        tensors.push_back(
            {kind + slot.name, dtype_of<T>(), slot.parameter->value().shape(), std::as_bytes(std::span(*values))});
  });
  write_safetensors<Calls>(path, std::move(tensors), {{"optimizer", slots.optimizer()}});
}

// Into an optimizer of the same kind over the same parameters; settings such as the rate are not in the file. Throws FileError, and
// then the optimizer is as it was.
inline void load_optimizer(optim::Slots& slots, const std::string& path) {
  const Safetensors file = read_safetensors(path);
  const auto kind_there = file.metadata().find("optimizer");
  require<FileError>(kind_there != file.metadata().end() && kind_there->second == slots.optimizer(), printable(path),
                     ": is not the state of an optimizer ", slots.optimizer());
  std::size_t known = 0;
  for (const bool write : {false, true}) {
    known = 0;
    slots.each([&](auto& slot) {
      using T = typename std::remove_cvref_t<decltype(slot)>::Element;
      const auto read = [&]<class U>(const std::string& name, const Shape& shape, U* to) {
        const TensorInfo& tensor = file[name];
        require<FileError>(tensor.dtype == dtype_of<U>() && tensor.shape == shape, printable(path), ": ",
                           quoted_name(name), " is ", io::name(tensor.dtype), ' ', tensor.shape,
                           " and not of this optimizer");
        if (write) file.read(tensor, to);
        ++known;
      };
      read("steps." + slot.name, Shape(), &slot.steps);
      if (write) slot.awake.clear();
      for (auto& [kind, values] : {std::pair{"first.", &slot.first}, std::pair{"second.", &slot.second}}) {
        if (!file.find(kind + slot.name)) {
          if (write) values->clear();
          continue;
        }
        const Shape& shape = slot.parameter->value().shape();
        if (write) values->resize(static_cast<std::size_t>(shape.size()));
        read(kind + slot.name, shape, static_cast<T*>(values->data()));
      }
    });
    require<FileError>(known == file.tensors().size(), printable(path), ": holds the state of ",
                       file.tensors().size() - known, " more tensors than this optimizer has");
  }
}

}  // namespace heddle::io
