// The CUDA kernels of topk against those of the CPU.
#include <heddle/ops/topk.hpp>

#include "../harness/agreement.hpp"
#include "same_always.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

template <class T>
void check_topk(Index rows, Index n) {
  CAPTURE(rows, n);
  Tensor<double> numbers = random({rows, n}, 1);
  for (Index i = 0; i < numbers.size(); i += 3) numbers.data()[i] = std::round(numbers.data()[i]);
  if (n > 30) {
    numbers.data()[7] = quiet_nan<double>;
    numbers.data()[n - 2] = -quiet_nan<double>;  // 0 / 0 sets the sign bit on x86
  }
  const Tensor<T> x = converted<T>(numbers);
  for (const bool largest : {true, false})
    for (const Index k : {Index{0}, n / 2, n}) {
      const auto here = topk(x, k, {.largest = largest}), there = topk(x.to(Device::cuda), k, {.largest = largest});
      CHECK(there.indices.host() == here.indices.host());
      CHECK(same_numbers(there.values.host(), here.values.host()));
    }
}

}  // namespace

TEST_CASE("cuda topk: rows of any length") {
  for (const Index n : {0, 1, 31, 33, 257}) {
    check_topk<float>(3, n);
    check_topk<bf16>(3, n);
  }
  check_topk<float>(1, 4097);
  check_topk<float>(300, 5);
  check_topk<bf16>(0, 5);
}

TEST_CASE("cuda topk: results do not depend on the schedule") {
  expect_same_always<float>([](const auto& in) { return topk(in[0], 40).values; }, {random<float>({7, 300}, 3)});
}
