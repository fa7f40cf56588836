#include <heddle/ops/topk.hpp>

#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

TEST_CASE("topk: both orders along any axis, ties in the order of their positions") {
  const auto check = []<class T>(T) {
    on_each_device<T>([](Device device) {
      const auto x = converted<T>(Tensor<double>({2, 4}, {1, 3, 3, 0, -1, -5, 2, -5}), device);
      const auto y = topk(x, 3);
      CHECK(joined(y.values.host()) == std::vector<double>{3, 3, 1, 2, -1, -5});
      CHECK(y.indices.host() == std::vector<Index>{1, 2, 0, 2, 0, 1});
      const auto least = topk(x, 1, {.axis = 0, .largest = false});
      CHECK(joined(least.values.host()) == std::vector<double>{-1, -5, 2, -5});
      CHECK(least.indices.shape() == Shape{1, 4});
      CHECK(topk(x, 0).values.shape() == Shape{2, 0});
      CHECK(topk(zeros<T>({0, 3}, device), 2).values.shape() == Shape{0, 2});
    });
  };
  check(float());
  check(double());
  check(bf16());
  CHECK(topk(Tensor<int>({3}, {5, 9, 7}), 2).values.host() == std::vector<int>{9, 7});
}

TEST_CASE("topk: NaN is larger than all else, and -0 equals 0") {
  on_each_device<float>([](Device device) {
    const float nan = quiet_nan<float>, inf = infinity<float>;
    const auto x = Tensor<float>({7}, {-0.f, nan, inf, 0, -nan, -inf, -0.f}).to(device);
    CHECK(topk(x, 7).indices.host() == std::vector<Index>{1, 4, 2, 0, 3, 6, 5});
    CHECK(topk(x, 7, {.largest = false}).indices.host() == std::vector<Index>{5, 0, 3, 6, 2, 1, 4});
  });
}

TEST_CASE("topk: sorts rows of odd lengths, with gradients") {
  on_each_device<float>([](Device device) {
    for (const Index n : {1, 31, 33, 257}) {
      const auto x = converted<float>(random<float>({3, n}, 1), device);
      auto rows = x.host();
      for (Index row = 0; row < 3; ++row)
        std::sort(rows.begin() + row * n, rows.begin() + (row + 1) * n, std::greater<>());
      CHECK(topk(x, n).values.host() == rows);
    }
  });
  expect_gradients([](const auto& in) { return topk(in[0], 2, {.axis = 1}).values; }, {random({2, 5, 3}, 1)});
}

TEST_CASE("topk: a k that is out of range and an axis that does not exist are errors") {
  CHECK_THROWS_WITH(topk(zeros<float>({2, 3}), 4), "topk: k must be in [0, 3], the extent of axis -1 of [2, 3], got 4");
  CHECK_THROWS_AS(topk(zeros<float>({2, 3}), -1), ShapeError);
  CHECK_THROWS_AS(topk(zeros<float>({2}), 1, {.axis = 1}), ShapeError);
}
