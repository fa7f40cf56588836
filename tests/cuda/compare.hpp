// How results of CUDA kernels are judged.
#pragma once
#include <algorithm>
#include <cmath>

#include <heddle/bf16.hpp>
#include <vector>

#include "../../cuda/emulator/sanitizers.hpp"
#include "device_array.hpp"

namespace heddle::testing {

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

// No further from the exact values than twice a plain computation in float is, at its worst, with room for a sum's last bits;
// bf16 rounds once more.
template <class T>
void expect_close(const std::vector<double>& got, const std::vector<double>& exact, const std::vector<double>& plain) {
  REQUIRE(got.size() == exact.size());
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    worst = std::max(worst, std::abs(plain[i] - exact[i]));
    largest = std::max(largest, std::abs(exact[i]));
  }
  const double room = 2 * worst + 0x1p-23 * largest, half_step = std::is_same_v<T, bf16> ? 0x1p-8 : 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    CAPTURE(i, exact[i]);
    REQUIRE(std::abs(got[i] - exact[i]) <= room + half_step * std::abs(exact[i]));
  }
}

// The same bits with twenty schedules, and whatever memory held that nobody wrote.
template <class F>
void expect_same_always(F&& f) {
  emulator::Options& options = emulator::options();
  const emulator::Options before = options;
  const auto first = f();
  options.fill = 0x3f7f3f7f;
  const std::uint64_t schedules = emulator::races_are_watched() ? 3 : 20;
  for (options.seed = 0; options.seed < schedules; ++options.seed) {
    CAPTURE(options.seed);
    CHECK((f() == first));
  }
  options = before;
}

}  // namespace heddle::testing
