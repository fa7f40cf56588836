#include <heddle/core/create.hpp>
#include <heddle/ops/reduce.hpp>

#include "harness/agreement.hpp"
#include "harness/golden.hpp"
#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

TEST_CASE("sum, mean: values and gradients are PyTorch's") {
  expect_golden("sum", {"x"}, [](const Case& c, const auto& x) {
    return c.has("axis") ? sum(x[0], static_cast<int>(c.option("axis")), c.option("keepdim") != 0) : sum(x[0]);
  });
  expect_golden("mean", {"x"}, [](const Case& c, const auto& x) {
    return c.has("axis") ? mean(x[0], static_cast<int>(c.option("axis")), c.option("keepdim") != 0) : mean(x[0]);
  });
}

TEST_CASE("sum, mean: gradients match finite differences for odd and for empty shapes") {
  for (const Shape& s : {Shape{1, 1, 1}, {2, 31, 3}, {1, 33, 1}, {3, 257}, {0, 3}, {3, 0}})
    for (int axis = 0; axis < s.rank(); ++axis) {
      expect_gradients([&](const auto& in) { return sum(in[0], axis); }, {random(s, 1)});
      if (s[axis] > 0) expect_gradients([&](const auto& in) { return mean(in[0], axis, true); }, {random(s, 1)});
    }
}

TEST_CASE("sum, mean: all elements, as near to double as plain float") {
  expect_agrees<float>([](const auto& in) { return sum(in[0]); }, {random<float>({3, 5, 7}, 1)});
  expect_agrees<float>([](const auto& in) { return mean(in[0]); }, {random<float>({257}, 1)});
}

TEST_CASE("sum, mean: an empty tensor gives 0 and NaN") {
  const auto check = []<class T>(T) {
    on_each_device<T>([](Device device) {
      const Tensor<T> x({2, 0}, device);
      CHECK(joined(sum(x).host()) == std::vector<double>{0});
      CHECK(joined(sum(x, 1).host()) == std::vector<double>{0, 0});
      CHECK(sum(x, 0).shape() == Shape{0});
      CHECK(std::isnan(joined(mean(x).host())[0]));
      for (const Shape& shape : {Shape{2, 0}, Shape{2, 0, 3}, Shape{2, 0, 1}, Shape{1, 0, 257}}) {
        for (const double v : joined(sum(Tensor<T>(shape, device), 1).host())) CHECK(v == 0);
        for (const double v : joined(mean(Tensor<T>(shape, device), 1).host())) CHECK(std::isnan(v));
      }
    });
  };
  check(float());
  check(bf16());
}

TEST_CASE("sum: infinities and NaN stay what they are") {
  std::vector<float> values(300, 1.f);
  values[7] = infinity<float>;
  values[120] = -infinity<float>;
  values[299] = quiet_nan<float>;
  on_each_device<float>([&](Device device) {
    const auto sums = sum(Tensor<float>({3, 100}, values).to(device), 1).host();
    CHECK(sums[0] == infinity<float>);
    CHECK(sums[1] == -infinity<float>);
    CHECK(std::isnan(sums[2]));
  });
}

TEST_CASE("sum: a long sum of floats is accurate") {
  const Index n = 10'000'000;
  const Tensor<float> x = full<float>({n}, 0.1f);
  const double exact = static_cast<double>(0.1f) * static_cast<double>(n);
  for (const Shape& s : {Shape{n, 1}, {n / 10, 10}, {n / 1000, 1000}}) {
    double total = 0;
    for (const float part : sum(x.with_shape(s), 0).host()) total += static_cast<double>(part);
    CHECK(std::abs(total / exact - 1) < 4e-6);  // equal terms round alike: the worst case
  }
  CHECK(std::abs(static_cast<double>(mean(x).item()) / static_cast<double>(0.1f) - 1) < 1e-6);
}

