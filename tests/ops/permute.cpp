#include <heddle/core/create.hpp>
#include <heddle/ops/permute.hpp>

#include "harness/golden.hpp"
#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

TEST_CASE("permute, transpose: values and gradients are PyTorch's") {
  const auto axes = [](const Case& c) {
    const auto list = c.list("axes");
    return std::vector<int>(list.begin(), list.end());
  };
  expect_golden("permute", {"x"}, [&](const Case& c, const auto& x) { return permute(x[0], axes(c)); });
  expect_golden("transpose", {"x"},
                [&](const Case& c, const auto& x) { return transpose(x[0], axes(c)[0], axes(c)[1]); });
}

TEST_CASE("transpose: worked by hand") {
  on_each_device<int>([](Device device) {
    const auto x = Tensor<int>({2, 3}, {1, 2, 3, 4, 5, 6}).to(device);
    CHECK(transpose(x).host() == std::vector<int>{1, 4, 2, 5, 3, 6});
    CHECK(transpose(x).shape() == Shape{3, 2});
    const auto flags = Tensor<bool>({1, 2}, {true, false}).to(device);
    CHECK(transpose(flags, -1, 0).host() == std::vector<bool>{true, false});
  });
}

TEST_CASE("permute: every order of four axes, with extents above and below the size of a tile") {
  const auto check = [](const Shape& s, Device device) {
    const auto x = arange<std::int64_t>(s.size(), device).with_shape(s);
    std::vector<int> axes = {0, 1, 2, 3};
    do {
      const auto y = permute(x, axes).to(Device::cpu);
      const View<const std::int64_t, 4> v = view<4>(y);
      Index wrong = 0, i[4];
      for (i[0] = 0; i[0] < s[axes[0]]; ++i[0])
        for (i[1] = 0; i[1] < s[axes[1]]; ++i[1])
          for (i[2] = 0; i[2] < s[axes[2]]; ++i[2])
            for (i[3] = 0; i[3] < s[axes[3]]; ++i[3]) {
              Index from = 0;
              for (int a = 0; a < 4; ++a) {
                const auto at = std::find(axes.begin(), axes.end(), a) - axes.begin();
                from = from * s[a] + i[at];
              }
              wrong += v(i[0], i[1], i[2], i[3]) != from;
            }
      REQUIRE(wrong == 0);
    } while (std::next_permutation(axes.begin(), axes.end()));
  };
  on_each_device<std::int64_t>([&](Device device) {
    for (const Shape& s : {Shape{2, 3, 1, 5}, {1, 33, 2, 65}, {37, 2, 40, 3}, {3, 0, 2, 1}}) check(s, device);
  });
}

TEST_CASE("permute: gradients match finite differences") {
  for (const Index n : {0, 1, 7}) {
    expect_gradients([](const auto& in) { return permute(in[0], {2, 0, -2}); }, {random({3, n, 2}, 1)});
    expect_gradients([](const auto& in) { return transpose(in[0]); }, {random({n, 5}, 1)});
  }
}

TEST_CASE("permute: each axis must be named once") {
  const Tensor<float> x({2, 3});
  CHECK_THROWS_WITH(permute(x, {0, 0}), "permute: each axis of [2, 3] must be named once");
  CHECK_THROWS_AS(permute(x, {0}), ShapeError);
  CHECK_THROWS_AS(permute(x, {0, 1, 1}), ShapeError);
  CHECK_THROWS_AS(permute(x, {0, 2}), ShapeError);
  CHECK_THROWS_WITH(transpose(Tensor<float>({1, 2, 3})), "transpose: x [1, 2, 3] must have 2 axes");
}
