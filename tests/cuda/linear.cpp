// Linear layers on the GPU.
#include <heddle/ops/linear_gelu.hpp>

#include "../harness/agreement.hpp"
#include "same_always.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

template <class T>
void check_sum_rows(Index N, Index D) {
  CAPTURE(N, D);
  const auto sums = [&]<class A>(const Tensor<A>& dy) {
    Tensor<A> dbias({D}, dy.device());
    dispatch(dy, [&](auto device) { kernel::sum_rows(device, view<2>(dy), view<1>(dbias)); });
    return joined(dbias.host());
  };
  const auto dy = random<T>({N, D}, 1);
  expect_close<T>(sums(converted<T>(dy, Device::cuda)), sums(dy), sums(converted<float>(dy)));
}

}  // namespace

TEST_CASE("cuda sum_rows: the error is at most twice that of float on the CPU, and bf16 is rounded once") {
  for (const Index N : {0, 1, 31, 33, 257, 300})
    for (const Index D : {0, 1, 31, 33, 64, 257}) {
      if (races_are_watched() && N * D > 33 * 257) continue;
      check_sum_rows<float>(N, D);
      check_sum_rows<bf16>(N, D);
    }
  check_sum_rows<float>(300, 128);
  check_sum_rows<bf16>(5000, 1);
}

TEST_CASE("cuda sum_rows: results do not depend on schedules or garbage in memory") {
  const auto check = [&]<class T>(T) {
    const auto dy = converted<T>(random<T>({300, 65}, 1), Device::cuda);
    expect_same_always([&] {
      Tensor<T> dbias({65}, Device::cuda);
      kernel::sum_rows(Cuda{}, view<2>(dy), view<1>(dbias));
      return joined(dbias.host());
    });
  };
  check(float());
  check(bf16());
}

TEMPLATE_TEST_CASE("cuda linear_gelu: results do not depend on schedules or garbage in memory", "", float, bf16) {
  const auto x = random<TestType>({33, 7}, 1), weight = random<TestType>({9, 7}, 2), bias = random<TestType>({9}, 3);
  expect_same_always<TestType>([](const auto& in) { return linear_gelu(in[0], in[1], in[2]); }, {x, weight, bias});
  expect_same_always<TestType>([](const auto& in) { return linear_gelu(in[0], in[1]); }, {x, weight});
}
