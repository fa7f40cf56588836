#include <heddle/ops/linear_gelu.hpp>

#include <heddle/ops/cast.hpp>

#include "harness/agreement.hpp"
#include "harness/golden.hpp"
#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

TEST_CASE("linear_gelu: is gelu(linear(x))") {
  for (const Index N : {0, 1, 31, 257})
    for (const Index out : {1, 33, 128})
      for (const bool with_bias : {true, false}) {
        CAPTURE(N, out, with_bias);
        const auto x = random({N, 17}, 1), weight = random({out, 17}, 2);
        const auto bias = with_bias ? random({out}, 3) : Tensor<double>();
        const auto y = linear_gelu(x, weight, bias), gelu_of_linear = gelu(linear(x, weight, bias));
        REQUIRE(y.shape() == gelu_of_linear.shape());
        const auto actual = y.host(), expected = gelu_of_linear.host();
        for (std::size_t i = 0; i < actual.size(); ++i) REQUIRE(actual[i] == Approx(expected[i]).epsilon(1e-13));
      }
}

TEST_CASE("linear_gelu: neither the number of threads nor the blocks of the product change the result") {
  for (const auto& [N, out] : {std::pair<Index, Index>{2000, 96}, {96, 2000}}) {
    const auto x = cast<float>(random({N, 64}, 1)), weight = cast<float>(random({out, 64}, 2)),
               bias = cast<float>(random({out}, 3));
    const int before = threads();
    set_threads(1);
    const auto one = linear_gelu(x, weight, bias).host();
    set_threads(2);
    CHECK((linear_gelu(x, weight, bias).host() == one));
    set_threads(before);
    const auto expected = gelu(linear(x, weight, bias)).host();
    for (std::size_t i = 0; i < one.size(); ++i) REQUIRE(one[i] == Approx(expected[i]).epsilon(1e-5).margin(1e-6));
  }
}

TEST_CASE("linear_gelu: values and gradients are PyTorch's") {
  expect_golden(
      "linear_gelu", {"x", "weight", "bias"},
      [](const Case&, const auto& in) { return linear_gelu(in[0], in[1], in[2]); }, 16);
}

TEST_CASE("linear_gelu: gradient matches finite differences") {
  expect_gradients([](const auto& in) { return linear_gelu(in[0], in[1], in[2]); },
                   {random({2, 3, 5}, 1), random({4, 5}, 2), random({4}, 3)}, 1e-5);
  expect_gradients([](const auto& in) { return linear_gelu(in[0], in[1]); }, {random({3, 5}, 1), random({4, 5}, 2)},
                   1e-5);
}

// bf16 is compared with bf16 on the CPU, because near 0 the rounding of the sum is a large part of the GELU. Its
// weights and biases are small, because the last bits of Eigen's erf are wrong for sums that are so negative that 1 +
// erf cancels.
TEST_CASE("linear_gelu: values and gradients are the same on every device") {
  const auto plain = [](const auto& in) { return linear_gelu(in[0], in[1]); };
  const auto with_bias = [](const auto& in) { return linear_gelu(in[0], in[1], in[2]); };
  for (const Index N : {1, 5, 33}) {
    Inputs single{random<float>({N, 7}, 1), random<float>({9, 7}, 2)},
        narrow{random<bf16>({N, 7}, 1), random<bf16>({9, 7}, 2) * 0.25};
    expect_agrees<float>(plain, single);
    expect_agrees_with_cpu<bf16>(plain, narrow, 2);
    single.push_back(random<float>({9}, 3));
    narrow.push_back(random<bf16>({9}, 3) * 0.25);
    expect_agrees<float>(with_bias, single);
    expect_agrees_with_cpu<bf16>(with_bias, narrow, 2);
  }
}

TEST_CASE("linear_gelu: bf16 agrees with float within the rounding of bf16") {
  const auto x = cast<bf16>(random({33, 64}, 1)), weight = cast<bf16>(random({31, 64}, 2)),
             bias = cast<bf16>(random({31}, 3));
  const auto y = cast<float>(linear_gelu(x, weight, bias)).host();
  const auto expected = linear_gelu(cast<float>(x), cast<float>(weight), cast<float>(bias)).host();
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(y[i] == Approx(expected[i]).epsilon(0.01).margin(0.02));
}

TEST_CASE("linear_gelu: names the axis that disagrees") {
  CHECK_THROWS_WITH(linear_gelu(Tensor<float>({2, 3}), Tensor<float>({4, 5})),
                    "linear_gelu: 'in' disagrees between x and weight\n"
                    "  x       [2, 3]    axis 1 is 3\n"
                    "  weight  [4, 5]    axis 1 is 5");
}
