#include <heddle/ops/softmax.hpp>

#include "harness/golden.hpp"
#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

TEST_CASE("softmax, log_softmax: values and gradients are PyTorch's") {
  expect_golden("softmax", {"x"}, [](const Case& c, const auto& x) {
    const int axis = static_cast<int>(c.option("axis"));
    return c.has("mask") ? softmax(x[0], Tensor<bool>(c["mask"].shape, c["mask"].as<bool>()).to(x[0].device()), axis)
                         : softmax(x[0], axis);
  });
  expect_golden("log_softmax", {"x"},
                [](const Case& c, const auto& x) { return log_softmax(x[0], static_cast<int>(c.option("axis"))); });
}

TEST_CASE("softmax, log_softmax: gradients match finite differences along any axis") {
  for (const Shape& s : {Shape{3, 5}, {1, 1}, {2, 33, 3}, {0, 4}, {4, 0}, {2, 0, 3}, {257}})
    for (int axis = 0; axis < s.rank(); ++axis) {
      CAPTURE(s, axis);
      expect_gradients([&](const auto& in) { return softmax(in[0], axis); }, {random(s, 1)});
      expect_gradients([&](const auto& in) { return log_softmax(in[0], axis); }, {random(s, 1)});
    }
  const Tensor<bool> mask({3, 1, 4}, {true, false, true, true, false, false, false, false, false, true, false, false});
  for (const int axis : {0, 1, 2})
    expect_gradients([&](const auto& in) { return softmax(in[0], mask.to(in[0].device()), axis); },
                     {random({3, 2, 4}, 1)});
}

TEST_CASE("softmax: what is masked is 0, whatever it holds; what is not masked and NaN shows") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const Tensor<bool> mask({4}, {true, false, true, false});
  for (const int axis : {-1, 0}) {  // in rows and in columns
    const auto x = axis == 0 ? Tensor<float>({4, 2}, {1, 1, nan, inf, 1, 1, inf, nan})
                             : Tensor<float>({2, 4}, {1, nan, 1, inf, 1, inf, 1, nan});
    const auto m = axis == 0 ? mask.with_shape({4, 1}) : mask;
    const auto v = variable(x);
    const auto y = softmax(v, m, axis);
    CHECK(y.host() == (axis == 0 ? std::vector<float>{0.5, 0.5, 0, 0, 0.5, 0.5, 0, 0}
                                 : std::vector<float>{0.5, 0, 0.5, 0, 0.5, 0, 0.5, 0}));
    backward(y, ones<float>(y.shape()));
    CHECK(v.grad().host() == std::vector<float>(8, 0.f));
    CHECK(softmax(x, full<bool>({1}, false), axis).host() == std::vector<float>(8, 0.f));
    for (const float element : softmax(x, axis).host()) CHECK(std::isnan(element));
  }
  CHECK(softmax(Tensor<float>({1, 2}, {0, -inf})).host() == std::vector<float>{1, 0});
  CHECK(std::isnan(softmax(Tensor<float>({1, 2}, {-inf, -inf})).host()[0]));
  CHECK(softmax(Tensor<double>({1, 33},
                               [] {
                                 std::vector<double> x(33, -std::numeric_limits<double>::infinity());
                                 x[32] = 3;
                                 return x;
                               }()))
            .host() == [] {
    std::vector<double> y(33, 0);
    y[32] = 1;
    return y;
  }());
}

TEST_CASE("softmax: errors name the axis and the shapes") {
  const Tensor<float> x({2, 3});
  CHECK_THROWS_WITH(softmax(x, 2), "axis 2 does not exist in shape [2, 3]");
  CHECK_THROWS_WITH(softmax(x, Tensor<bool>({4, 2, 3})), "softmax: mask [4, 2, 3] does not broadcast to x [2, 3]");
  CHECK_THROWS_AS(softmax(x, Tensor<bool>({4})), ShapeError);
}
