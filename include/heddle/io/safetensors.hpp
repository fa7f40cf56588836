// safetensors files: eight bytes of header length, a JSON header, and the bytes of all tensors without a gap. heddle
// checks all of this before it reads a tensor. The format has no checksum, so a flipped bit in the data is not
// detected. Format: the README and src/tensor.rs of github.com/huggingface/safetensors.
#pragma once
#include <functional>
#include <memory>
#include <unordered_map>

#include <heddle/base/file.hpp>
#include <heddle/io/convert.hpp>
#include <heddle/io/safetensors_header.hpp>
#include <heddle/io/safetensors_write.hpp>

namespace heddle::io {

static_assert(std::endian::native == std::endian::little,
              "heddle: safetensors files are little-endian, and bytes are not swapped here");

/// An open safetensors file: its checked header, and its tensors, which are read on request. If the file is replaced
/// while it is open, the old one is still read. If it is changed in place, the change is not noticed unless the file
/// becomes shorter. Move-only. Several threads may call const functions at once.
class Safetensors {
 public:
  /// A function that copies bytes of the data section from an offset on. The data section begins after the header.
  using Read = std::function<void(std::size_t offset, std::span<std::byte> to)>;

  /// Takes a checked header and a function that reads the data; read_safetensors() and parse_safetensors() call this
  /// constructor.
  Safetensors(std::string file, SafetensorsHeader header, Read read)
      : file_(std::move(file)), header_(std::move(header)), read_(std::move(read)) {
    for (const TensorInfo& tensor : header_.tensors) by_name_[tensor.name] = &tensor;
  }
  /// Takes over the open file.
  Safetensors(Safetensors&&) = default;
  /// Takes over the open file.
  Safetensors& operator=(Safetensors&&) = default;

  /// Returns the path, for messages.
  const std::string& file() const { return file_; }
  const std::vector<TensorInfo>& tensors() const { return header_.tensors; }  ///< in the order of their bytes
  /// Returns the metadata of the header.
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

  /// Returns a tensor's entry, or nullptr if there is none of this name.
  const TensorInfo* find(std::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }
  /// Returns a tensor's entry. @throws FileError if there is none of this name.
  const TensorInfo& operator[](std::string_view name) const {
    const TensorInfo* tensor = find(name);
    require<FileError>(tensor, printable(file_), ": has no tensor ", quoted_name(name));
    return *tensor;
  }

  /// Returns the bytes of a tensor: little-endian, in C order. @throws FileError if the file became shorter.
  std::vector<std::byte> bytes(const TensorInfo& tensor) const {
    std::vector<std::byte> all(tensor.end - tensor.begin);
    read_(tensor.begin, all);
    return all;
  }

  /// Calls f(first, values) for the values of a tensor cast to T, a piece of at most 65,536 elements at a time, in
  /// order; `first` is the index of the piece's first element. @throws FileError as convert() does, and if the file
  /// became shorter.
  template <class T, class F>
  void each_piece(const TensorInfo& tensor, F&& f) const {
    constexpr Index most = 65536;
    detail::require_readable(tensor, file_);
    const std::size_t size = bits(tensor.dtype) / 8;  // bytes of an element
    std::vector<std::byte> stored;
    const auto values =
        std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(std::min(most, tensor.shape.size())));
    for (Index first = 0; first < tensor.shape.size(); first += most) {
      const auto count = static_cast<std::size_t>(std::min(most, tensor.shape.size() - first));
      stored.resize(count * size);
      read_(tensor.begin + static_cast<std::size_t>(first) * size, stored);
      detail::convert_piece(tensor, first, stored, values.get(), file_);
      f(first, std::span<const T>(values.get(), count));
    }
  }

  /// Reads all values of a tensor, cast to T, into the tensor.shape.size() elements at `out`. Allocates no memory for a
  /// tensor of type T, except bool. @throws FileError as each_piece() does.
  template <class T>
  void read(const TensorInfo& tensor, T* out) const {
    if (tensor.dtype == dtype_of<T>() && tensor.dtype != DType::boolean)
      read_(tensor.begin, std::as_writable_bytes(std::span(out, static_cast<std::size_t>(tensor.shape.size()))));
    else
      each_piece<T>(tensor, [&](Index first, std::span<const T> values) {
        std::copy(values.begin(), values.end(), out + first);
      });
  }
  /// Returns the tensor of a name with its values cast to T. @throws FileError if there is none, and as each_piece().
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
  Read read_;
  // Points into header_.tensors, which never grows and keeps its memory block in a move.
  std::unordered_map<std::string_view, const TensorInfo*> by_name_;
};

