// The CUDA kernel of dropout: the same numbers as on the CPU.
#include <heddle/core/create.hpp>
#include <heddle/ops/dropout.hpp>
#include <heddle/ops/slice.hpp>

#include "../harness/compare.hpp"
#include "same_always.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

// Checks that both devices drop the same elements, with draws that do not begin at 0.
template <class T>
void expect_same_mask(const Tensor<T>& x, double p, Index skipped = 0) {
  CAPTURE(x.size(), p, skipped);
  const auto dropped = [&](Device device) {
    Random random(5, 2);
    random.take(3);
    return dropout(slice(x.to(device), 0, skipped, x.size()), p, random);
  };
  REQUIRE(same_numbers(dropped(Device::cuda).host(), dropped(Device::cpu).host()));
}

}  // namespace

TEMPLATE_TEST_CASE("cuda dropout: the same elements as on the CPU", "", float, bf16) {
  for (const Index size : {0, 1, 7, 8, 9, 31, 33, 257, 2047, 2048, 2049, 5000}) {
    if (races_are_watched() && size > 257) continue;
    expect_same_mask(converted<TestType>(random<TestType>({size}, 1)), 0.3);
  }
  for (const double p : {1.0 / 65536, 0.5, 65535.0 / 65536})
    expect_same_mask(converted<TestType>(random<TestType>({257}, 1)), p);
}

TEMPLATE_TEST_CASE("cuda dropout: elements at unaligned addresses", "", float, bf16) {
  const auto x = converted<TestType>(random<TestType>({300}, 1));
  for (const Index skipped : {1, 4, 8}) expect_same_mask(x, 0.3, skipped);
}

TEMPLATE_TEST_CASE("cuda dropout: results do not depend on the schedule", "", float, bf16) {
  const auto f = [](const auto& in) {
    Random random(3);
    return dropout(in[0], 0.4, random);
  };
  expect_same_always<TestType>(f, {random<TestType>({33, 11}, 1)});
}
