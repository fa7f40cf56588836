// The description of a tensor in a safetensors file. All element types of the format are known, including those that
// heddle does not read. A file with such types is still checked as a whole, and its other tensors can be read.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include <heddle/base/bf16.hpp>
#include <heddle/base/shape.hpp>

namespace heddle::io {

/// The element types of the format. heddle reads and writes those up to boolean, and knows only the name and size of
/// the others.
enum class DType : std::uint8_t {  // clang-format off
  f64, f32, f16, bf16, i64, i32, u8, boolean,
  u64, u32, u16, i16, i8, c64, f8_e5m2, f8_e4m3, f8_e8m0, f8_e4m3fnuz, f8_e5m2fnuz, f6_e2m3, f6_e3m2, f4
};  // clang-format on

/// An element type in a file.
struct DTypeInfo {
  std::string_view name;  ///< its name in the file
  unsigned bits;          ///< the size of one element in bits
};

/// One entry per DType.
inline constexpr std::array<DTypeInfo, 22> dtypes{{
    {"F64", 64},        {"F32", 32},    {"F16", 16},    {"BF16", 16},   {"I64", 64},    {"I32", 32},
    {"U8", 8},          {"BOOL", 8},    {"U64", 64},    {"U32", 32},    {"U16", 16},    {"I16", 16},
    {"I8", 8},          {"C64", 64},    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},
}};
static_assert(dtypes[static_cast<std::size_t>(DType::f4)].name == "F4");

/// Returns the name of the type in a file.
constexpr std::string_view name(DType dtype) { return dtypes[static_cast<std::size_t>(dtype)].name; }
/// Returns the bits of one element.
constexpr unsigned bits(DType dtype) { return dtypes[static_cast<std::size_t>(dtype)].bits; }
/// Returns whether convert() reads the type.
constexpr bool readable(DType dtype) { return dtype <= DType::boolean; }

/// Returns the type of this name, or nothing if the format has no such type.
constexpr std::optional<DType> find_dtype(std::string_view name) {
  for (std::size_t i = 0; i < dtypes.size(); ++i)
    if (dtypes[i].name == name) return static_cast<DType>(i);
  return std::nullopt;
}

/// Returns the dtype that holds a T as it is.
template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, double>) return DType::f64;
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  if constexpr (std::is_same_v<T, bf16>) return DType::bf16;
  if constexpr (std::is_same_v<T, std::int64_t>) return DType::i64;
  if constexpr (std::is_same_v<T, std::int32_t>) return DType::i32;
  if constexpr (std::is_same_v<T, bool>) return DType::boolean;
}

/// One entry of a header.
struct TensorInfo {
  std::string name;          ///< its name in the file
  DType dtype = DType::f32;  ///< the type of its elements
  Shape shape;               ///< its shape
  std::size_t begin = 0;     ///< offset of its first byte in the data section
  std::size_t end = 0;       ///< offset one past its last byte
};

}  // namespace heddle::io
