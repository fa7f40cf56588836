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

TEST_CASE("reshape: is a handle to the same block") {
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
  CHECK_THROWS_WITH(reshape(x, {-2, -1}), "reshape: [-2, -1] has the extent -2; only -1 stands for another");
  CHECK(reshape(x, std::vector<Index>{-1, 1}).shape() == reshape(x, {-1, 1}).shape());
  CHECK_THROWS_AS(reshape(Tensor<float>({0}), {0, -1}), ShapeError);
}

TEST_CASE("unsqueeze and squeeze: insert and remove axes of extent 1") {
  const Tensor<float> x({2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK(unsqueeze(x, 0).shape() == Shape{1, 2, 3});
  CHECK(unsqueeze(x, 1).shape() == Shape{2, 1, 3});
  CHECK(unsqueeze(x, 2).shape() == Shape{2, 3, 1});
  CHECK(unsqueeze(x, -1).shape() == Shape{2, 3, 1});
  CHECK(unsqueeze(x, -3).shape() == Shape{1, 2, 3});
  CHECK(unsqueeze(Tensor<float>(Shape{}, {1}), 0).shape() == Shape{1});
  CHECK(unsqueeze(x, 1).data() == x.data());
  CHECK_THROWS_WITH(unsqueeze(x, 3), "unsqueeze: axis 3 does not exist in shape [2, 3] with one more axis");
  CHECK_THROWS_AS(unsqueeze(x, -4), ShapeError);

  const Tensor<int> ones({1, 2, 1}, {7, 8});
  CHECK(squeeze(ones).shape() == Shape{2});
  CHECK(squeeze(ones, 0).shape() == Shape{2, 1});
  CHECK(squeeze(ones, -1).shape() == Shape{1, 2});
  CHECK(squeeze(ones, 1).shape() == ones.shape());  // as in PyTorch
  CHECK(squeeze(Tensor<int>({1, 1}, {7})).shape() == Shape{});
  CHECK_THROWS_WITH(squeeze(ones, 3), "squeeze: axis 3 does not exist in shape [1, 2, 1]");
  expect_gradients([](const auto& in) { return squeeze(unsqueeze(in[0], 1)); }, {random({1, 33}, 1)});
}
