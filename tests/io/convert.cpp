#include <heddle/io/convert.hpp>
#include <vector>

#include "catch.hpp"
#include "io/files.hpp"

using namespace heddle;
using namespace heddle::testing;
using io::DType;
using io::TensorInfo;

namespace {

template <class T>
auto bits_of(T value) {
  if constexpr (sizeof(T) == 8) return std::bit_cast<std::uint64_t>(value);
  if constexpr (sizeof(T) == 4) return std::bit_cast<std::uint32_t>(value);
  if constexpr (sizeof(T) == 2) return std::bit_cast<std::uint16_t>(value);
  if constexpr (sizeof(T) == 1) return std::bit_cast<std::uint8_t>(value);
}

template <class Stored>
constexpr DType stored_as() {
  if constexpr (std::is_same_v<Stored, std::uint16_t>)
    return DType::f16;
  else if constexpr (std::is_same_v<Stored, std::uint8_t>)
    return DType::u8;
  else
    return io::dtype_of<Stored>();
}

// Stores the values as elements of type Stored at an unaligned address, and returns them converted to T.
template <class T, class Stored>
std::vector<T> read_as(std::initializer_list<Stored> values, DType dtype = stored_as<Stored>()) {
  std::vector<std::byte> bytes(1 + values.size() * sizeof(Stored));
  if (values.size() > 0) std::memcpy(bytes.data() + 1, values.begin(), values.size() * sizeof(Stored));
  const TensorInfo tensor{"w", dtype, {static_cast<Index>(values.size())}, 0, 0};
  const std::unique_ptr<T[]> out(new T[values.size()]);
  io::convert(tensor, std::span(bytes).subspan(1), out.get(), "m.safetensors");
  return std::vector<T>(out.get(), out.get() + values.size());
}

template <class T, class Stored>
std::string refusal(std::initializer_list<Stored> values, DType dtype = stored_as<Stored>()) {
  return error_of([&] { read_as<T, Stored>(values, dtype); });
}

const double not_a_number = std::numeric_limits<double>::quiet_NaN(),
             infinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("convert: each of the 65,536 halves gives the float of the same value") {
  for (unsigned pattern = 0; pattern < 65536; ++pattern) {
    const auto half = static_cast<std::uint16_t>(pattern);
    const float value = io::half_to_float(half);
    const int exponent = half >> 10 & 31, mantissa = half & 1023;
    const double sign = half >> 15 ? -1 : 1;
    if (exponent == 31 && mantissa) {
      // Sign and payload of a NaN are compared as bits: arithmetic may change them.
      if (bits_of(value) != ((half & 0x8000u) << 16 | 0x7f800000u | (half & 1023u) << 13)) FAIL(pattern);
      continue;
    }
    const double expected = exponent == 31  ? sign * infinity
                            : exponent == 0 ? sign * std::ldexp(mantissa, -24)
                                            : sign * std::ldexp(1024 + mantissa, exponent - 25);
    if (bits_of(static_cast<double>(value)) != bits_of(expected)) FAIL(pattern);
  }
}

TEST_CASE("convert: the same type is copied bit for bit") {
  for (const std::uint32_t pattern : {0x7fc00001u, 0xff800001u, 0x80000000u, 0x00000001u, 0x7f7fffffu})
    CHECK(bits_of(read_as<float, float>({std::bit_cast<float>(pattern)})[0]) == pattern);
  for (const std::uint16_t pattern : std::initializer_list<std::uint16_t>{0x7f81, 0xff80, 0x8000, 0x0001})
    CHECK(read_as<bf16, bf16>({std::bit_cast<bf16>(pattern)})[0].bits == pattern);
  CHECK(read_as<std::int64_t, std::int64_t>({INT64_MIN, INT64_MAX}) == std::vector<std::int64_t>{INT64_MIN, INT64_MAX});
  CHECK(read_as<float, float>({}).empty());
}

TEST_CASE("convert: floating types round to nearest and keep infinity and NaN") {
  const auto floats = read_as<float, double>({0.1, 1 + 0x1p-24, 1 + 0x1.8p-23, 5e-324, -0.0, infinity, not_a_number});
  CHECK(floats[0] == 0.1f);
  CHECK(floats[1] == 1.0f);
  CHECK(floats[2] == 1 + 0x1p-22f);
  CHECK(bits_of(floats[3]) == 0);
  CHECK(bits_of(floats[4]) == 0x80000000u);
  CHECK(floats[5] == std::numeric_limits<float>::infinity());
  CHECK(std::isnan(floats[6]));

  CHECK(read_as<double, float>({0.1f})[0] == static_cast<double>(0.1f));
  CHECK(read_as<double, std::uint16_t>({0x2e66})[0] == 0x1.998p-4);
  CHECK(read_as<float, bf16>({bf16(1.5f)})[0] == 1.5f);

  const auto low = read_as<bf16, float>({1 + 0x1p-8f, 1 + 0x1.8p-7f, -0x1.fep127f});
  CHECK(static_cast<float>(low[0]) == 1.0f);
  CHECK(static_cast<float>(low[1]) == 1 + 0x1p-6f);
  CHECK(static_cast<float>(low[2]) == -0x1.fep127f);
  CHECK(std::isnan(static_cast<float>(read_as<bf16, double>({not_a_number})[0])));
}

TEST_CASE("convert: integers are converted to floating types and to wider integers") {
  CHECK(read_as<double, std::int64_t>({-3, 1LL << 53}) == std::vector<double>{-3, 0x1p53});
  CHECK(read_as<float, std::int32_t>({-3, 16777217}) == std::vector<float>{-3, 16777216});
  CHECK(read_as<float, std::uint8_t>({0, 255}) == std::vector<float>{0, 255});
  CHECK(static_cast<float>(read_as<bf16, std::int64_t>({257})[0]) == 256);
  CHECK(read_as<std::int64_t, std::uint8_t>({255})[0] == 255);
  CHECK(read_as<float, std::uint8_t>({0, 1}, DType::boolean) == std::vector<float>{0, 1});
}

TEST_CASE("convert: an integer or bool takes a value exactly or not at all") {
  CHECK(read_as<std::int32_t, std::int64_t>({INT32_MIN, INT32_MAX}) == std::vector<std::int32_t>{INT32_MIN, INT32_MAX});
  CHECK(read_as<std::int32_t, double>({-2147483648.0, 2147483647.0, -0.0}) ==
        std::vector<std::int32_t>{INT32_MIN, INT32_MAX, 0});
  CHECK(read_as<std::int64_t, double>({-0x1p63, 0x1.fffffffffffffp62})[0] == INT64_MIN);
  CHECK(read_as<bool, std::uint8_t>({0, 1, 1}) == std::vector<bool>{false, true, true});
  CHECK(read_as<bool, std::uint8_t>({1, 0}, DType::boolean) == std::vector<bool>{true, false});
  CHECK(read_as<bool, float>({1, 0, -0.0f}) == std::vector<bool>{true, false, false});
  CHECK(read_as<std::int32_t, std::uint16_t>({0x3c00, 0xc000}) == std::vector<std::int32_t>{1, -2});

  CHECK(refusal<std::int32_t, std::int64_t>({0, 2147483648}) ==
        "m.safetensors: tensor 'w': the value 2147483648 at position 1 does not fit I32");
  CHECK(refusal<std::int32_t, double>({2147483648.0}).ends_with("the value 2147483648 at position 0 does not fit I32"));
  CHECK(refusal<std::int64_t, float>({0x1p63f}).ends_with("does not fit I64"));
  CHECK(refusal<std::int64_t, double>({-0x1.0000000000001p63}).ends_with("does not fit I64"));
  CHECK(refusal<std::int64_t, double>({1.5}).ends_with("the value 1.5 at position 0 does not fit I64"));
  for (const double value : {not_a_number, infinity, -infinity}) {
    CHECK(refusal<std::int32_t, double>({value}).ends_with("does not fit I32"));
    CHECK(refusal<bool, double>({value}).ends_with("does not fit BOOL"));
  }
  CHECK(refusal<bool, std::uint8_t>({1, 2}).ends_with("the value 2 at position 1 does not fit BOOL"));
  CHECK(refusal<bool, std::int64_t>({-1}).ends_with("the value -1 at position 0 does not fit BOOL"));
  CHECK(refusal<bool, double>({0.5}).ends_with("does not fit BOOL"));
}

TEST_CASE("convert: a finite value stays finite") {
  CHECK(refusal<float, double>({1, 1e300}) ==
        "m.safetensors: tensor 'w': the value 1.0000000000000001e+300 at position 1 does not fit F32");
  CHECK(refusal<bf16, float>({std::numeric_limits<float>::max()}).ends_with("does not fit BF16"));
  CHECK(refusal<bf16, double>({-1e300}).ends_with("does not fit BF16"));
}

TEST_CASE("convert: refuses an invalid BOOL, a dtype that heddle does not read, and a wrong number of bytes") {
  CHECK(refusal<float, std::uint8_t>({1, 2}, DType::boolean) ==
        "m.safetensors: tensor 'w': the BOOL at position 1 is 2, not 0 or 1");
  CHECK(refusal<float, std::uint8_t>({0}, DType::f8_e5m2) ==
        "m.safetensors: tensor 'w' is of dtype F8_E5M2, which heddle does not read (it reads F64 F32 F16 BF16 I64 I32 "
        "U8 BOOL)");
  CHECK(refusal<std::int64_t, std::uint64_t>({0}, DType::u64).find("is of dtype U64, which") != std::string::npos);
  const TensorInfo tensor{"w", DType::f32, {2}, 0, 8};
  float out[2];
  CHECK_THROWS_AS(io::convert(tensor, std::span<const std::byte>(), out, "f"), Error);
}
