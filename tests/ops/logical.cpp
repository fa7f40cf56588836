#include <heddle/ops/logical.hpp>

#include "harness/devices.hpp"
#include "harness/numbers.hpp"

using namespace heddle;
using namespace heddle::testing;

TEST_CASE("logical: and, or, not of bools and of numbers") {
  using Bits = std::vector<bool>;
  on_each_device<float>([](Device device) {
    const auto a = Tensor<bool>({4}, {false, false, true, true}).to(device);
    const auto b = Tensor<float>({4}, {0, quiet_nan<float>, -0.f, 2}).to(device);
    CHECK(logical_and(a, b).host() == Bits{false, false, false, true});
    CHECK(logical_or(a, b).host() == Bits{false, true, true, true});
    CHECK(logical_not(a).host() == Bits{true, true, false, false});
    CHECK(logical_not(b).host() == Bits{true, false, true, false});
    const auto column = Tensor<int>({2, 1}, {0, -3}).to(device);
    CHECK(logical_and(column, a).host() == Bits{false, false, false, false, false, false, true, true});
    CHECK(logical_or(zeros<bool>({0, 1}, device), a).shape() == Shape{0, 4});
  });
  CHECK_THROWS_AS(logical_and(zeros<bool>({2}), zeros<bool>({3})), ShapeError);
}

TEST_CASE("any, all: along axes, and of empty tensors") {
  using Bits = std::vector<bool>;
  on_each_device<float>([](Device device) {
    const auto x = Tensor<float>({2, 3}, {0, 1, 0, 0, quiet_nan<float>, 2}).to(device);
    CHECK(any(x, 0).host() == Bits{false, true, true});
    CHECK(all(x, 0).host() == Bits{false, true, false});
    CHECK(any(x, {0, 1}).item());
    CHECK(!all(x).item());
    CHECK(all(x, -1, true).shape() == Shape{2, 1});
    CHECK(any(x, {1, 0}, true).shape() == Shape{1, 1});
    const auto none = zeros<float>({2, 0}, device);
    CHECK(any(none, 1).host() == Bits{false, false});
    CHECK(all(none, 1).host() == Bits{true, true});
    CHECK(any(none, 0).shape() == Shape{0});
    CHECK(!any(none).item());
    CHECK(all(none).item());
  });
  CHECK(any(Tensor<int>({}, {-1})).item());
  CHECK_THROWS_WITH(any(zeros<bool>({2}), 1), "any: axis 1 does not exist in shape [2]");
}
