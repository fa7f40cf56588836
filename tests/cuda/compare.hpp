// How results of CUDA kernels are judged.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>

#include <heddle/base/bf16.hpp>
#include <vector>

#include "../devices.hpp"
#include "device_array.hpp"
#include "schedules.hpp"

namespace heddle::testing {

template <class T>
constexpr T infinity = std::numeric_limits<T>::infinity();

inline std::size_t size_of(Index count) { return static_cast<std::size_t>(count); }

template <class... Parts>
std::vector<double> joined(const Parts&... parts) {
  std::vector<double> all;
  (std::transform(parts.begin(), parts.end(), std::back_inserter(all), [](auto v) { return static_cast<double>(v); }),
   ...);
  return all;
}

// Odd numbers of rows; ThreadSanitizer knows no more than some 8,000 threads at a time.
inline std::vector<Index> rows_to_test() {
  if (emulator::races_are_watched()) return {0, 1, 33};
  return {0, 1, 31, 33, 257};
}

// No further from the exact values than twice (`plain_errors`) a plain computation in float is, at its worst, and `last_bits` of the
// greatest of them, where a handful of numbers decides both; bf16 rounds `roundings` times more. NaN and infinity stand where they stand in the exact values.
template <class T>
void expect_close(const std::vector<double>& got, const std::vector<double>& exact, const std::vector<double>& plain,
                  double roundings = 1, double plain_errors = 2, double last_bits = 1) {
  REQUIRE(got.size() == exact.size());
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    if (!std::isfinite(exact[i])) continue;
    worst = std::max(worst, std::abs(plain[i] - exact[i]));
    largest = std::max(largest, std::abs(exact[i]));
  }
  const double room = plain_errors * worst + last_bits * 0x1p-23 * largest,
               half_step = std::is_same_v<T, bf16> ? roundings * 0x1p-8 : 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const bool near = std::isfinite(exact[i]) ? std::abs(got[i] - exact[i]) <= room + half_step * std::abs(exact[i])
                                              : got[i] == exact[i] || (std::isnan(got[i]) && std::isnan(exact[i]));
    if (near) continue;  // an assertion for each of millions of values takes longer than what makes them
    CAPTURE(i, exact[i], got[i], room);
    REQUIRE(near);
  }
}

// The same bits with every schedule, and whatever memory held that nobody wrote.
template <class F>
void expect_same_always(F&& f) {
  const auto first = f();
  each_schedule([&] { CHECK((f() == first)); });
}

}  // namespace heddle::testing
