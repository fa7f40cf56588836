// safetensors files: eight bytes of header length, a JSON header, the bytes of all tensors without a gap. All of that
// is checked before memory for the data is asked for. What the format cannot show, such as a bit flipped in the data,
// is not found. Format: the README and src/tensor.rs of github.com/huggingface/safetensors.
#pragma once
#include <memory>
#include <unordered_map>

#include <heddle/base/file.hpp>
#include <heddle/io/convert.hpp>
#include <heddle/io/safetensors_header.hpp>
#include <heddle/io/safetensors_write.hpp>

namespace heddle::io {

static_assert(std::endian::native == std::endian::little,
              "heddle: safetensors files are little-endian, and bytes are not swapped here");

// A file in memory. Move-only: it may be gigabytes.
class Safetensors {
 public:
  Safetensors(std::string file, SafetensorsHeader header, std::unique_ptr<std::byte[]> data)
      : file_(std::move(file)), header_(std::move(header)), data_(std::move(data)) {
    for (const TensorInfo& tensor : header_.tensors) by_name_[tensor.name] = &tensor;
  }

  const std::string& file() const { return file_; }
  const std::vector<TensorInfo>& tensors() const { return header_.tensors; }  // in the order of their bytes
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

  // nullptr where there is no such tensor.
  const TensorInfo* find(std::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }
  // Throws FileError where there is no such tensor.
  const TensorInfo& operator[](std::string_view name) const {
    const TensorInfo* tensor = find(name);
    require<FileError>(tensor, printable(file_), ": has no tensor ", quoted_name(name));
    return *tensor;
  }

  // Little-endian, in C order.
  std::span<const std::byte> bytes(const TensorInfo& tensor) const {
    return {data_.get() + tensor.begin, tensor.end - tensor.begin};
  }

  // All values of the tensor cast to T. Throws as convert does.
  template <class T>
  void read(const TensorInfo& tensor, T* out) const {
    convert(tensor, bytes(tensor), out, file_);
  }
  /// Returns the tensor of a name with its values cast to T. @throws FileError if there is none, or for a value that T cannot hold.
  template <class T>
  Tensor<T> tensor(std::string_view name) const {
    const TensorInfo& info = (*this)[name];
    Tensor<T> x(info.shape);
    read(info, x.data());
    return x;
  }

 private:
  std::string file_;
  SafetensorsHeader header_;
  std::unique_ptr<std::byte[]> data_;
  // Points into header_.tensors, which never grows and moves as one block.
  std::unordered_map<std::string_view, const TensorInfo*> by_name_;
};

namespace detail {

// The tensors must follow each other from the first byte of the data to the last.
inline void check_layout(const std::string& file, SafetensorsHeader& header, std::size_t data_size) {
  std::stable_sort(header.tensors.begin(), header.tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::size_t end = 0;
  for (const TensorInfo& tensor : header.tensors) {
    require<FileError>(tensor.begin == end, file, ": tensor ", quoted_name(tensor.name), " begins at byte ",
                       tensor.begin, " of the data, the one before it ends at ", end);
    end = tensor.end;
  }
  require<FileError>(end == data_size, file, ": the tensors take ", end, " bytes, the file holds ", data_size,
                     " after its header");
}

inline SafetensorsHeader parse_header(const std::string& file, std::string_view json, std::size_t data_size) {
  require<FileError>(!json.empty() && json.front() == '{', file, ": the header does not begin with '{'");
  // nlohmann::json takes a NUL byte for the end of its input.
  const std::size_t nul = json.find('\0');
  require<FileError>(nul == std::string_view::npos, file, ": the header has a NUL byte at its byte ", nul);
  SafetensorsHeader header;
  HeaderReader reader(file, header);
  nlohmann::json::sax_parse(json.begin(), json.end(), &reader);
  check_layout(file, header, data_size);
  return header;
}

// read(to, count) copies the file's next bytes and returns how many there were.
template <class Read>
Safetensors read_safetensors(const std::string& path, std::size_t size, Read read) {
  const std::string file = printable(path);
  const auto fill = [&](void* to, std::size_t count) {
    require<FileError>(read(to, count) == count, file, ": became shorter while it was read");
  };
  std::uint64_t length = 0;
  require<FileError>(size >= sizeof length, file, ": has ", size, " bytes, a safetensors file has at least ",
                     sizeof length);
  fill(&length, sizeof length);
  size -= sizeof length;
  constexpr std::uint64_t two_bytes = 0xFFFF, zip = 0x4B50,
                          pickle = 0x0280;  // as torch.save begins a file, now and once
  const bool torch_file = (length & two_bytes) == zip || (length & two_bytes) == pickle;
  require<FileError>(!torch_file || length <= size, file,
                     ": is a PyTorch pickle, which is not read; save the weights with safetensors.torch.save_file");
  constexpr const char* what = ": is not a safetensors file, or it is damaged: ";
  require<FileError>(length <= safetensors_header_limit, file, what, "the header's length is ", length,
                     ", the limit is ", safetensors_header_limit);
  require<FileError>(length <= size, file, what, "the header's length is ", length, ", but only ", size,
                     " bytes follow");
  std::string json(static_cast<std::size_t>(length), '\0');
  fill(json.data(), json.size());
  size -= json.size();
  SafetensorsHeader header = parse_header(file, json, size);
  json = {};
  auto data = std::make_unique_for_overwrite<std::byte[]>(size);
  fill(data.get(), size);
  return {path, std::move(header), std::move(data)};
}

}  // namespace detail

// Throws FileError, one sentence that names the file and what is wrong with it, unless the whole file is valid, and OutOfMemory that
// names it.
inline Safetensors read_safetensors(const std::string& path) {
  return detail::with_memory_for(path, "read", [&] {
    InputFile file(path);
    require<FileError>(file.regular(), printable(path), ": is no regular file");
    return detail::read_safetensors(path, file.size(),
                                    [&](void* to, std::size_t count) { return file.read(to, count); });
  });
}

// The same for a file in memory; `name` stands for it in messages.
inline Safetensors parse_safetensors(std::string_view bytes, const std::string& name) {
  return detail::read_safetensors(name, bytes.size(), [&](void* to, std::size_t count) {
    const std::size_t copied = bytes.copy(static_cast<char*>(to), count);
    bytes.remove_prefix(copied);
    return copied;
  });
}

}  // namespace heddle::io
