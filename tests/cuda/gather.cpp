// The CUDA kernel of gather against that of the CPU.
#include <heddle/ops/gather.hpp>

#include "../harness/agreement.hpp"

using namespace heddle;
using namespace heddle::testing;

TEST_CASE("cuda gather: values and gradients") {
  for (const Index n : {1, 31, 257}) {
    std::vector<int> numbers;
    for (Index i = 0; i < 2 * n * 3; ++i) numbers.push_back(static_cast<int>(i * 7 % n));
    const Tensor<int> ids({2, n, 3}, numbers);
    expect_agrees<float>([&](const auto& in) { return gather(in[0], 1, ids); }, {random<float>({2, n, 3}, 1)});
    expect_agrees<bf16>([&](const auto& in) { return gather(in[0], 1, ids); }, {random<bf16>({2, n, 3}, 1)});
  }
}
