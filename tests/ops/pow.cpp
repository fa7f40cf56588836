#include <heddle/ops/pow.hpp>

#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

TEST_CASE("pow: special values are those of std::pow") {
  const double inf = infinity<double>, nan = quiet_nan<double>;
  const std::vector<double> numbers = {0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, inf, -inf, nan};
  for (const double exponent : numbers) {
    CAPTURE(exponent);
    std::vector<double> expected;
    for (const double x : numbers) expected.push_back(std::pow(x, exponent));
    const auto bound = [](double e) { return 0x1p-52 * std::abs(e); };
    const Tensor<double> x({12}, numbers), n = full<double>({}, exponent);
    expect_close(pow(x, exponent).host(), expected, bound);
    expect_close(pow(x, n).host(), expected, bound);
    expected.clear();
    for (const double other : numbers) expected.push_back(std::pow(exponent, other));
    expect_close(pow(exponent, x).host(), expected, bound);
    expect_close(pow(n, x).host(), expected, bound);
  }
}

TEST_CASE("pow: squares and roots are exact in every type") {
  const auto check = []<class T>(T) {
    on_each_device<T>([](Device device) {
      const auto x = converted<T>(Tensor<double>({3}, {4, 9, 16}), device);
      CHECK(joined(pow(x, 2).host()) == std::vector<double>{16, 81, 256});
      CHECK(joined(pow(x, 0.5).host()) == std::vector<double>{2, 3, 4});
      CHECK(joined(pow(2, x - 4).host()) == std::vector<double>{1, 32, 4096});
      CHECK(joined(pow(x, zeros<T>({2, 1}, device)).host()) == std::vector<double>(6, 1));
    });
  };
  check(float());
  check(double());
  check(bf16());
  CHECK_THROWS_AS(pow(zeros<float>({2}), zeros<float>({3})), ShapeError);
}

TEST_CASE("pow: gradients, at 0 too") {
  on_each_device<float>([](Device device) {
    const auto zero = variable(Tensor<float>({3}, {0, 0, 0}).to(device));
    const auto n = variable(Tensor<float>({3}, {0, 1, 2}).to(device));
    backward(sum(pow(zero, n)));
    CHECK(zero.grad().host() == std::vector<float>{0, 1, 0});
    CHECK(n.grad().host() == std::vector<float>{0, 0, 0});
    zero.set_grad({});
    backward(sum(pow(zero, 0)) + sum(pow(zero, 2)));
    CHECK(zero.grad().host() == std::vector<float>{0, 0, 0});
    n.set_grad({});
    backward(sum(pow(0, n)));
    CHECK(n.grad().host() == std::vector<float>{0, 0, 0});
  });
  for (const Shape& s : {Shape{}, {0}, {31}, {2, 33}}) {
    const Tensor<double> x = exp(random(s, 1)), n = random(s, 2);
    expect_gradients([](const auto& in) { return pow(in[0], in[1]); }, {x, n}, 1e-6);
    expect_gradients([](const auto& in) { return pow(in[0], -1.5) + pow(1.5, in[0]) + pow(in[0], 3); }, {x}, 1e-6);
  }
  expect_gradients([](const auto& in) { return pow(in[0], in[1]); }, {exp(random({3, 1}, 1)), random({257}, 2)}, 1e-6);
}
