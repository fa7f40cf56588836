// The CUDA kernel of dropout: the same bits as on the CPU.
#include <heddle/core/create.hpp>
#include <heddle/ops/dropout.hpp>
#include <heddle/ops/slice.hpp>

#include "../harness/agreement.hpp"
#include "same_always.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

// The bits of each element; NaN is one thing.
template <class T>
std::vector<std::uint32_t> bits(const Tensor<T>& x) {
  std::vector<std::uint32_t> words;
  for (const T value : x.host()) {
    const auto number = static_cast<float>(value);
    words.push_back(std::isnan(number) ? 0x7fc00000u : std::bit_cast<std::uint32_t>(number));
  }
  return words;
}

// On both devices, with draws that do not begin at 0.
template <class T>
void expect_same_mask(const Tensor<T>& x, double p, Index skipped = 0) {
  CAPTURE(x.size(), p, skipped);
  const auto dropped = [&](Device device) {
    Random random(5, 2);
    random.take(3);
    return dropout(slice(x.to(device), 0, skipped, x.size()), p, random);
  };
  REQUIRE(bits(dropped(Device::cuda)) == bits(dropped(Device::cpu)));
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

TEMPLATE_TEST_CASE("cuda dropout: rows that begin anywhere", "", float, bf16) {
  const auto x = converted<TestType>(random<TestType>({300}, 1));
  for (const Index skipped : {1, 4, 8}) expect_same_mask(x, 0.3, skipped);
}

TEMPLATE_TEST_CASE("cuda dropout: an element is multiplied by 0, whatever it is", "", float, bf16) {
  auto x = converted<TestType>(random<TestType>({64}, 1));
  for (Index i = 0; i < 64; ++i) {
    const float values[] = {infinity<float>, -infinity<float>, std::nanf(""), -0.f};
    x.data()[i] = TestType(values[i % 4]);
  }
  expect_same_mask(x, 0.5);
}

TEMPLATE_TEST_CASE("cuda dropout: its own gradient, with any schedule", "", float, bf16) {
  const auto f = [](const auto& in) {
    Random random(3);
    return dropout(in[0], 0.4, random);
  };
  expect_agrees<TestType>(f, {random<TestType>({33, 11}, 1)});
  expect_same_always<TestType>(f, {random<TestType>({33, 11}, 1)});
}
