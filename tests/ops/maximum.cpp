#include <heddle/ops/maximum.hpp>

#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

TEST_CASE("maximum, minimum: worked by hand, with NaN, infinities and broadcasting") {
  const auto check = []<class T>(T) {
    on_each_device<T>([](Device device) {
      const double inf = infinity<double>, nan = quiet_nan<double>;
      const auto a = converted<T>(Tensor<double>({6}, {1, 2, nan, 5, -inf, inf}), device);
      const auto b = converted<T>(Tensor<double>({6}, {2, 1, 0, nan, 0, 0}), device);
      expect_close(joined(maximum(a, b).host()), {2, 2, nan, nan, 0, inf}, equal);
      expect_close(joined(minimum(a, b).host()), {1, 1, nan, nan, -inf, 0}, equal);
      const auto two = full<T>({1}, 2, device);
      expect_close(joined(maximum(two, a).host()), {2, 2, nan, 5, 2, inf}, equal);
      expect_close(joined(minimum(a, two).host()), {1, 2, nan, 2, -inf, 2}, equal);
      CHECK(maximum(a, zeros<T>({0, 1}, device)).shape() == Shape{0, 6});
    });
  };
  check(float());
  check(double());
  check(bf16());
  CHECK(maximum(Tensor<int>({2}, {3, -4}), Tensor<int>({}, {0})).host() == std::vector<int>{3, 0});
  CHECK(minimum(Tensor<int>({2}, {3, -4}), Tensor<int>({}, {0})).host() == std::vector<int>{0, -4});
  CHECK_THROWS_AS(maximum(zeros<float>({2}), zeros<float>({3})), ShapeError);
}

TEST_CASE("maximum, minimum: equal values share the gradient, and gradients match finite differences") {
  on_each_device<float>([](Device device) {
    const auto a = variable(Tensor<float>({3}, {1, 2, 3}).to(device)), b = variable(full<float>({}, 2, device));
    backward(maximum(a, b), Tensor<float>({3}, {10, 20, 40}).to(device));
    CHECK(a.grad().host() == std::vector<float>{0, 10, 40});
    CHECK(b.grad().host() == std::vector<float>{20});
    a.set_grad({});
    backward(minimum(a, a), Tensor<float>({3}, {1, 1, 1}).to(device));
    CHECK(a.grad().host() == std::vector<float>{1, 1, 1});
  });
  for (const Shape& s : {Shape{1}, {31}, {33}, {2, 0}})
    expect_gradients([](const auto& in) { return maximum(in[0], in[1]) * minimum(in[0], in[1]); },
                     {random(s, 1), random(Shape{2, 1}, 2)});
}

TEST_CASE("clamp: bounds, their gradients, NaN") {
  const auto check = []<class T>(T) {
    on_each_device<T>([](Device device) {
      const double inf = infinity<double>, nan = quiet_nan<double>;
      const auto x = variable(converted<T>(Tensor<double>({6}, {-inf, -1, 0, 1, inf, nan}), device));
      const auto y = clamp(x, {.min = -1, .max = 0.5});
      expect_close(joined(y.host()), {-1, -1, 0, 0.5, 0.5, nan}, equal);
      expect_close(joined(clamp(x, {.max = 0}).host()), {-inf, -1, 0, 0, 0, nan}, equal);
      expect_close(joined(clamp(x, {}).host()), joined(x.host()), equal);
      expect_close(joined(clamp(x, {.min = 2, .max = 1}).host()), {1, 1, 1, 1, 1, nan}, equal);
      backward(sum(y));
      expect_close(joined(x.grad().host()), {0, 0, 1, 0, 0, 0}, equal);
    });
  };
  check(float());
  check(double());
  check(bf16());
  for (const Shape& s : {Shape{}, {0}, {257}})
    expect_gradients([](const auto& in) { return clamp(in[0], {.min = -0.7, .max = 0.3}); }, {random(s, 3)});
  CHECK_THROWS_WITH(clamp(zeros<float>({1}), {.min = quiet_nan<double>}),
                    "clamp: the bounds must not be NaN, got min = nan, max = inf");
}
