#include <heddle/ops/layer_norm.hpp>

#include "harness/agreement.hpp"
#include "harness/golden.hpp"
#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

TEST_CASE("layer_norm: worked by hand") {
  const Tensor<double> x({1, 4}, {1, 3, 5, 7}), gamma({4}, {1, 1, 2, 2}), beta({4}, {0, 1, 0, 1});
  const auto y = layer_norm(x, gamma, beta, 0.0).host();  // mean 4, variance 5
  const double h = 3 / std::sqrt(5.0);
  CHECK(y[0] == Approx(-h));
  CHECK(y[1] == Approx(1 - h / 3));
  CHECK(y[2] == Approx(2 * h / 3));
  CHECK(y[3] == Approx(1 + 2 * h));
}

TEST_CASE("layer_norm: values and gradients are PyTorch's") {
  expect_golden(
      "layer_norm", {"x", "gamma", "beta"},
      [](const Case& c, const auto& in) { return layer_norm(in[0], in[1], in[2], c.option("eps")); }, 32);
}

TEST_CASE("layer_norm: gradient matches finite differences") {
  for (const Index D : {1, 2, 31, 33})
    expect_gradients([](const auto& in) { return layer_norm(in[0], in[1], in[2]); },
                     {random({3, D}, 1), random({D}, 2), random({D}, 3)}, 1e-5);
  expect_gradients([](const auto& in) { return layer_norm(in[0], in[1], in[2]); },
                   {random({0, 5}, 1), random({5}, 2), random({5}, 3)});
  expect_gradients([](const auto& in) { return layer_norm(in[0], in[1], in[2]); },
                   {random({2, 0}, 1), random({0}, 2), random({0}, 3)});
}

TEST_CASE("layer_norm: agrees with double for rows far from 0, rows of equal numbers, and rows that are not finite") {
  const auto norm = [](const auto& in) { return layer_norm(in[0], in[1], in[2]); };
  for (const Index D : {40, 33, 1032}) {
    CAPTURE(D);
    Inputs in{random<float>({5, D}, 1), random<float>({D}, 2), random<float>({D}, 3)};
    for (Index d = 0; d < D; ++d) {
      in[0].data()[d] = static_cast<float>(in[0].data()[d] + 1000);
      in[0].data()[D + d] = 3;
    }
    expect_agrees<float>(norm, in, gpu_function_errors);
    in[0].data()[2 * D] = infinity<double>;
    in[0].data()[3 * D + 7] = quiet_nan<double>;
    expect_agrees<float>(norm, in, gpu_function_errors);
  }
}

TEST_CASE("layer_norm: names the axis that disagrees") {
  CHECK_THROWS_WITH(layer_norm(Tensor<float>({2, 3}), Tensor<float>({4}), Tensor<float>({4})),
                    "layer_norm: 'D' disagrees between x and gamma\n"
                    "  x      [2, 3]    axis 1 is 3\n"
                    "  gamma  [4]       axis 0 is 4");
}
