// The CUDA kernels of map against those of the CPU.
#include <heddle/ops/map.hpp>

#include "../harness/agreement.hpp"
#include "device_array.hpp"
#include "same_always.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

// Returns sizes from 0 to more elements than a thread block has: less than a vector, whole vectors, and whole vectors
// with a rest.
std::vector<Index> sizes() {
  if (races_are_watched()) return {0, 33, 4097};
  return {0, 1, 7, 8, 9, 31, 33, 257, 2048, 4096, 4097, 9001};
}

template <class T>
Tensor<double> inputs_for(Index size, bool positive) {
  Tensor<double> x = random<T>({size}, 5);
  for (Index i = 0; positive && i < size; ++i) x.data()[i] = std::abs(x.data()[i]) + 0.125;
  return rounded<T>(x);
}

// Returns y, and dx for the given x, y and dy.
template <class F, class T>
std::vector<double> run_kernels(const Tensor<T>& x, const Tensor<T>& y_given, const Tensor<T>& dy) {
  Tensor<T> y = empty_like(x), dx = empty_like(x);
  dispatch(x, [&](auto device) {
    kernel::map(device, F{}, view<1>(x), view<1>(y));
    kernel::map_backward(device, F{}, view<1>(dy), view<1>(x), view<1>(y_given), view<1>(dx));
  });
  return joined(y.host(), dx.host());
}

// Compares float with double on the CPU. In bf16 the derivative is computed from a rounded y, so its error against
// double is large on every device. Therefore bf16 on the GPU is compared with bf16 on the CPU, and may differ by two
// roundings because both round.
template <class F>
void check(bool positive = false) {
  for (const Index size : sizes()) {
    CAPTURE(size);
    expect_agrees<float>([](const auto& in) { return detail::map<F>("map", in[0]); },
                         {inputs_for<float>(size, positive)}, gpu_function_errors);
    const auto x = converted<bf16>(inputs_for<bf16>(size, positive)), dy = converted<bf16>(random<bf16>({size}, 6));
    const auto y = detail::map<F>("map", x);
    const auto on_cpu = run_kernels<F>(x, y, dy);
    expect_close<bf16>(run_kernels<F>(x.to(Device::cuda), y.to(Device::cuda), dy.to(Device::cuda)), on_cpu, on_cpu,
                       {.roundings = 2});
  }
}

// Checks that NaN, infinity and zeros, with gradients of 0 and 1, give the CPU's values.
template <class F>
void check_special() {
  constexpr float infinite = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor<float> x({10}, {nan, nan, infinite, infinite, -infinite, -infinite, 0, 0, -0.f, -0.f}),
      dy({10}, {0, 1, 0, 1, 0, 1, 0, 1, 0, 1});
  const auto y = detail::map<F>("map", x);
  const auto on_cpu = run_kernels<F>(x, y, dy);
  expect_close<float>(run_kernels<F>(x.to(Device::cuda), y.to(Device::cuda), dy.to(Device::cuda)), on_cpu, on_cpu);
}

template <class T>
void check_unaligned() {
  const Index size = 4097;
  std::vector<T> values(static_cast<std::size_t>(size) + 1);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = T(0.25f * static_cast<float>(i % 64) - 7.f);
  const DeviceArray<T> x(values), y(std::vector<T>(values.size(), T(77.f)));
  cudaDeviceSynchronize();
  kernel::map(Cuda{}, kernel::Relu{}, View<const T, 1>{x.data() + 1, {size}}, View<T, 1>{y.data() + 1, {size}});
  cuda::synchronize();
  const std::vector<T> got = y.host();
  CHECK(static_cast<float>(got[0]) == 77.f);
  for (std::size_t i = 1; i < got.size(); ++i)
    REQUIRE(static_cast<float>(got[i]) == std::max(static_cast<float>(values[i]), 0.f));
}

}  // namespace

TEST_CASE("cuda map: exp, log and sqrt") {
  check<kernel::Exp>();
  check<kernel::Log>(true);
  check<kernel::Sqrt>(true);
}

TEST_CASE("cuda map: tanh, sigmoid and relu") {
  check<kernel::Tanh>();
  check<kernel::Sigmoid>();
  check<kernel::Relu>();
}

TEST_CASE("cuda map: both forms of gelu") {
  check<kernel::Gelu>();
  check<kernel::GeluTanh>();
}

TEST_CASE("cuda map: abs, log1p, erf, softplus and silu") {
  check<kernel::Abs>();
  check<kernel::Log1p>(true);
  check<kernel::Erf>();
  check<kernel::Softplus>();
  check<kernel::Silu>();
}

TEST_CASE("cuda map: NaN, infinity and zeros") {
  check_special<kernel::Exp>();
  check_special<kernel::Log>();
  check_special<kernel::Sqrt>();
  check_special<kernel::Abs>();
}

// Root and quotient are rounded correctly on both devices.
TEST_CASE("cuda map: the derivative is not rounded before it is multiplied") {
  const auto x = converted<bf16>(inputs_for<bf16>(257, true)), dy = converted<bf16>(random<bf16>({257}, 6));
  const auto y = detail::map<kernel::Sqrt>("map", x);
  const auto got = run_kernels<kernel::Sqrt>(x.to(Device::cuda), y.to(Device::cuda), dy.to(Device::cuda));
  CHECK((got == run_kernels<kernel::Sqrt>(x, y, dy)));
}

TEST_CASE("cuda map: addresses that are not aligned") {
  check_unaligned<float>();
  check_unaligned<bf16>();
}

TEST_CASE("cuda map: results do not depend on the schedule") {
  expect_same_always<float>([](const auto& in) { return gelu(in[0]); }, {random<float>({2050}, 3)});
  expect_same_always<bf16>([](const auto& in) { return gelu(in[0]); }, {random<bf16>({4099}, 3)});
}
