// The CUDA kernel of cast against the CPU's: the same values.
#include <heddle/ops/cast.hpp>

#include "../harness/numbers.hpp"
#include "device_array.hpp"
#include "same_always.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

// Returns numbers of every kind that T has: fractions, ties, and numbers outside the ranges of other types.
template <class T>
std::vector<T> values(std::size_t count) {
  std::vector<T> all;
  if constexpr (std::is_integral_v<T>) {
    constexpr T most = std::numeric_limits<T>::max(), least = std::numeric_limits<T>::min();
    for (const std::int64_t v : {0l, 1l, -1l, 257l, 16777217l, -16777219l, 1l << 31, (1l << 40) + 1, -(1l << 53) - 1})
      all.push_back(static_cast<T>(v));
    all.insert(all.end(), {most, least, static_cast<T>(most / 2)});
  } else {
    constexpr float infinite = std::numeric_limits<float>::infinity();
    for (const float v : {0.f, -0.f, 1.f, 0.5f, -0.75f, 1.00390625f, -2.9999f, 1e-40f, 2147483647.f, -2147483648.f,
                          3e9f, -9.3e18f, 9.2e18f, 3.4e38f, infinite, -infinite})
      all.push_back(T(v));
  }
  for (std::size_t i = all.size(); i < count; ++i) all.push_back(static_cast<T>(0.37f * static_cast<float>(i) - 99));
  all.resize(count);
  return all;
}

template <class T, class U>
void check() {
  if constexpr (!std::is_same_v<T, U>) {
    CAPTURE(sizeof(T), sizeof(U));
    for (const std::size_t size : {0u, 1u, 31u, 33u, 257u, 2048u, 4099u}) {
      if (races_are_watched() && size > 2048) continue;
      CAPTURE(size);
      const Tensor<T> x({static_cast<Index>(size)}, values<T>(size));
      const auto expected = cast<U>(x).host(), got = cast<U>(x.to(Device::cuda)).host();
      if constexpr (std::is_integral_v<U>)
        REQUIRE((got == expected));
      else
        REQUIRE((joined(got) == joined(expected)));
    }
  }
}
template <class T>
void check_from() {
  check<T, float>();
  check<T, bf16>();
  check<T, std::int32_t>();
  check<T, std::int64_t>();
  check<T, bool>();
}

}  // namespace

TEST_CASE("cuda cast: NaN becomes true") {
  const auto check = []<class T>(T nan) {
    CHECK(cast<bool>(Tensor<T>({3}, {nan, T(0.f), nan}).to(Device::cuda)).host() ==
          cast<bool>(Tensor<T>({3}, {nan, T(0.f), nan})).host());
  };
  check(std::numeric_limits<float>::quiet_NaN());
  check(bf16(std::numeric_limits<float>::quiet_NaN()));
}

TEST_CASE("cuda cast: from floating types") {
  check_from<float>();
  check_from<bf16>();
}

TEST_CASE("cuda cast: from integers and bool") {
  check_from<std::int32_t>();
  check_from<std::int64_t>();
  check_from<bool>();
}

TEST_CASE("cuda cast: addresses that are not aligned") {
  const std::vector<float> values(2050, 1.5f);
  const DeviceArray<float> x(values);
  const DeviceArray<std::int32_t> y(values.size());
  cudaDeviceSynchronize();  // copies are on another stream
  kernel::cast(Cuda{}, View<const float, 1>{x.data() + 1, {2049}}, View<std::int32_t, 1>{y.data() + 1, {2049}});
  cuda::synchronize();
  const auto got = y.host();
  CHECK(std::count(got.begin() + 1, got.end(), 1) == 2049);
}

TEST_CASE("cuda cast: results do not depend on the schedule") {
  const auto x = converted<float>(random<float>({2050}, 1), Device::cuda);
  expect_same_always([&] { return joined(cast<bf16>(x).host()); });
}