TEST_CASE("sum: does not depend on the number of threads") {
  const Tensor<double> wide = random({3, 20'000, 2}, 1);
  const Tensor<float> x({3, 20'000, 2}, std::vector<float>(wide.data(), wide.data() + wide.size()));
  const int before = threads();
  set_threads(1);
  const auto all = sum(x).item();
  const auto rows = sum(x, 1).host(), columns = sum(x.with_shape({20'000, 6}), 0).host();
  set_threads(4);
  CHECK(sum(x).item() == all);
  CHECK(sum(x, 1).host() == rows);
  CHECK(sum(x.with_shape({20'000, 6}), 0).host() == columns);
  set_threads(before);
}

TEST_CASE("sum: integers and bools are counted in int64") {
  on_each_device<int>([](Device device) {
    const auto x = Tensor<int>({2, 2}, {2'000'000'000, 2'000'000'000, -1, -2}).to(device);
    CHECK(sum(x, 1).host() == std::vector<std::int64_t>{4'000'000'000, -3});
    CHECK(sum(x).item() == 3'999'999'997);
    CHECK(sum(Tensor<bool>({3}, {true, false, true}).to(device)).item() == 2);
  });
}

TEST_CASE("sum: bf16 is summed in float") {
  on_each_device<bf16>([](Device device) {
    CHECK(static_cast<float>(sum(ones<bf16>({1, 1000}, device)).item()) == 1000.f);
    CHECK(static_cast<float>(sum(ones<bf16>({1000, 3}, device), 0).host()[2]) == 1000.f);
    CHECK(static_cast<float>(mean(ones<bf16>({1000}, device)).item()) == 1.f);
  });
}

TEST_CASE("sum: an axis that does not exist is an error") {
  CHECK_THROWS_WITH(sum(Tensor<float>({2, 3}), 2), "sum: axis 2 does not exist in shape [2, 3]");
  CHECK_THROWS_WITH(mean(Tensor<float>(Shape{}), -1), "mean: axis -1 does not exist in shape []");
  CHECK_THROWS_AS(mean(Tensor<float>(Shape{}), 0), ShapeError);
}

TEST_CASE("sum, mean: along several axes") {
  on_each_device<float>([](Device device) {
    const auto x = arange<float>(0, 24, 1, device).with_shape({2, 3, 4});
    CHECK(sum(x, {0, 2}).host() == std::vector<float>{60, 92, 124});
    CHECK(sum(x, {-1, -2}).host() == std::vector<float>{66, 210});
    CHECK(sum(x, {1, 0}, true).shape() == Shape{1, 1, 4});
    CHECK(mean(x, {2, 0}).host() == std::vector<float>{7.5, 11.5, 15.5});
    CHECK(sum(x, {}).item() == 276);
    CHECK(sum(x, {}, true).shape() == Shape{1, 1, 1});
    CHECK(sum(x, {1}).host() == sum(x, 1).host());
    CHECK(sum(x, std::vector<int>{0, 1, 2}).item() == 276);
    CHECK(sum(zeros<float>({0, 3, 2}, device), {0, 2}).host() == std::vector<float>{0, 0, 0});
    CHECK(sum(full<float>({}, 3, device), {}).item() == 3);
  });
  CHECK(sum(Tensor<int>({2, 1, 2}, {1, 2, 3, 4}), {0, 2}).host() == std::vector<Index>{10});
  CHECK_THROWS_WITH(sum(zeros<float>({2, 3}), {0, -2}), "sum: axis -2 of [2, 3] is named twice");
  CHECK_THROWS_WITH(mean(zeros<float>({2, 3}), {0, 2}), "mean: axis 2 does not exist in shape [2, 3]");
}

TEST_CASE("sum, mean: gradients along several axes match finite differences") {
  for (const auto& axes : {std::vector<int>{0, 1}, {0, 2}, {1, 2}, {0, 1, 2}, {}})
    for (const Shape& s : {Shape{2, 3, 4}, {1, 31, 2}, {33, 1, 1}, {2, 0, 3}})
      expect_gradients([&](const auto& in) { return sum(in[0], axes) + mean(exp(in[0]), axes); }, {random(s, 1)}, 1e-6);
}
