#include <heddle/ops/max.hpp>

#include "harness/golden.hpp"
#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

TEST_CASE("max, argmax: values and gradients are PyTorch's") {
  expect_golden("max", {"x"}, [](const Case& c, const auto& x) {
    return c.has("axis") ? max(x[0], static_cast<int>(c.option("axis")), c.option("keepdim") != 0) : max(x[0]);
  });
  for (const Case& c : golden("argmax")) {
    INFO(c.label);
    const auto check = [&]<class T>(T) {
      on_each_device<T>([&](Device device) {
        const auto at = argmax(Tensor<T>(c["x"].shape, c["x"].as<T>()).to(device), static_cast<int>(c.option("axis")));
        CHECK(at.shape() == c["y"].shape);
        CHECK(at.host() == c["y"].as<std::int64_t>());
      });
    };
    check(double());
    check(float());
    check(bf16());
  }
}

TEST_CASE("max, min: gradients match finite differences for odd and for empty shapes") {
  for (const Shape& s : {Shape{1, 1, 1}, {2, 31, 3}, {1, 33, 1}, {3, 257}, {0, 3}})
    for (int axis = 0; axis < s.rank(); ++axis)
      if (s[axis] > 0)
        expect_gradients([&](const auto& in) { return max(in[0], axis) + 2 * min(in[0], axis); }, {random(s, 1)});
  expect_gradients([](const auto& in) { return max(in[0], {0, 2}) * min(in[0], {2, 0}); }, {random({3, 4, 5}, 1)});
}

TEST_CASE("max: the first of equals is taken, and gets the gradient") {
  on_each_device<float>([](Device device) {
    const auto x = variable(Tensor<float>({2, 3}, {1, 2, 2, -5, -5, -6}).to(device));
    CHECK(argmax(x, 1).host() == std::vector<std::int64_t>{1, 0});
    CHECK(argmax(x, 0, true).shape() == Shape{1, 3});
    backward(max(x, 1), Tensor<float>({2}, {10, 20}).to(device));
    CHECK(x.grad().host() == std::vector<float>{0, 10, 0, 20, 0, 0});
  });
}

TEST_CASE("max: a NaN is larger than all else") {
  const float nan = quiet_nan<float>, inf = infinity<float>;
  on_each_device<float>([&](Device device) {
    const auto x = Tensor<float>({2, 4}, {1, nan, inf, nan, -inf, -inf, -inf, -inf}).to(device);
    const auto y = max(x, 1).host();
    CHECK(std::isnan(y[0]));
    CHECK(y[1] == -inf);
    CHECK(argmax(x, 1).host() == std::vector<std::int64_t>{1, 0});
    CHECK(std::isnan(max(x, 0).host()[3]));
  });
}

TEST_CASE("max: if all elements are the type's least value, the first one is taken") {
  const auto check = []<class T>(T least) {
    on_each_device<T>([&](Device device) {
      for (const Shape& shape : {Shape{2, 20, 1}, {1, 4, 10}}) {
        const auto x = full<T>(shape, least, device);
        const Index count = shape[0] * shape[2];
        CHECK(max(x, 1).host() == std::vector<T>(static_cast<std::size_t>(count), least));
        CHECK(argmax(x, 1).host() == std::vector<std::int64_t>(static_cast<std::size_t>(count), 0));
      }
    });
  };
  check(-infinity<float>);
  check(std::numeric_limits<std::int32_t>::min());
}

TEST_CASE("max: works on integers, bools and bf16") {
  on_each_device<int>([](Device device) {
    CHECK(max(Tensor<int>({3}, {-3, -1, -2}).to(device)).item() == -1);
    const auto narrow = Tensor<bf16>({2}, {bf16(-2.f), bf16(-1.f)}).to(device);
    CHECK(static_cast<float>(max(narrow).item()) == -1);
  });
  CHECK(max(Tensor<bool>({2, 2}, {false, true, false, false}), 1).host() == std::vector<bool>{true, false});
}

TEST_CASE("min, argmin: the first of equal elements is taken in several types, and a NaN if there is one") {
  const auto check = []<class T>(T) {
    on_each_device<T>([](Device device) {
      const auto x = converted<T>(Tensor<double>({2, 3}, {2, 1, 1, 0, 5, 0}), device);
      CHECK(joined(min(x, 1).host()) == std::vector<double>{1, 0});
      CHECK(argmin(x, 1).host() == std::vector<Index>{1, 0});
      CHECK(joined(min(x, 0, true).host()) == std::vector<double>{0, 1, 0});
      CHECK(joined(min(x, {1, 0}).host()) == std::vector<double>{0});
      const auto least = full<T>({40, 3}, std::numeric_limits<T>::max(), device);
      CHECK(min(least).item() == std::numeric_limits<T>::max());
      CHECK(argmin(least, 0).host() == std::vector<Index>{0, 0, 0});
    });
  };
  check(float());
  check(double());
  check(int());
  check(Index());
  on_each_device<float>([](Device device) {
    const float nan = quiet_nan<float>, inf = infinity<float>;
    const auto x = Tensor<float>({2, 3}, {-inf, nan, -inf, inf, inf, inf}).to(device);
    CHECK(std::isnan(min(x, 1).host()[0]));
    CHECK(argmin(x, 1).host() == std::vector<Index>{1, 0});
    CHECK(min(x, 1).host()[1] == inf);
    const auto bits = Tensor<bool>({3}, {true, false, true}).to(device);
    CHECK(!min(bits).item());
    CHECK(argmin(bits, 0).item() == 1);
  });
  CHECK_THROWS_WITH(min(Tensor<float>({2, 0}), 1), "min: axis 1 of [2, 0] is empty");
  CHECK_THROWS_AS(argmin(Tensor<float>({0}), 0), ShapeError);
}

TEST_CASE("argmax, argmin: without an axis, they give the position among all elements") {
  const Tensor<float> x({2, 2}, {1, -2, 7, 0});
  CHECK(argmax(x).item() == 2);
  CHECK(argmin(x).item() == 1);
  CHECK_THROWS_AS(argmax(Tensor<float>({0})), ShapeError);
}

TEST_CASE("max: an empty axis is an error") {
  CHECK_THROWS_WITH(max(Tensor<float>({2, 0}), 1), "max: axis 1 of [2, 0] is empty");
  CHECK_THROWS_WITH(argmax(Tensor<float>({0}), -1), "argmax: axis -1 of [0] is empty");
  CHECK_THROWS_AS(max(Tensor<float>({0})), ShapeError);
  CHECK_THROWS_AS(max(Tensor<float>({2}), 1), ShapeError);
}
