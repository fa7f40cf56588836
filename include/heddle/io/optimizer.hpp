// What an optimizer remembers, to and from a safetensors file: for each parameter NAME `first.NAME`, `second.NAME` (moments; the first
// is SGD's momentum) and `steps.NAME`. Files of PyTorch's optimizers are pickles and are not read.
#pragma once
#include <any>
#include <cmath>

#include <heddle/io/safetensors.hpp>
#include <heddle/optim/slots.hpp>

namespace heddle::io {

// Replaces the file atomically. Throws WriteError.
template <class Calls = SystemCalls>
void save_optimizer(const optim::Slots& slots, const std::string& path) {
  std::vector<TensorBytes> tensors;
  std::vector<std::any> kept;  // copies of what is on the GPU
  slots.each([&](const auto& slot) {
    using T = typename std::remove_cvref_t<decltype(slot)>::Element;
    tensors.push_back({"steps." + slot.name, DType::i64, {}, std::as_bytes(std::span(&slot.steps, 1))});
    for (const auto& [kind, values] : {std::pair{"first.", &slot.first}, std::pair{"second.", &slot.second}})
      if (*values && values->size() > 0 && slot.steps > 0) {  // an update that memory ran out for may have made room
        const Tensor<T> here = values->to(Device::cpu);
        kept.push_back(here);
        tensors.push_back({kind + slot.name, dtype_of<T>(), here.shape(),
                           std::as_bytes(std::span(here.device_data(), static_cast<std::size_t>(here.size())))});
      }
  });
  write_safetensors<Calls>(path, std::move(tensors), {{"optimizer", slots.optimizer()}});
}

namespace detail {

// What no update leaves behind would spoil the weights at the next one. A mean of squares may be infinite: the weight rests then.
template <class T>
void check_moments(const std::string& file, const std::string& name, const std::vector<T>& values, bool squares) {
  for (const T value : values)
    require<FileError>(squares ? value >= 0 : std::isfinite(value), file, ": ", quoted_name(name), " holds ", value,
                       squares ? ", it must be at least 0" : ", it must be finite");
}

}  // namespace detail

// Into an optimizer of the same kind over the same parameters; settings such as the rate are not in the file. Throws FileError, and
// then the optimizer is as it was: for a file that save_optimizer did not write, and for values that no update leaves behind.
inline void load_optimizer(optim::Slots& slots, const std::string& path) {
  const Safetensors file = read_safetensors(path);
  const std::string shown = printable(path), kind = slots.optimizer();
  const auto kind_there = file.metadata().find("optimizer");
  require<FileError>(kind_there != file.metadata().end() && kind_there->second == kind, shown,
                     ": is not the state of an optimizer ", kind);
  constexpr std::int64_t most_steps = 1'000'000'000'000;
  std::size_t known = 0;
  for (const bool write : {false, true}) {
    known = 0;
    slots.each([&](auto& slot) {
      using T = typename std::remove_cvref_t<decltype(slot)>::Element;
      const auto read = [&]<class U>(const std::string& name, const Shape& shape, std::vector<U> values) {
        const TensorInfo& tensor = file[name];
        require<FileError>(tensor.dtype == dtype_of<U>() && tensor.shape == shape, shown, ": ", quoted_name(name),
                           " is ", io::name(tensor.dtype), ' ', tensor.shape, " and not of this optimizer");
        ++known;
        values.resize(static_cast<std::size_t>(shape.size()));
        file.read(tensor, values.data());
        return values;
      };
      const std::int64_t steps = read("steps." + slot.name, Shape(), std::vector<std::int64_t>())[0];
      require<FileError>(steps >= 0 && steps <= most_steps, shown, ": ", quoted_name("steps." + slot.name), " is ",
                         steps, ", it must be from 0 to ", most_steps);
      if (write) slot.steps = steps, slot.awake.clear();
      for (auto& [prefix, values] : {std::pair{"first.", &slot.first}, std::pair{"second.", &slot.second}}) {
        const std::string name = prefix + slot.name;
        const bool there = file.find(name), second = values == &slot.second;
        // Adam has both from its first update on, Sgd the first where it has momentum.
        const bool empty = slot.parameter->value().size() == 0;
        const bool needed = steps > 0 && kind != "Sgd" && !empty, allowed = steps > 0 && !(second && kind == "Sgd");
        require<FileError>(there || !needed, shown, ": has no tensor ", quoted_name(name), " after ", steps,
                           " updates");
        require<FileError>(!there || allowed, shown, ": ", quoted_name(name), " is not what ", kind, " keeps after ",
                           steps, " updates");
        std::vector<T> moments;
        if (there) moments = read(name, slot.parameter->value().shape(), std::vector<T>());
        detail::check_moments(shown, name, moments, second);
        if (write) *values = there ? Tensor<T>(slot.parameter->shape(), moments) : Tensor<T>();
      }
    });
    require<FileError>(known == file.tensors().size(), shown, ": holds the state of ", file.tensors().size() - known,
                       " more tensors than this optimizer has");
  }
}

}  // namespace heddle::io
