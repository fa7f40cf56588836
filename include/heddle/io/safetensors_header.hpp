// The parser of a safetensors header. It is as strict as the format's own library, and also refuses whitespace before
// the opening brace, a repeated key in any object, and a shape of more than 8 axes or 2^63 - 1 elements. It uses SAX
// calls, because nlohmann::json keeps only the last of two equal keys.
#pragma once
#include <algorithm>
#include <initializer_list>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <heddle/base/error.hpp>
#include <heddle/base/printable.hpp>
#include <heddle/io/tensor_info.hpp>

namespace heddle::io {

/// The content of a header.
struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;              ///< in the order of their bytes
  std::map<std::string, std::string> metadata;  ///< texts by name
};

namespace detail {

// A handler of the calls of nlohmann::json::sax_parse. The object or array that contains a value, and the value's key,
// decide which values are valid; any other value throws FileError.
class HeaderReader {
 public:
  HeaderReader(const std::string& file, SafetensorsHeader& header) : file_(file), header_(header) {}

  bool null() { return accept({Place::metadata, Place::anything}, "null"); }
  bool boolean(bool value) { return accept({Place::anything}, value ? "true" : "false"); }
  bool number_integer(std::int64_t value) { return accept({Place::anything}, std::to_string(value)); }
  bool number_float(double, const std::string& text) { return accept({Place::anything}, text); }
  bool binary(const std::vector<std::uint8_t>&) { return false; }  // JSON has none

  bool number_unsigned(std::uint64_t value) {
    const Place place = take({Place::extent, Place::offset, Place::anything}, std::to_string(value));
    if (place == Place::extent) {
      constexpr auto limit = std::numeric_limits<Index>::max();
      if (value > limit) fail<FileError>(file_, ": ", who(place), " is ", value, "; the limit is ", limit);
      if (++axes_ <= Shape::max_rank) extents_.push_back(static_cast<Index>(value));
    } else if (place == Place::offset) {
      if (++offsets_ == 1) tensor_.begin = value;
      if (offsets_ == 2) tensor_.end = value;
    }
    return true;
  }
  bool string(std::string& value) {
    const Place place = take({Place::dtype, Place::metadata_value, Place::anything}, "a string");
    if (place == Place::metadata_value) header_.metadata[key_] = std::move(value);
    if (place != Place::dtype) return true;
    const auto dtype = find_dtype(value);
    if (!dtype)
      fail<FileError>(file_, ": ", who(place), " is ", quoted_name(value), ", which the format does not have");
    tensor_.dtype = *dtype;
    return true;
  }
  bool key(std::string& key) {
    if (!open_.back().keys.insert(key).second)
      fail<FileError>(file_, ": the key ", quoted_name(key), " appears twice in one object of the header");
    key_ = std::move(key);
    return true;
  }
  bool start_object(std::size_t) {
    const Place place = take({Place::header, Place::metadata, Place::tensor, Place::anything}, "an object");
    if (place == Place::tensor) {
      tensor_ = {};
      tensor_.name = key_;
      extents_.clear();
      axes_ = offsets_ = 0;
    }
    return open(place);
  }
  bool end_object() {
    if (open_.back().place == Place::tensor) finish_tensor();
    open_.pop_back();
    return true;
  }
  bool start_array(std::size_t) { return open(take({Place::shape, Place::offsets, Place::anything}, "an array")); }
  bool end_array() {
    open_.pop_back();
    return true;
  }

  template <class Exception>
  bool parse_error(std::size_t position, const std::string&, const Exception&) {
    fail<FileError>(file_, ": the header is not valid JSON at byte ", position, ", counted from 1");
  }

 private:
  // The place of a value in the header.
  enum class Place { header, metadata, metadata_value, tensor, dtype, shape, extent, offsets, offset, anything };
  struct Open {
    Place place;
    std::unordered_set<std::string> keys;
  };

