// Writing safetensors files: the same tensors always give the same bytes.
#pragma once
#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <heddle/core/tensor.hpp>
#include <heddle/io/json_string.hpp>
#include <heddle/io/tensor_info.hpp>
#include <heddle/io/write_atomically.hpp>

namespace heddle::io {

/// The longest header that readers accept, in bytes.
inline constexpr std::size_t safetensors_header_limit = 100'000'000;

/// A tensor to be written: its values in C order, little-endian, as they stand in memory.
struct TensorBytes {
  std::string name;                  ///< its name in the file
  DType dtype;                       ///< the type of its elements
  Shape shape;                       ///< its shape
  std::span<const std::byte> bytes;  ///< its values
};
/// Returns the bytes of a tensor on the host, for write_safetensors. They belong to x, which must live until they are
/// written. @throws Error for a tensor on a GPU.
template <class T>
TensorBytes tensor_bytes(const std::string& name, const Tensor<T>& x) {
  return {name, dtype_of<T>(), x.shape(), std::as_bytes(std::span(x.data(), static_cast<std::size_t>(x.size())))};
}
template <class T>
TensorBytes tensor_bytes(const std::string& name, Tensor<T>&& x) = delete;  // its memory could be freed before writing

namespace detail {

inline std::string json_header(const std::vector<TensorBytes>& tensors,
                               const std::map<std::string, std::string>& metadata) {
  std::string json = "{\"__metadata__\":{";
  for (const auto& [key, value] : metadata) json += json_string(key) + ':' + json_string(value) + ',';
  json.back() = '}';
  std::size_t begin = 0;
  for (const TensorBytes& tensor : tensors) {
    json += ',' + json_string(tensor.name) + ":{\"dtype\":" + json_string(name(tensor.dtype)) + ",\"shape\":[";
    for (const Index extent : tensor.shape) json += std::to_string(extent) + ',';
    if (tensor.shape.rank() > 0) json.pop_back();
    json += "],\"data_offsets\":[" + std::to_string(begin) + ',' + std::to_string(begin + tensor.bytes.size()) + "]}";
    begin += tensor.bytes.size();
  }
  return json + '}';
}

inline void check_tensors(const std::string& file, const std::vector<TensorBytes>& tensors) {
  std::set<std::string_view> names{"__metadata__"};
  for (const TensorBytes& tensor : tensors) {
    const auto check = [&](bool ok, const auto&... why) {
      require<WriteError>(ok, file, ": tensor ", quoted_name(tensor.name), ' ', why...);
    };
    check(text::is_utf8(tensor.name), "has a name that is not UTF-8");
    check(names.insert(tensor.name).second,
          tensor.name == "__metadata__" ? "has a name that the format reserves" : "is given twice");
    check(readable(tensor.dtype), "is of dtype ", name(tensor.dtype), ", which heddle does not write");
    check(tensor.bytes.size() == static_cast<std::size_t>(tensor.shape.size()) * (bits(tensor.dtype) / 8), "is given ",
          tensor.bytes.size(), " bytes for ", name(tensor.dtype), ' ', tensor.shape);
  }
}

}  // namespace detail

/// Writes tensors to a file, which is replaced atomically, and returns its size and checksum. Tensors are sorted by
/// decreasing element size, then by name, so that each is aligned; the format's own library sorts by element type, then
/// by name. "format": "pt" is added to the metadata because Hugging Face loaders require it. @throws WriteError for a
/// name that is given twice, is not UTF-8 or is "__metadata__", for metadata that is not UTF-8, for a dtype that heddle
/// does not write, for bytes that do not fit shape and dtype, for a header above 100,000,000 bytes, and if the file
/// cannot be written.
inline FileSum write_safetensors(const std::string& path, std::vector<TensorBytes> tensors,
                                 std::map<std::string, std::string> metadata = {}) {
  constexpr std::size_t alignment = 8;
  const std::string file = printable(path);
  detail::check_tensors(file, tensors);
  metadata.emplace("format", "pt");
  for (const auto& [key, value] : metadata)
    require<WriteError>(text::is_utf8(key) && text::is_utf8(value), file, ": metadata ", quoted_name(key),
                        " is not UTF-8");
  std::sort(tensors.begin(), tensors.end(), [](const TensorBytes& a, const TensorBytes& b) {
    return bits(a.dtype) != bits(b.dtype) ? bits(a.dtype) > bits(b.dtype) : a.name < b.name;
  });
  std::string header = detail::json_header(tensors, metadata);
  header.resize((header.size() + alignment - 1) / alignment * alignment, ' ');
  require<WriteError>(header.size() <= safetensors_header_limit, file, ": the header takes ", header.size(),
                      " bytes; the limit is ", safetensors_header_limit);
  const std::uint64_t length = header.size();
  return write_atomically(path, [&](OutputFile& out) {
    out.write(std::as_bytes(std::span(&length, 1)));
    out.write(header);
    for (const TensorBytes& tensor : tensors) out.write(tensor.bytes);
  });
}

}  // namespace heddle::io
