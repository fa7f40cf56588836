#include <heddle/ops/gather.hpp>

#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

TEST_CASE("gather: worked by hand, in several types and with ids of both types") {
  const auto check = []<class T>(T) {
    on_each_device<T>([](Device device) {
      const auto x = converted<T>(Tensor<double>({2, 3}, {1, 0, 1, 0, 0, 1}), device);
      const auto ids = Tensor<int>({2, 2}, {2, 1, 0, 2}).to(device);
      CHECK(joined(gather(x, 1, ids).host()) == std::vector<double>{1, 0, 0, 1});
      CHECK(joined(gather(x, -1, cast<Index>(ids)).host()) == std::vector<double>{1, 0, 0, 1});
      CHECK(joined(gather(x, 0, Tensor<int>({1, 2}, {1, 0})).host()) == std::vector<double>{0, 0});
    });
  };
  check(float());
  check(double());
  check(bf16());
  check(int());
  check(bool());
}

TEST_CASE("gather: the gradients of repeated elements add up; empty and odd shapes") {
  on_each_device<float>([](Device device) {
    const auto x = variable(Tensor<float>({3}, {5, 6, 7}).to(device));
    backward(gather(x, 0, Tensor<int>({4}, {1, 1, 0, 1})), Tensor<float>({4}, {1, 2, 4, 8}).to(device));
    CHECK(x.grad().host() == std::vector<float>{4, 11, 0});
    CHECK(gather(x, 0, Tensor<int>(Shape{0})).shape() == Shape{0});
    CHECK(gather(zeros<float>({0, 2}, device), 1, Tensor<int>(Shape{0, 7})).shape() == Shape{0, 7});
  });
  for (const Index n : {1, 31, 33, 257}) {
    const auto ids = cast<int>(arange<float>(0, static_cast<double>(n))).with_shape({1, n, 1});
    expect_gradients([&](const auto& in) { return gather(in[0], 1, ids); }, {random({2, n, 2}, 1)});
    expect_gradients([&](const auto& in) { return gather(in[0], 0, cast<int>(ids == 0)); }, {random({2, n, 3}, 1)});
  }
}

TEST_CASE("gather: refuses wrong ids and shapes") {
  const auto x = zeros<float>({2, 3});
  CHECK_THROWS_WITH(gather(x, 1, Tensor<int>({1, 1}, {3})),
                    ContainsSubstring("gather: id 3 at position 0 is outside the 3 positions of the axis"));
  CHECK_THROWS_AS(gather(x, 0, Tensor<int>({1, 1}, {-1})), IndexError);
  CHECK_THROWS_WITH(gather(x, 1, Tensor<int>({3, 1}, {0, 0, 0})),
                    "gather: ids [3, 1] are longer on axis 0 than x [2, 3]");
  CHECK_THROWS_WITH(gather(x, 1, Tensor<int>({1}, {0})), "gather: ids [1] must have 2 axes");
  CHECK_THROWS_AS(gather(x, 2, Tensor<int>({1, 1}, {0})), ShapeError);
}

TEST_CASE("index_select: worked by hand, with gradients") {
  on_each_device<float>([](Device device) {
    const auto x = Tensor<float>({2, 3}, {1, 2, 3, 4, 5, 6}).to(device);
    CHECK(index_select(x, 1, Tensor<int>({2}, {2, 0})).host() == std::vector<float>{3, 1, 6, 4});
    CHECK(index_select(x, -2, Tensor<Index>({1}, {1})).host() == std::vector<float>{4, 5, 6});
    CHECK(index_select(x, 1, Tensor<int>(Shape{0})).shape() == Shape{2, 0});
  });
  const Tensor<int> ids({3}, {2, 0, 2});
  for (int axis = 0; axis < 3; ++axis)
    expect_gradients([&](const auto& in) { return index_select(in[0], axis, ids); }, {random({3, 4, 3}, 1)});
  CHECK_THROWS_AS(index_select(zeros<float>({2}), 0, ids), IndexError);
  CHECK_THROWS_WITH(index_select(zeros<float>({3}), 0, ids.with_shape({3, 1})),
                    "index_select: ids [3, 1] must have 1 axis");
}

TEST_CASE("one_hot: worked by hand") {
  on_each_device<int>([](Device device) {
    const auto ids = Tensor<int>({2, 1}, {2, 0}).to(device);
    const auto y = one_hot(ids, 3);
    CHECK(y.shape() == Shape{2, 1, 3});
    CHECK(y.host() == std::vector<Index>{0, 0, 1, 1, 0, 0});
    CHECK(one_hot(Tensor<Index>(Shape{0}).to(device), 4).shape() == Shape{0, 4});
    CHECK(one_hot(cast<Index>(ids).with_shape({2}), 3).host() == y.host());
  });
  CHECK_THROWS_WITH(one_hot(Tensor<int>({1}, {3}), 3), ContainsSubstring("one_hot: id 3"));
  CHECK_THROWS_WITH(one_hot(Tensor<int>({1}, {0}), 0), "one_hot: the number of classes must be positive, got 0");
}
