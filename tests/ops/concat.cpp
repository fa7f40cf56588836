#include <heddle/ops/concat.hpp>

#include "harness/golden.hpp"
#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

TEST_CASE("concat: values and gradients are PyTorch's") {
  for (const Case& c : golden("concat")) {
    INFO(c.label);
    std::vector<std::string> roles;
    while (c.has('x' + std::to_string(roles.size()))) roles.push_back('x' + std::to_string(roles.size()));
    const auto joined = [&](const auto& xs) { return concat(xs, static_cast<int>(c.option("axis"))); };
    expect_case<double>(c, roles, joined, 0);
    expect_case<float>(c, roles, joined, 0);
    expect_case<bf16>(c, roles, joined, 0);
  }
}

TEST_CASE("concat: worked by hand") {
  on_each_device<int>([](Device device) {
    const auto a = Tensor<int>({2, 1}, {1, 2}).to(device), b = Tensor<int>({2, 2}, {3, 4, 5, 6}).to(device);
    CHECK(concat({a, b}, 1).host() == std::vector<int>{1, 3, 4, 2, 5, 6});
    CHECK(concat({b, b}).shape() == Shape{4, 2});
    CHECK(concat({b}, -1).host() == b.host());
  });
}

TEST_CASE("concat: gradients match finite differences, and only required gradients are computed") {
  const auto join = [](const auto& in) { return concat({in[0], in[1], in[0]}, 1); };
  for (const Index n : {0, 1, 31}) expect_gradients(join, {random({2, n, 3}, 1), random({2, 2, 3}, 2)});

  on_each_device<float>([](Device device) {
    const auto x = variable(ones<float>({1}, device)), constant = Tensor<float>({2}, {2, 3}).to(device);
    backward(concat({constant, x}), Tensor<float>({3}, {4, 5, 6}).to(device));
    CHECK(x.grad().host() == std::vector<float>{6});
  });
}

TEST_CASE("concat: names the axis that disagrees") {
  const Tensor<float> a({2, 3}), b({2, 4}), c({2});
  CHECK_THROWS_WITH(concat({a, a, b}),
                    "concat: 'axis 1' disagrees between x[0] and x[2]\n"
                    "  x[0]  [2, 3]    axis 1 is 3\n"
                    "  x[2]  [2, 4]    axis 1 is 4");
  CHECK_THROWS_WITH(concat({a, c}), "concat: x[1] [2] must have 2 axes");
  CHECK_THROWS_WITH(concat(std::vector<Tensor<float>>{}), "concat: at least 1 tensor is needed, got 0");
  CHECK_THROWS_AS(concat({a, b}, 2), ShapeError);
}

TEST_CASE("stack: tensors joined along a new axis") {
  on_each_device<int>([](Device device) {
    const auto a = Tensor<int>({2}, {1, 2}).to(device), b = Tensor<int>({2}, {3, 4}).to(device);
    CHECK(stack({a, b}).host() == std::vector<int>{1, 2, 3, 4});
    CHECK(stack({a, b}).shape() == Shape{2, 2});
    CHECK(stack({a, b}, 1).host() == std::vector<int>{1, 3, 2, 4});
    CHECK(stack({a, b}, -1).host() == std::vector<int>{1, 3, 2, 4});
    CHECK(stack({a, b}, -2).host() == std::vector<int>{1, 2, 3, 4});
    CHECK(stack({a}, 1).shape() == Shape{2, 1});
  });
  const Tensor<float> scalar(Shape{}, {5}), empty({0, 3});
  CHECK(stack({scalar, scalar}).host() == std::vector<float>{5, 5});
  CHECK(stack({empty, empty}, 1).shape() == Shape{0, 2, 3});
  for (const int axis : {0, 1, 2, -1})
    expect_gradients(
        [&](const auto& in) {
          return stack({in[0], in[1]}, axis);
        },
        {random({2, 31}, 1), random({2, 31}, 2)});
  CHECK_THROWS_WITH(stack({scalar, Tensor<float>({1})}), "stack: x[0] [] and x[1] [1] must have the same shape");
  CHECK_THROWS_AS(stack({scalar}, 1), ShapeError);
  CHECK_THROWS_WITH(stack(std::vector<Tensor<float>>()), "stack: at least 1 tensor is needed, got 0");
}
