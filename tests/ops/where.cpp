#include <heddle/ops/where.hpp>

#include "harness/golden.hpp"
#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {
Tensor<bool> mask_of(const Case& c) { return Tensor<bool>(c["mask"].shape, c["mask"].as<bool>()); }
}  // namespace

TEST_CASE("where, masked_fill: values and gradients are PyTorch's") {
  expect_golden("where", {"a", "b"},
                [](const Case& c, const auto& x) { return where(mask_of(c).to(x[0].device()), x[0], x[1]); });
  expect_golden("masked_fill", {"x"}, [](const Case& c, const auto& x) {
    return masked_fill(x[0], mask_of(c).to(x[0].device()), c.option("value"));
  });
}

TEST_CASE("where: gradients of odd and of empty shapes match finite differences") {
  for (const Index n : {0, 1, 33}) {
    Tensor<bool> condition({n, 1});
    for (Index i = 0; i < n; ++i) condition.data()[i] = i % 3 == 0;
    expect_gradients([&](const auto& in) { return where(condition.to(in[0].device()), in[0], in[1]); },
                     {random({5}, 1), random({2, n, 5}, 2)});
    expect_gradients([&](const auto& in) { return masked_fill(in[0], condition.to(in[0].device()), -3); },
                     {random({1, 5}, 1)});
  }
}

TEST_CASE("where: an element that is not selected gets gradient 0, even if the incoming gradient is not finite") {
  const float nan = quiet_nan<float>;
  on_each_device<float>([&](Device device) {
    const auto on = [&](std::vector<float> values) { return Tensor<float>({2}, values).to(device); };
    const auto a = variable(on({1, 2})), b = variable(on({nan, 4}));
    const auto y = where(Tensor<bool>({2}, {true, false}).to(device), a, b);
    CHECK(y.host() == std::vector<float>{1, 4});
    backward(y, on({5, infinity<float>}));
    CHECK(a.grad().host() == std::vector<float>{5, 0});
    CHECK(b.grad().host()[0] == 0);
  });
}

TEST_CASE("where, masked_fill: work on integers and bools") {
  on_each_device<int>([](Device device) {
    const auto mask = Tensor<bool>({2}, {true, false}).to(device);
    const auto a = Tensor<int>({2}, {1, 2}).to(device), b = full<int>({1}, 3, device);
    CHECK(where(mask, a, b).host() == std::vector<int>{1, 3});
    CHECK(masked_fill(mask, mask, false).host() == std::vector<bool>{false, false});
    const auto wide = Tensor<std::int64_t>({2}, {1, 2}).to(device);
    CHECK(masked_fill(wide, mask, Index{1} << 40).host()[0] == Index{1} << 40);
  });
}

TEST_CASE("where, masked_fill: name the axis that disagrees") {
  const Tensor<float> x({2, 3});
  const Tensor<bool> mask({2, 4});
  CHECK_THROWS_WITH(masked_fill(x, mask, 0),
                    "masked_fill: 'axis -1' disagrees between x and mask\n"
                    "  x     [2, 3]    axis 1 is 3\n"
                    "  mask  [2, 4]    axis 1 is 4\n"
                    "  broadcasting repeats axes of extent 1 only");
  CHECK_THROWS_AS(where(mask, x, x), ShapeError);
}
