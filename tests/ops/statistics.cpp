#include <heddle/ops/losses.hpp>
#include <heddle/ops/statistics.hpp>

#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

TEST_CASE("var, std: worked by hand") {
  const auto check = []<class T>(T) {
    on_each_device<T>([](Device device) {
      const auto x = converted<T>(Tensor<double>({2, 2}, {1, 3, 5, 11}), device);
      CHECK(joined(var(x, 1).host()) == std::vector<double>{2, 18});
      CHECK(joined(var(x, {0}, {.correction = 0, .keepdim = true}).host()) == std::vector<double>{4, 16});
      CHECK(static_cast<double>(var(x, {}, {.correction = 0}).item()) == 14);
      CHECK(heddle::std(x, 0, {.correction = 0}).host() == std::vector<T>{T(2.f), T(4.f)});
      CHECK(var(x, 0, {.keepdim = true}).shape() == Shape{1, 2});
      const auto single = var(x, {}, {.correction = 4});
      CHECK(std::isinf(static_cast<double>(single.item())));
      CHECK(std::isnan(static_cast<double>(var(zeros<T>({1}, device)).item())));
      CHECK(std::isnan(static_cast<double>(heddle::std(zeros<T>({0}, device)).item())));
    });
  };
  check(float());
  check(double());
  check(bf16());
}

TEST_CASE("std: equal numbers give 0, with the gradient 0") {
  const auto x = variable(full<float>({3}, 2));
  const auto y = heddle::std(x);
  backward(y);
  CHECK(y.item() == 0);
  CHECK(x.grad().host() == std::vector<float>{0, 0, 0});
}

TEST_CASE("var: a large offset does not spoil a float variance") {
  const auto x = random<float>({1000}, 1) + 4096;
  const double exact = var(rounded<float>(x)).item();
  CHECK(std::abs(static_cast<double>(var(converted<float>(x)).item()) - exact) < 1e-5 * exact);
}

TEST_CASE("norm: agrees with values by hand for every kind of p; the gradient at 0 is 0") {
  const double inf = infinity<double>;
  on_each_device<float>([&](Device device) {
    const auto x = Tensor<float>({2, 2}, {3, -4, 0, 5}).to(device);
    CHECK(norm(x, 2, 1).host() == std::vector<float>{5, 5});
    CHECK(norm(x, 1, 1).host() == std::vector<float>{7, 5});
    CHECK(norm(x, 0, 1).host() == std::vector<float>{2, 1});
    CHECK(norm(x, inf, {0, 1}).item() == 5);
    CHECK(std::abs(norm(x, 3).item() - 6) < 1e-5);
    CHECK(norm(x).item() == std::sqrt(50.f));
    CHECK(norm(x, 2, 0, true).shape() == Shape{1, 2});
    CHECK(norm(zeros<float>({0}, device)).item() == 0);
    for (const double p : {1., 1.5, 2., 3., inf}) {
      const auto zero = variable(zeros<float>({2}, device));
      backward(norm(zero, p, 0));
      CHECK(zero.grad().host() == std::vector<float>{0, 0});
    }
  });
  CHECK_THROWS_WITH(norm(zeros<float>({1}), -1), "norm: p must not be negative, got -1");
}

TEST_CASE("logsumexp: worked by hand, with infinities and for empty tensors") {
  on_each_device<float>([](Device device) {
    const float inf = infinity<float>;
    const auto x = variable(Tensor<float>({3, 2}, {1000, 1000, -inf, -inf, inf, 0}).to(device));
    const auto y = logsumexp(x, 1);
    CHECK(y.host() == std::vector<float>{1000 + std::log(2.f), -inf, inf});
    CHECK(logsumexp(zeros<float>({2, 0}, device), 1).host() == std::vector<float>{-inf, -inf});
    CHECK(logsumexp(zeros<float>({0, 2}, device), 1).shape() == Shape{0});
    const auto finite = variable(Tensor<float>({2, 2}, {0, 0, -inf, -inf}).to(device));
    backward(sum(logsumexp(finite, 1)));
    CHECK(finite.grad().host() == std::vector<float>{0.5, 0.5, 0, 0});
  });
}

TEST_CASE("norm, std, normalize, cosine_similarity: very large and very small elements") {
  on_each_device<float>([](Device device) {
    for (const float scale : {2e37f, 1e20f, 1e-20f, 1e-37f, 1.f}) {
      CAPTURE(scale);
      const Tensor<float> x = Tensor<float>({2, 2}, {3 * scale, 4 * scale, 0, 2 * scale}).to(device) / 2.f;
      const auto expect = [&](const Tensor<float>& actual, const std::vector<float>& expected) {
        const auto values = actual.host();
        for (std::size_t i = 0; i < expected.size(); ++i) CHECK(values[i] / scale == Approx(expected[i]));
      };
      expect(norm(x, 2, 1), {2.5f, 1});
      expect(norm(x, 3, 1), {std::cbrt(91.f) / 2, 1});
      expect(norm(x, 0.5, 1), {std::pow(std::sqrt(1.5f) + std::sqrt(2.f), 2.f), 1});
      expect(heddle::std(x, 1), {std::sqrt(0.125f), std::sqrt(0.5f)});
      expect(normalize(x, {.eps = 0}) * scale, {0.6f, 0.8f, 0, 1});
      expect(cosine_similarity(x, x, 1, 0) * scale, {1, 1});
      const Tensor<float> variable_x = variable(detach(x));
      backward(sum(norm(variable_x, 2, 1)));
      const auto gradient = variable_x.grad().host();
      CHECK(gradient[0] == Approx(0.6));
      CHECK(gradient[1] == Approx(0.8));
      CHECK(gradient[3] == Approx(1));
    }
    // One column is usual, the other is not; infinity and NaN stay.
    const Tensor<float> mixed =
        Tensor<float>({2, 4}, {3, 3e20f, infinity<float>, quiet_nan<float>, 4, 4e20f, 1, 1}).to(device);
    const auto columns = norm(mixed, 2, 0).host();
    CHECK(columns[0] == 5);
    CHECK(columns[1] == Approx(5e20f));
    CHECK(columns[2] == infinity<float>);
    CHECK(std::isnan(columns[3]));
  });
}

TEST_CASE("statistics: gradients match finite differences along any axes") {
  for (const Shape& s : {Shape{2, 3, 4}, {1, 33, 2}, {31}, {3, 0, 2}}) {
    std::vector<std::vector<int>> choices = {{0}, {-1}, {}};
    if (s.rank() == 3) choices.push_back({0, 2});
    for (const auto& axes : choices) {
      const auto x = random(s, 2);
      expect_gradients(
          [&](const auto& in) {
            return var(in[0], axes, {.correction = 0}) + norm(in[0], 2, axes) + logsumexp(in[0], axes);
          },
          {x}, 1e-6);
    }
  }
  expect_gradients(
      [](const auto& in) {
        return heddle::std(in[0], {2, 0}) + norm(in[0], 3, {0, 2});
      },
      {random({2, 3, 4}, 5)}, 1e-6);
}
