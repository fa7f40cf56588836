#include <heddle/ops/expand.hpp>

#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

TEST_CASE("expand: worked by hand, for int, float and bool") {
  on_each_device<int>([](Device device) {
    const auto x = Tensor<int>({2, 1}, {1, 2}).to(device);
    CHECK(expand(x, {2, 3}).host() == std::vector<int>{1, 1, 1, 2, 2, 2});
    CHECK(expand(x, {2, -1, 2}).shape() == Shape{2, 2, 2});
    CHECK(expand(x, {2, -1, 2}).host() == std::vector<int>{1, 1, 2, 2, 1, 1, 2, 2});
    CHECK(expand(x, {0, 2, 1}).shape() == Shape{0, 2, 1});
    CHECK(expand(x, {2, 0}).size() == 0);
    CHECK(expand(x, Shape{2, 1}).host() == x.host());
  });
  on_each_device<float>([](Device device) {
    const auto zero = Tensor<float>(Shape{}, {-0.f}).to(device);
    for (const float value : expand(zero, {33}).host()) CHECK((value == 0 && std::signbit(value)));
    CHECK(expand(Tensor<float>({1}, {quiet_nan<float>}).to(device), {2}).host()[1] != 0);
  });
  CHECK(expand(Tensor<bool>({1}, {true}), {2}).host() == std::vector<bool>{true, true});
  CHECK(expand(Tensor<float>(Shape{}, {3}), {257}).host() == std::vector<float>(257, 3));
}

TEST_CASE("expand: gradients match finite differences") {
  expect_gradients([](const auto& in) { return expand(in[0], {3, -1, 2}); }, {random({5, 1}, 1)});
  expect_gradients([](const auto& in) { return expand(in[0], {31, 33}); }, {random({33}, 1)});
  expect_gradients([](const auto& in) { return expand(in[0], {0, 4}); }, {random({4}, 1)});
  expect_gradients([](const auto& in) { return expand(in[0], {2, 3}); }, {random({2, 3}, 1)});
}

TEST_CASE("expand: a shape that x does not broadcast to is an error") {
  const Tensor<float> x({2, 3});
  CHECK_THROWS_WITH(expand(x, {2, 4}), "expand: x [2, 3] does not broadcast to [2, 4]");
  CHECK_THROWS_WITH(expand(x, {3}), "expand: x [2, 3] does not broadcast to [3]");
  CHECK_THROWS_WITH(expand(x, {-1, 2, 3}),
                    "expand: [-1, 2, 3] has a negative extent on an axis that x [2, 3] does not "
                    "have, or one below -1");
}
