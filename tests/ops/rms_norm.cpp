#include <heddle/ops/rms_norm.hpp>

#include "harness/agreement.hpp"
#include "harness/golden.hpp"
#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

const auto divide_rows = [](const auto& in) { return rms_norm(in[0], in[1]); };

}  // namespace

TEST_CASE("rms_norm: worked by hand") {
  const Tensor<double> x({1, 4}, {1, -1, 3, -3}), gamma({4}, {1, 1, 2, 2});  // the mean of the squares is 5
  const auto y = rms_norm(x, gamma, 0.0).host();
  const double r = 1 / std::sqrt(5.0);
  CHECK(y[0] == Approx(r));
  CHECK(y[1] == Approx(-r));
  CHECK(y[2] == Approx(6 * r));
  CHECK(y[3] == Approx(-6 * r));
  CHECK(rms_norm(x, gamma, 11.0).host()[0] == Approx(0.25));  // 1 / sqrt(5 + 11)
}

TEST_CASE("rms_norm: values and gradients are PyTorch's") {
  expect_golden(
      "rms_norm", {"x", "gamma"}, [](const Case& c, const auto& in) { return rms_norm(in[0], in[1], c.option("eps")); },
      32);
}

TEST_CASE("rms_norm: gradient matches finite differences") {
  for (const Index D : {1, 2, 31, 33, 257}) expect_gradients(divide_rows, {random({3, D}, 1), random({D}, 2)}, 1e-5);
  expect_gradients(divide_rows, {random({0, 5}, 1), random({5}, 2)});
  expect_gradients(divide_rows, {random({2, 0}, 1), random({0}, 2)});
  expect_gradients(divide_rows, {random({2, 3, 5}, 1), random({5}, 2)}, 1e-5);
}

TEST_CASE("rms_norm: agrees with double for large numbers, rows of zeros, and rows that are not finite") {
  for (const Index D : {40, 33, 1032}) {
    CAPTURE(D);
    Inputs in{random<float>({5, D}, 1), random<float>({D}, 2)};
    for (Index d = 0; d < D; ++d) {
      in[0].data()[d] = static_cast<float>(in[0].data()[d] * 1e6);
      in[0].data()[D + d] = 0;
    }
    expect_agrees<float>(divide_rows, in, gpu_function_errors);
    in[0].data()[2 * D] = infinity<double>;
    in[0].data()[3 * D + 7] = quiet_nan<double>;
    expect_agrees<float>(divide_rows, in, gpu_function_errors);
  }
}

TEST_CASE("rms_norm: refuses what is not a norm of x's last axis") {
  CHECK_THROWS_WITH(rms_norm(Tensor<float>({2, 3}), Tensor<float>({4})),
                    "rms_norm: 'D' disagrees between x and gamma\n"
                    "  x      [2, 3]    axis 1 is 3\n"
                    "  gamma  [4]       axis 0 is 4");
  CHECK_THROWS_AS(rms_norm(Tensor<float>({2, 3}), Tensor<float>({3, 1})), ShapeError);
  CHECK_THROWS_AS(rms_norm(Tensor<float>({2, 3}), Tensor<float>({3}), -1.0), Error);
  CHECK_THROWS_AS(rms_norm(Tensor<float>({2, 3}), Tensor<float>({3}), quiet_nan<double>), Error);
}
