// Saves and loads an optimizer's state as a safetensors file. For each parameter NAME it holds the moment estimates
// `first.NAME` and `second.NAME`, and the number of steps, `steps.NAME`. Files of PyTorch's optimizers are pickles and
// are not read.
#pragma once
#include <any>
#include <cmath>

#include <heddle/io/safetensors.hpp>
#include <heddle/optim/slots.hpp>

namespace heddle::io {

namespace detail {

inline std::string moment_name(const optim::Moment& moment, const std::string& parameter) {
  return std::string(moment.name) + '.' + parameter;
}

// Throws E for values that no update produces: the next update would corrupt the weights. A mean of squares may
// be infinite; its weight then changes only by decoupled weight decay.
template <class E, class T>
void check_moment(const std::string& file, const std::string& name, std::span<const T> values, bool nonnegative) {
  const auto refused = std::find_if_not(values.begin(), values.end(),
                                        [&](T value) { return nonnegative ? value >= 0 : std::isfinite(value); });
  if (refused != values.end())
    fail<E>(file, ": ", quoted_name(name), " holds ", *refused,
            nonnegative ? " but must be at least 0" : " but must be finite");
}

// Throws Error if a process has a part of the state.
inline void require_whole(const optim::Slots& state, const char* function) {
  state.each([&](const auto& slot) {
    require(!slot.is_part(), function, ": this process has only a part of the state of ", quoted_name(slot.name),
            "; call it before the state is split, or in a scope of distributed::ShardedState::Whole");
  });
}

}  // namespace detail

/// Saves the state of an optimizer. Replaces the file atomically, and returns its size and checksum. @throws Error for
/// a moment estimate that load_optimizer() would refuse, for a state that is split over processes, and as
/// Slots::synchronize() does, and leaves the file as it was; WriteError as write_safetensors() does.
inline FileSum save_optimizer(const optim::Slots& state, const std::string& path) {
  state.synchronize();
  detail::require_whole(state, "save_optimizer");
  std::vector<TensorBytes> tensors;
  std::vector<std::any> host_copies;  // alive until they are written
  state.each([&](const auto& slot) {
    tensors.push_back({"steps." + slot.name, DType::i64, {}, std::as_bytes(std::span(&slot.steps, 1))});
    if (slot.steps == 0) return;  // a step that ran out of memory may have allocated moments
    for (std::size_t k = 0; k < state.moments().size(); ++k) {
      if (!slot.moments[k] || slot.moments[k].size() == 0) continue;
      const auto values = slot.moments[k].to(Device::cpu);
      host_copies.push_back(values);
      const optim::Moment& moment = state.moments()[k];
      const std::string name = detail::moment_name(moment, slot.name);
      detail::check_moment<Error>(printable(path), name,
                                  std::span(values.data(), static_cast<std::size_t>(values.size())),
                                  moment.is_nonnegative);
      tensors.push_back(tensor_bytes(name, values));
    }
  });
  return write_safetensors(path, std::move(tensors), {{"optimizer", state.optimizer()}});
}

/// Reads the state into an optimizer of the same kind over the same parameters. Options such as the learning rate are
/// not in the file. @throws FileError for a file that save_optimizer() did not write, and for values that no update
/// produces; the optimizer is then unchanged. @throws Error as Slots::synchronize() does; a second call then loads.
inline void load_optimizer(optim::Slots& state, const std::string& path) {
  state.synchronize();
  detail::require_whole(state, "load_optimizer");
  const Safetensors file = read_safetensors(path);
  const std::string shown = printable(path), kind = state.optimizer();
  const auto kind_in_file = file.metadata().find("optimizer");
  require<FileError>(kind_in_file != file.metadata().end(), shown, ": is not the state of an optimizer");
  require<FileError>(kind_in_file->second == kind, shown, ": is the state of the optimizer ",
                     printable(kind_in_file->second), ", not of ", kind);
  constexpr std::int64_t most_steps = 1'000'000'000'000;
  std::size_t known = 0;
  for (const bool write : {false, true}) {
    known = 0;
    state.each([&](auto& slot) {
      using T = typename std::remove_cvref_t<decltype(slot)>::Element;
      const auto read = [&]<class U>(const std::string& name, const Shape& shape, std::vector<U> values) {
        const TensorInfo& tensor = file[name];
        require<FileError>(tensor.dtype == dtype_of<U>() && tensor.shape == shape, shown, ": ", quoted_name(name),
                           " is ", io::name(tensor.dtype), ' ', tensor.shape, "; this optimizer has ",
                           io::name(dtype_of<U>()), ' ', shape);
        ++known;
        values.resize(static_cast<std::size_t>(shape.size()));
        file.read(tensor, values.data());
        return values;
      };
      const std::int64_t steps = read("steps." + slot.name, Shape(), std::vector<std::int64_t>())[0];
      require<FileError>(steps >= 0 && steps <= most_steps, shown, ": ", quoted_name("steps." + slot.name), " is ",
                         steps, " but must be from 0 to ", most_steps);
      if (write) slot.steps = steps, slot.row_flags.clear();
      for (std::size_t k = 0; k < state.moments().size(); ++k) {
        const optim::Moment& moment = state.moments()[k];
        const std::string name = detail::moment_name(moment, slot.name);
        const bool exists = file.find(name);
        const bool needed = steps > 0 && !moment.is_optional && slot.parameter->value().size() > 0;
        require<FileError>(exists || !needed, shown, ": has no tensor ", quoted_name(name), " after ", steps,
                           " updates");
        require<FileError>(!exists || steps > 0, shown, ": ", quoted_name(name), " exists, but ", kind,
                           " keeps no moment estimates after ", steps, " updates");
        std::vector<T> values;
        if (exists) values = read(name, slot.parameter->value().shape(), std::vector<T>());
        detail::check_moment<FileError>(shown, name, std::span<const T>(values), moment.is_nonnegative);
        if (write) slot.moments[k] = exists ? Tensor<T>(slot.parameter->shape(), values) : Tensor<T>();
      }
    });
    const std::size_t unknown = file.tensors().size() - known;
    require<FileError>(unknown == 0, shown, ": has ", unknown, unknown == 1 ? " tensor" : " tensors",
                       " that this optimizer does not have");
  }
}

}  // namespace heddle::io
