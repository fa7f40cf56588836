#include <heddle/ops/arithmetic.hpp>
#include <heddle/ops/slice.hpp>

#include "harness/golden.hpp"
#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

TEST_CASE("slice: values and gradients are PyTorch's") {
  expect_golden("slice", {"x"}, [](const Case& c, const auto& x) {
    return slice(x[0], static_cast<int>(c.option("axis")), c.list("first")[0], c.list("last")[0]);
  });
}

TEST_CASE("slice: a slice of axis 0 is a handle, and a slice of another axis is a copy") {
  on_each_device<int>([](Device device) {
    const auto x = Tensor<int>({3, 2}, {1, 2, 3, 4, 5, 6}).to(device);
    CHECK(slice(x, 0, 1, 3).host() == std::vector<int>{3, 4, 5, 6});
    CHECK(slice(x, -2, 1, 3).device_data() == x.device_data() + 2);
    CHECK(slice(x, 1, -1, 2).host() == std::vector<int>{2, 4, 6});
    CHECK(slice(x, 0, 2, 2).shape() == Shape{0, 2});
    CHECK(slice(x, 1, -2, -1).shape() == Shape{3, 1});
  });
}

TEST_CASE("slice: gradients match finite differences") {
  for (const Index n : {1, 2, 31}) {
    expect_gradients([&](const auto& in) { return slice(in[0], 1, n / 2, n); }, {random({3, n, 2}, 1)});
    expect_gradients([&](const auto& in) { return slice(in[0], 0, 0, n / 2); }, {random({n, 3}, 1)});
  }
}

TEST_CASE("slice: positions outside the axis are an error") {
  const Tensor<float> x({3, 2});
  CHECK_THROWS_WITH(slice(x, 1, 1, 4), "slice: [1, 4) is not within axis 1 of [3, 2]");
  CHECK_THROWS_AS(slice(x, 0, 2, 1), IndexError);
  CHECK_THROWS_AS(slice(x, 0, -4, 1), IndexError);
  CHECK_THROWS_WITH(slice(x, 2, 0, 1), "slice: axis 2 does not exist in shape [3, 2]");
}

TEST_CASE("split: parts that make up an axis") {
  on_each_device<int>([](Device device) {
    const auto x = Tensor<int>({2, 3}, {1, 2, 3, 4, 5, 6}).to(device);
    const auto parts = split(x, {2, 0, 1}, 1);
    REQUIRE(parts.size() == 3);
    CHECK(parts[0].host() == std::vector<int>{1, 2, 4, 5});
    CHECK(parts[1].shape() == Shape{2, 0});
    CHECK(parts[2].host() == std::vector<int>{3, 6});
    const auto twos = split(x, 2, -1);
    REQUIRE(twos.size() == 2);
    CHECK(twos[1].host() == std::vector<int>{3, 6});
    CHECK(split(x, 1).size() == 2);
    CHECK(split(x, 9).size() == 1);
  });
  CHECK(split(Tensor<float>({0, 2}), 3).size() == 1);
  expect_gradients(
      [](const auto& in) {
        const auto parts = split(in[0], {1, 31, 1}, 1);
        return parts[0] * parts[2] + slice(parts[1], 1, 0, 1);
      },
      {random({2, 33}, 1)});
  const Tensor<float> x({2, 3});
  CHECK_THROWS_WITH(split(x, {1, 1}, 1), "split: the sizes add up to 2, but axis 1 of [2, 3] has extent 3");
  CHECK_THROWS_WITH(split(x, {2, 2}, 1), "split: the sizes add up to more than axis 1 of [2, 3], whose extent is 3");
  CHECK_THROWS_AS(split(x, {1}, 1), ShapeError);  // {1} is a list of sizes, not the size of every part
  CHECK_THROWS_WITH(split(x, {-1, 4}, 1), "split: a size must not be negative, got -1");
  CHECK_THROWS_WITH(split(x, 0), "split: a size must be at least 1, got 0");
  CHECK_THROWS_WITH(split(x, 1, 2), "split: axis 2 does not exist in shape [2, 3]");
}
