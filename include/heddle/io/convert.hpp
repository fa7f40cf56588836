// Values of a file cast to the element type of the tensor that receives them. A cast never changes what a value means:
// what does not fit is an error.
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

// IEEE 754 half precision: all 65,536 patterns exactly; a NaN keeps its sign and payload.
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

// An integer or bool must hold the value exactly; a floating type rounds it, but keeps it finite.
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

// Reads elements that stand as Stored in the file, at any address.
template <class Stored, class T, class Decode>
void convert_as(const TensorInfo& tensor, std::span<const std::byte> bytes, T* out, const std::string& file,
                Decode decode) {
  const std::size_t count = bytes.size() / sizeof(Stored);
  for (std::size_t i = 0; i < count; ++i) {
    Stored stored;
    std::memcpy(&stored, bytes.data() + i * sizeof stored, sizeof stored);
    const auto value = decode(stored);
    if (!fits<T>(value)) [[unlikely]]
      fail<FileError>(printable(file), ": tensor ", quoted_name(tensor.name), ": the value ", std::setprecision(17),
                      +value, " at position ", i, " does not fit ", name(dtype_of<T>()));
    out[i] = cast_value<T>(value);
  }
}

}  // namespace detail

// Casts tensor.shape.size() values to T (double, float, bf16, int64, int32 or bool) from F64, F32, F16, BF16, I64, I32,
// U8 or BOOL. Throws FileError for any other dtype and for a value that T cannot hold: in an integer or bool one that
// would change, in a floating type a finite one that would become infinite. `file` is for the message.
template <class T>
void convert(const TensorInfo& tensor, std::span<const std::byte> bytes, T* out, const std::string& file) {
  require<FileError>(readable(tensor.dtype), printable(file), ": tensor ", quoted_name(tensor.name), " is of dtype ",
                     name(tensor.dtype), ", which heddle does not read (it reads F64 F32 F16 BF16 I64 I32 U8 BOOL)");
  require(bytes.size() * 8 == static_cast<std::size_t>(tensor.shape.size()) * bits(tensor.dtype),
          "convert: ", bytes.size(), " bytes given for ", name(tensor.dtype), ' ', tensor.shape);
  if (tensor.dtype == dtype_of<T>() && tensor.dtype != DType::boolean) {
    if (!bytes.empty()) std::memcpy(out, bytes.data(), bytes.size());
    return;
  }
  const auto same = [](auto value) { return value; };
  switch (tensor.dtype) {
    case DType::f64: return detail::convert_as<double>(tensor, bytes, out, file, same);
    case DType::f32: return detail::convert_as<float>(tensor, bytes, out, file, same);
    case DType::f16: return detail::convert_as<std::uint16_t>(tensor, bytes, out, file, half_to_float);
    case DType::bf16:
      return detail::convert_as<bf16>(tensor, bytes, out, file, [](bf16 value) { return float{value}; });
    case DType::i64: return detail::convert_as<std::int64_t>(tensor, bytes, out, file, same);
    case DType::i32: return detail::convert_as<std::int32_t>(tensor, bytes, out, file, same);
    case DType::boolean:
      for (std::size_t i = 0; i < bytes.size(); ++i)
        if (bytes[i] > std::byte{1})
          fail<FileError>(printable(file), ": tensor ", quoted_name(tensor.name), ": the BOOL at position ", i, " is ",
                          std::to_integer<int>(bytes[i]), ", not 0 or 1");
      [[fallthrough]];
    default: return detail::convert_as<std::uint8_t>(tensor, bytes, out, file, same);
  }
}

}  // namespace heddle::io