namespace detail {

// Sorts the tensors by offset. Throws FileError unless they cover the data from its first byte to its last
// without a gap.
inline void check_layout(const std::string& file, SafetensorsHeader& header, std::size_t data_size) {
  std::stable_sort(header.tensors.begin(), header.tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::size_t end = 0;
  for (const TensorInfo& tensor : header.tensors) {
    require<FileError>(tensor.begin == end, file, ": tensor ", quoted_name(tensor.name), " begins at byte ",
                       tensor.begin, " of the data; the one before it ends at ", end);
    end = tensor.end;
  }
  require<FileError>(end == data_size, file, ": the tensors take ", end, " bytes; the file holds ", data_size,
                     " after its header");
}

inline SafetensorsHeader parse_header(const std::string& file, std::string_view json, std::size_t data_size) {
  require<FileError>(!json.empty() && json.front() == '{', file, ": the header does not begin with '{'");
  // nlohmann::json takes a NUL byte for the end of its input.
  const std::size_t nul = json.find('\0');
  require<FileError>(nul == std::string_view::npos, file, ": the header has a NUL byte at offset ", nul);
  SafetensorsHeader header;
  HeaderReader reader(file, header);
  nlohmann::json::sax_parse(json.begin(), json.end(), &reader);
  check_layout(file, header, data_size);
  return header;
}

// Reads the header of a file of `size` bytes. read_at(offset, to, count) copies bytes of the file and returns their
// number.
template <class ReadAt>
Safetensors read_safetensors(const std::string& path, std::size_t size, ReadAt read_at) {
  const std::string file = printable(path);
  const auto fill = [=](std::size_t offset, void* to, std::size_t count) {
    require<FileError>(read_at(offset, to, count) == count, file, ": became shorter while it was read");
  };
  std::uint64_t length = 0;
  require<FileError>(size >= sizeof length, file, ": has ", size, " bytes; a safetensors file has at least ",
                     sizeof length);
  fill(0, &length, sizeof length);
  size -= sizeof length;
  constexpr std::uint64_t two_bytes = 0xFFFF, zip = 0x4B50,
                          pickle = 0x0280;  // the first bytes of torch.save, today and formerly
  const bool torch_file = (length & two_bytes) == zip || (length & two_bytes) == pickle;
  require<FileError>(!torch_file || length <= size, file,
                     ": is a PyTorch pickle, which is not read; save the weights with safetensors.torch.save_file");
  constexpr const char* what = ": is not a safetensors file, or it is damaged: ";
  require<FileError>(length <= safetensors_header_limit, file, what, "the header's length is ", length,
                     "; the limit is ", safetensors_header_limit);
  require<FileError>(length <= size, file, what, "the header's length is ", length, ", but only ", size,
                     " bytes follow");
  std::string json(static_cast<std::size_t>(length), '\0');
  fill(sizeof length, json.data(), json.size());
  SafetensorsHeader header = parse_header(file, json, size - json.size());
  const std::size_t data = sizeof length + json.size();
  return {path, std::move(header), [=](std::size_t offset, std::span<std::byte> to) {
            if (!to.empty()) fill(data + offset, to.data(), to.size());
          }};
}

}  // namespace detail

/// Opens a file and reads its header. @throws FileError with the file and the fault if the file cannot be read or is
/// not a regular file, or if its header or size is invalid, and OutOfMemory with the file.
inline Safetensors read_safetensors(const std::string& path) {
  return detail::with_memory_for(path, "read", [&] {
    const auto file = std::make_shared<InputFile>(path);
    require<FileError>(file->is_regular(), printable(path), ": is not a regular file");
    return detail::read_safetensors(path, file->size(), [file](std::size_t offset, void* to, std::size_t count) {
      return file->read_at(offset, to, count);
    });
  });
}

/// Reads a safetensors file in memory; the result keeps a copy of it, and messages name it `name`. @throws FileError as
/// read_safetensors().
inline Safetensors parse_safetensors(std::string_view bytes, const std::string& name) {
  const auto copy = std::make_shared<const std::string>(bytes);
  return detail::read_safetensors(name, copy->size(), [copy](std::size_t offset, void* to, std::size_t count) {
    return copy->copy(static_cast<char*>(to), count, offset);
  });
}

}  // namespace heddle::io
