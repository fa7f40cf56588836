// The CUDA kernels of gated units against double, and against themselves with other schedules and garbage in memory.
#include <heddle/ops/gated.hpp>

#include "../harness/agreement.hpp"
#include "device_array.hpp"
#include "same_always.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

// Calls check(function of the inputs) for each operation and half.
void each_gate(auto&& check) {
  for (const Gate gate : {Gate::first, Gate::second}) {
    check([=](const auto& in) { return gated_gelu(in[0], gate); });
    check([=](const auto& in) { return gated_gelu_tanh(in[0], gate); });
    check([=](const auto& in) { return gated_silu(in[0], gate); });
    check([=](const auto& in) { return gated_relu(in[0], gate); });
  }
}

}  // namespace

TEMPLATE_TEST_CASE("cuda gated: rows of all lengths agree with double", "", float, bf16) {
  each_gate([](const auto& gated) {
    for (const Index W : {0, 1, 7, 8, 33, 64, 1032})
      for (const Index N : {0, 1, 5, 300}) {
        if (N == 300 && (W > 64 || races_are_watched())) continue;
        CAPTURE(N, W);
        expect_agrees<TestType>(gated, {random<TestType>({N, 2 * W}, 1)}, gpu_function_errors);
      }
  });
}

TEST_CASE("cuda gated: rows that begin at unaligned addresses") {
  const Index N = 3, W = 16;
  const Tensor<double> values = random<float>({N, 2 * W}, 1), given = random<float>({N, W}, 2);
  const auto shifted = [](const Tensor<double>& x) {
    const auto all = converted<float>(x).host();
    std::vector<float> later(all.size() + 1);
    std::copy(all.begin(), all.end(), later.begin() + 1);
    return DeviceArray<float>(later);
  };
  const DeviceArray<float> x = shifted(values), dy = shifted(given), y(size_of(N * W + 1)), dx(size_of(2 * N * W + 1));
  kernel::gated(Cuda(), kernel::Silu(), true, View<const float, 2>{x.data() + 1, {N, 2 * W}},
                View<float, 2>{y.data() + 1, {N, W}});
  kernel::gated_backward(Cuda(), kernel::Silu(), true, View<const float, 2>{dy.data() + 1, {N, W}},
                         View<const float, 2>{x.data() + 1, {N, 2 * W}}, View<float, 2>{dx.data() + 1, {N, 2 * W}});
  cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  const Evaluation expected =
      evaluate<double>([](const auto& in) { return gated_silu(in[0]); }, {values}, Device::cpu, given);
  const auto behind_first = [](std::vector<float> all) {
    all.erase(all.begin());
    return joined(all);
  };
  expect_close(behind_first(y.host()), expected[0].values, part_of_largest(1e-6, expected[0].values));
  expect_close(behind_first(dx.host()), expected[1].values, part_of_largest(1e-6, expected[1].values));
}

TEMPLATE_TEST_CASE("cuda gated: results do not depend on schedules or garbage in memory", "", float, bf16) {
  for (const Index W : {33, 64})
    expect_same_always<TestType>([](const auto& in) { return gated_gelu(in[0]); }, {random<TestType>({9, 2 * W}, 1)});
}
