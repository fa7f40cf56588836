// Rounds all 2^32 floats to bf16 and compares each result with the nearer of the float's two neighbors in bf16, found
// by integer arithmetic. It is a separate program, because it takes some seconds.
#include <heddle/base/bf16.hpp>

#include <bit>
#include <cmath>
#include <cstdio>
#include <thread>
#include <vector>

namespace {

bool is_rounded_correctly(std::uint32_t bits) {
  const float x = std::bit_cast<float>(bits);
  const heddle::bf16 rounded(x);
  const float y = static_cast<float>(rounded);
  if (std::isnan(x)) return rounded.bits == 0x7fff;
  const std::uint32_t below = bits & 0xffff0000u;  // towards zero
  const std::uint32_t rest = bits - below;         // in units of the float's last place; 0x8000 is half a unit of bf16
  const bool up = rest > 0x8000u || (rest == 0x8000u && (below >> 16 & 1u));
  return std::bit_cast<std::uint32_t>(y) == below + (up ? 0x10000u : 0u);
}

}  // namespace

int main() {
  const unsigned count = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::uint64_t> wrong(count);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < count; ++t)
    threads.emplace_back([&, t] {
      for (std::uint64_t bits = t; bits < std::uint64_t{1} << 32; bits += count)
        wrong[t] += !is_rounded_correctly(static_cast<std::uint32_t>(bits));
    });
  std::uint64_t total = 0;
  for (unsigned t = 0; t < count; ++t) {
    threads[t].join();
    total += wrong[t];
  }
  std::printf("bf16: %llu of 2^32 floats rounded wrongly\n", static_cast<unsigned long long>(total));
  return total != 0;
}
