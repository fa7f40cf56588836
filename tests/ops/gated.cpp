#include <heddle/ops/gated.hpp>
#include <heddle/ops/map.hpp>

#include "harness/agreement.hpp"
#include "harness/golden.hpp"
#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

// Calls check(name, function of x and the gate) for each operation.
void each_gate(auto&& check) {
  check("gated_gelu", [](const auto& x, Gate gate) { return gated_gelu(x, gate); });
  check("gated_gelu_tanh", [](const auto& x, Gate gate) { return gated_gelu_tanh(x, gate); });
  check("gated_silu", [](const auto& x, Gate gate) { return gated_silu(x, gate); });
  check("gated_relu", [](const auto& x, Gate gate) { return gated_relu(x, gate); });
}

// Returns random numbers that are not near 0, where the derivative of relu jumps.
Tensor<double> far_from_zero(const Shape& shape) {
  Tensor<double> x = random(shape, 1);
  for (Index i = 0; i < x.size(); ++i) x.data()[i] += x.data()[i] < 0 ? -0.1 : 0.1;
  return x;
}

}  // namespace

TEST_CASE("gated: worked by hand") {
  const Tensor<double> x({2, 4}, {1, -2, 3, 5, -1, 4, 2, -3});
  CHECK(gated_relu(x).host() == std::vector<double>{3, 0, 0, -12});
  CHECK(gated_relu(x, Gate::second).host() == std::vector<double>{3, -10, -2, 0});
  CHECK(gated_silu(Tensor<double>({2}, {0, 7})).host() == std::vector<double>{0});
  CHECK(gated_silu(Tensor<double>({2}, {1, 2})).item() == Approx(2 / (1 + std::exp(-1.0))));
}

TEST_CASE("gated: values and gradients are PyTorch's") {
  each_gate([](const char* name, const auto& f) {
    expect_golden(
        name, {"x"},
        [&](const Case& c, const auto& in) { return f(in[0], c.option("second") > 0 ? Gate::second : Gate::first); },
        32);
  });
}

TEST_CASE("gated: gradients match finite differences") {
  each_gate([](const char*, const auto& f) {
    for (const Gate gate : {Gate::first, Gate::second}) {
      const auto gated = [&](const auto& in) { return f(in[0], gate); };
      for (const Index W : {0, 1, 31, 33, 257}) expect_gradients(gated, {far_from_zero({3, 2 * W})}, 1e-6);
      expect_gradients(gated, {far_from_zero({0, 6})});
      expect_gradients(gated, {far_from_zero({2, 3, 4})}, 1e-6);
    }
  });
}

TEST_CASE("gated: float and bf16 agree with double, and numbers that are not finite stay in their place") {
  each_gate([](const char*, const auto& f) {
    const auto gated = [&](const auto& in) { return f(in[0], Gate::first); };
    for (const Index W : {33, 264}) {
      Inputs in{random<bf16>({5, 2 * W}, 1)};
      expect_agrees<float>(gated, in, gpu_function_errors);
      in[0].data()[3] = quiet_nan<double>;
      in[0].data()[3 * W + 5] = infinity<double>;  // of the second half
      expect_agrees<float>(gated, in, gpu_function_errors);
    }
  });
}

TEST_CASE("gated: is silu, gelu and so on of one half, times the other") {
  const Tensor<float> x = converted<float>(random({4, 66}, 3));
  const auto half = [&](Index first) {
    Tensor<float> y({4, 33});
    for (Index n = 0; n < 4; ++n) std::copy_n(x.data() + n * 66 + first, 33, y.data() + n * 33);
    return y;
  };
  const auto times = [](const Tensor<float>& a, const Tensor<float>& b) {
    std::vector<float> product = a.host();
    for (std::size_t i = 0; i < product.size(); ++i) product[i] *= b.host()[i];
    return product;
  };
  CHECK(gated_silu(x).host() == times(silu(half(0)), half(33)));
  CHECK(gated_gelu(x, Gate::second).host() == times(gelu(half(33)), half(0)));
}

TEST_CASE("gated: refuses rows without halves") {
  CHECK_THROWS_WITH(gated_gelu(Tensor<float>({2, 3})),
                    "gated_gelu: the last axis of x must have two halves, got [2, 3]");
  CHECK_THROWS_AS(gated_silu(Tensor<float>(Shape{}, {1})), ShapeError);
}
