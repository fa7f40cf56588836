#include <heddle/ops/reshape.hpp>

#include "harness/golden.hpp"
#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

TEST_CASE("reshape: values and gradients are PyTorch's") {
  expect_golden("reshape", {"x"}, [](const Case& c, const auto& x) {
    const auto shape = c.list("shape");
    return reshape(x[0], c["y"].shape).shape() == Shape(std::span<const Index>(shape)) ? reshape(x[0], c["y"].shape)
                                                                                       : x[0];
  });
}

TEST_CASE("reshape: is a handle on the same block") {
  const Tensor<int> x({2, 6});
  CHECK(reshape(x, {3, 4}).data() == x.data());
  CHECK(reshape(x, {3, 4}).shape() == Shape{3, 4});
  CHECK(reshape(Tensor<bool>({1, 1}), {}).shape() == Shape{});
}

TEST_CASE("reshape: -1 stands for what remains") {
  const Tensor<float> x({2, 3, 4});
  CHECK(reshape(x, {-1}).shape() == Shape{24});
  CHECK(reshape(x, {4, -1}).shape() == Shape{4, 6});
  CHECK(reshape(x, {2, -1, 12}).shape() == Shape{2, 1, 12});
  CHECK(reshape(Tensor<float>({0, 3}), {-1, 3}).shape() == Shape{0, 3});
}

TEST_CASE("reshape: gradients match finite differences") {
  for (const Index n : {0, 1, 33})
    expect_gradients([](const auto& in) { return reshape(in[0], {-1, 2, 3}); }, {random({3, n, 2}, 1)});
}

TEST_CASE("reshape: a shape of another size is an error") {
  const Tensor<float> x({2, 3});
  CHECK_THROWS_WITH(reshape(x, {4}), "reshape: [2, 3] has 6 elements, [4] has 4");
  CHECK_THROWS_WITH(reshape(x, {4, -1}), "reshape: [2, 3] has 6 elements, which do not divide into [4, -1]");
  CHECK_THROWS_WITH(reshape(x, {-1, -1}), "reshape: [-1, -1] has more than one -1");
  CHECK_THROWS_AS(reshape(Tensor<float>({0}), {0, -1}), ShapeError);
}