  Place next() const {
    if (open_.empty()) return Place::header;
    switch (open_.back().place) {
      case Place::header: return key_ == "__metadata__" ? Place::metadata : Place::tensor;
      case Place::metadata: return Place::metadata_value;
      case Place::shape: return Place::extent;
      case Place::offsets: return Place::offset;
      case Place::tensor:
        if (key_ == "dtype") return Place::dtype;
        if (key_ == "shape") return Place::shape;
        if (key_ == "data_offsets") return Place::offsets;
        return Place::anything;  // a field that the format does not have
      default: return Place::anything;
    }
  }
  Place take(std::initializer_list<Place> allowed, std::string_view value) const {
    const Place place = next();
    if (std::find(allowed.begin(), allowed.end(), place) == allowed.end())
      fail<FileError>(file_, ": ", who(place), " must be ", what(place), ", not ", printable(value, 40));
    return place;
  }
  bool accept(std::initializer_list<Place> allowed, std::string_view value) const {
    take(allowed, value);
    return true;
  }
  bool open(Place place) {
    constexpr std::size_t limit = 127;  // as in the format's own library
    require<FileError>(open_.size() < limit, file_, ": the header is nested more than ", limit, " levels deep");
    open_.push_back({place, {}});
    return true;
  }

  std::string who(Place place) const {
    switch (place) {
      case Place::header: return "the header";
      case Place::metadata: return "__metadata__";
      case Place::metadata_value: return "__metadata__ " + quoted_name(key_);
      case Place::tensor: return "tensor " + quoted_name(key_);
      case Place::extent: return "extent " + std::to_string(axes_) + " of tensor " + quoted_name(tensor_.name);
      default: return key_ + " of tensor " + quoted_name(tensor_.name);
    }
  }
  static const char* what(Place place) {
    switch (place) {
      case Place::metadata_value:
      case Place::dtype: return "a string";
      case Place::shape:
      case Place::offsets: return "an array";
      case Place::extent: return "a whole number";
      case Place::offset: return "two whole numbers";
      default: return "an object";
    }
  }

  void finish_tensor();

  const std::string& file_;  // printable
  SafetensorsHeader& header_;
  std::vector<Open> open_;
  std::string key_;
  TensorInfo tensor_;
  std::vector<Index> extents_;
  int axes_ = 0, offsets_ = 0;
};

// Adds the tensor whose object ends here to the header. Throws FileError unless its number of bytes follows from shape
// and dtype. The arithmetic cannot overflow.
inline void HeaderReader::finish_tensor() {
  const std::string tensor = file_ + ": tensor " + quoted_name(tensor_.name);
  for (const char* field : {"dtype", "shape", "data_offsets"})
    require<FileError>(open_.back().keys.count(field) == 1, tensor, " has no ", field);
  require<FileError>(axes_ <= Shape::max_rank, tensor, " has ", axes_, " axes; the limit is ", Shape::max_rank);
  require<FileError>(offsets_ == 2, tensor, " has ", offsets_, " data_offsets instead of 2");
  constexpr std::uint64_t limit = std::numeric_limits<Index>::max(), bits_in_byte = 8;
  std::uint64_t elements = 1;
  for (const Index extent : extents_) {
    const auto e = static_cast<std::uint64_t>(extent);
    require<FileError>(e == 0 || elements <= limit / e, tensor, " has more elements than the limit ", limit);
    elements *= e;
  }
  tensor_.shape = Shape(std::span<const Index>(extents_));
  const std::uint64_t width = bits(tensor_.dtype), bytes = tensor_.end - tensor_.begin;
  const bool fills = tensor_.begin <= tensor_.end && bytes <= limit / bits_in_byte &&
                     elements <= bytes * bits_in_byte / width && elements * width == bytes * bits_in_byte;
  require<FileError>(fills, tensor, ": ", name(tensor_.dtype), ' ', tensor_.shape, " does not match data_offsets [",
                     tensor_.begin, ", ", tensor_.end, ']');
  header_.tensors.push_back(std::move(tensor_));
}

}  // namespace detail
}  // namespace heddle::io
