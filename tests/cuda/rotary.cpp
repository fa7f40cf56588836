// The CUDA kernels of rotary positions against double, and against themselves with other schedules and garbage in
// memory.
#include <heddle/ops/rotary.hpp>

#include "../harness/agreement.hpp"
#include "same_always.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

auto rotated(Index K, const Sequences& sequences, const RotaryOptions& options) {
  return [=](const auto& in) {
    using T = typename std::remove_cvref_t<decltype(in[0])>::Element;
    const Device device = in[0].device();
    return rotary(in[0], rotary_table<Acc<T>>(sequences.longest(), rotary_frequencies(K), device), sequences.to(device),
                  options);
  };
}

}  // namespace

TEMPLATE_TEST_CASE("cuda rotary: heads of all widths agree with double", "", float, bf16) {
  for (const Index half : {1, 3, 4, 8, 31, 32, 64, 256})
    for (const Index rotated_heads : {0, 2, 3}) {
      CAPTURE(half, rotated_heads);
      const Sequences sequences = Sequences::packed({5, 0, 1, 17});
      expect_agrees<TestType>(rotated(2 * half, sequences, {.heads = 3, .rotated = rotated_heads}),
                              {random<TestType>({23, 6 * half}, 1)}, gpu_function_errors);
    }
  expect_agrees<TestType>(rotated(16, Sequences::padded({3, 4}, 6), {.heads = 2, .rotated = 2}),
                          {random<TestType>({2, 6, 32}, 1)}, gpu_function_errors);
  expect_agrees<TestType>(rotated(16, Sequences::packed({}), {.heads = 2, .rotated = 1}),
                          {random<TestType>({0, 32}, 1)}, gpu_function_errors);
}

TEST_CASE("cuda rotary_table: rows of several blocks, and none") {
  for (const Index L : {0, 1, 7, 300}) {
    const auto frequencies = rotary_frequencies(62, 500);
    const std::vector<double> exact = rotary_table<double>(L, frequencies).host();
    expect_close(joined(rotary_table<float>(L, frequencies, Device::cuda).host()), exact, part_of_largest(2e-7, exact));
  }
}

TEMPLATE_TEST_CASE("cuda rotary: results do not depend on schedules or garbage in memory", "", float, bf16) {
  for (const Index half : {5, 8})
    expect_same_always<TestType>(rotated(2 * half, Sequences::packed({40, 3}), {.heads = 3, .rotated = 2}),
                                 {random<TestType>({43, 6 * half}, 1)});
}
