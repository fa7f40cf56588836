// Casts the values of a file to the element type of the tensor that receives them. A cast never changes the meaning of
// a value: a value that does not fit is an error.
#pragma once
#include <bit>
#include <cmath>
#include <cstring>
#include <iomanip>
#include <limits>
#include <span>
#include <string>

#include <heddle/base/error.hpp>
#include <heddle/base/printable.hpp>
#include <heddle/io/tensor_info.hpp>

namespace heddle::io {

/// Returns the value of an IEEE 754 half-precision number, which is exact for all 65,536 patterns. A NaN keeps its sign
/// and payload.
inline float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16, exponent = half >> 10 & 0x1fu, mantissa = half & 0x3ffu;
  const std::uint32_t normal = (exponent + 112) << 23 | mantissa << 13;  // 112: the difference of the exponents' biases
  const std::uint32_t infinite = 0x7f800000u | mantissa << 13;
  const auto subnormal = std::bit_cast<std::uint32_t>(static_cast<float>(mantissa) * 0x1p-24f);
  return std::bit_cast<float>(sign | (exponent == 0 ? subnormal : exponent == 0x1f ? infinite : normal));
}

namespace detail {

template <class T>
constexpr double largest() {
  if constexpr (std::is_same_v<T, bf16>)
    return 0x1.fep127;
  else
    return static_cast<double>(std::numeric_limits<T>::max());
}

// Returns whether T can hold the value: an integer or bool must hold it exactly. A floating-point type rounds it, but a
// finite value must not exceed the largest one of T.
template <class T, class V>
bool fits(V value) {
  if constexpr (std::is_integral_v<T> && std::is_floating_point_v<V>) {
    const V above = std::ldexp(V{1}, std::numeric_limits<T>::digits);
    return value >= static_cast<V>(std::numeric_limits<T>::min()) && value < above && value == std::trunc(value);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<V>(static_cast<T>(value)) == value;
  } else if constexpr (std::is_floating_point_v<V> && largest<T>() < largest<V>()) {
    return !std::isfinite(value) || std::abs(value) <= static_cast<V>(largest<T>());
  } else {
    return true;
  }
}

template <class T, class V>
T cast_value(V value) {
  if constexpr (std::is_same_v<T, bf16>)
    return bf16(static_cast<float>(value));
  else
    return static_cast<T>(value);
}

// Converts elements that the file stores as type Stored; `bytes` may be unaligned. The first of them is element `first`
// of the tensor.
template <class Stored, class T, class Decode>
void convert_as(const TensorInfo& tensor, Index first, std::span<const std::byte> bytes, T* out,
                const std::string& file, Decode decode) {
  const std::size_t count = bytes.size() / sizeof(Stored);
  for (std::size_t i = 0; i < count; ++i) {
    Stored stored;
    std::memcpy(&stored, bytes.data() + i * sizeof stored, sizeof stored);
    const auto value = decode(stored);
    if (!fits<T>(value)) [[unlikely]]
      fail<FileError>(printable(file), ": tensor ", quoted_name(tensor.name), ": the value ", std::setprecision(17),
                      +value, " at position ", first + static_cast<Index>(i), " does not fit ", name(dtype_of<T>()));
    out[i] = cast_value<T>(value);
  }
}

// Returns true only if every value of type `dtype` fits T, so that the conversion cannot fail. False for some pairs
// that always fit.
template <class T>
constexpr bool always_fits(DType dtype) {
  if (dtype == DType::boolean || !readable(dtype)) return false;
  return dtype == dtype_of<T>() || std::is_same_v<T, double> ||
         (std::is_same_v<T, float> && (dtype == DType::f16 || dtype == DType::bf16));
}

// Casts elements of a tensor from element `first` on. Throws FileError for a value that does not fit T.
template <class T>
void convert_piece(const TensorInfo& tensor, Index first, std::span<const std::byte> bytes, T* out,
                   const std::string& file) {
  if (tensor.dtype == dtype_of<T>() && tensor.dtype != DType::boolean) {
    if (!bytes.empty()) std::memcpy(out, bytes.data(), bytes.size());
    return;
  }
  const auto same = [](auto value) { return value; };
  switch (tensor.dtype) {
    case DType::f64: return convert_as<double>(tensor, first, bytes, out, file, same);
    case DType::f32: return convert_as<float>(tensor, first, bytes, out, file, same);
    case DType::f16: return convert_as<std::uint16_t>(tensor, first, bytes, out, file, half_to_float);
    case DType::bf16: return convert_as<bf16>(tensor, first, bytes, out, file, [](bf16 value) { return float{value}; });
    case DType::i64: return convert_as<std::int64_t>(tensor, first, bytes, out, file, same);
    case DType::i32: return convert_as<std::int32_t>(tensor, first, bytes, out, file, same);
    case DType::boolean:
      for (std::size_t i = 0; i < bytes.size(); ++i)
        if (bytes[i] > std::byte{1})
          fail<FileError>(printable(file), ": tensor ", quoted_name(tensor.name), ": the BOOL at position ",
                          first + static_cast<Index>(i), " is ", std::to_integer<int>(bytes[i]), ", not 0 or 1");
      [[fallthrough]];
    default: return convert_as<std::uint8_t>(tensor, first, bytes, out, file, same);
  }
}

inline void require_readable(const TensorInfo& tensor, const std::string& file) {
  require<FileError>(readable(tensor.dtype), printable(file), ": tensor ", quoted_name(tensor.name), " is of dtype ",
                     name(tensor.dtype), ", which heddle does not read (it reads F64 F32 F16 BF16 I64 I32 U8 BOOL)");
}

}  // namespace detail

/// Casts tensor.shape.size() values to T (double, float, bf16, int64, int32 or bool) from F64, F32, F16, BF16, I64,
/// I32, U8 or BOOL. `file` is for messages. @throws FileError for any other dtype and for a value that T cannot hold,
/// and Error unless `bytes` has the size of the tensor. An integer or bool cannot hold a value that would change; a
/// floating-point type cannot hold a finite value beyond its largest one, even if rounding would bring it back.
template <class T>
void convert(const TensorInfo& tensor, std::span<const std::byte> bytes, T* out, const std::string& file) {
  detail::require_readable(tensor, file);
  require(bytes.size() * 8 == static_cast<std::size_t>(tensor.shape.size()) * bits(tensor.dtype),
          "convert: ", bytes.size(), " bytes given for ", name(tensor.dtype), ' ', tensor.shape);
  detail::convert_piece(tensor, 0, bytes, out, file);
}

}  // namespace heddle::io
