#include <heddle/core/create.hpp>
#include <heddle/ops/matmul.hpp>

#include "harness/golden.hpp"
#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

TEST_CASE("matmul: values and gradients are PyTorch's") {
  expect_golden(
      "matmul", {"a", "b"},
      [](const Case& c, const auto& x) {
        return matmul(x[0], x[1],
                      {.transpose_a = c.option("transpose_a") != 0, .transpose_b = c.option("transpose_b") != 0});
      },
      16);
}

TEST_CASE("matmul: worked by hand") {
  const Tensor<double> a({2, 2}, {1, 2, 3, 4}), b({2, 3}, {1, 0, 1, 0, 1, 1}), v({2}, {10, 1});
  CHECK(matmul(a, b).host() == std::vector<double>{1, 2, 3, 3, 4, 7});
  CHECK(matmul(a, a, {.transpose_b = true}).host() == std::vector<double>{5, 11, 11, 25});
  CHECK(matmul(a, v).host() == std::vector<double>{12, 34});
  CHECK(matmul(v, a).host() == std::vector<double>{13, 24});
  CHECK(matmul(v, v).item() == 101);
  CHECK(matmul(v, v).shape() == Shape{});
}

TEST_CASE("matmul: products of bf16 without columns or terms") {
  CHECK(matmul(zeros<bf16>({2, 3}), zeros<bf16>({3, 0})).shape() == Shape{2, 0});
  CHECK(cast<float>(matmul(ones<bf16>({2, 0}), ones<bf16>({0, 3}))).host() == std::vector<float>(6, 0.f));
}

TEST_CASE("matmul: a vector loses its axis, batches broadcast") {
  const auto shape = [](const Shape& a, const Shape& b) { return matmul(zeros<float>(a), zeros<float>(b)).shape(); };
  CHECK(shape({5}, {4, 5, 3}) == Shape{4, 3});
  CHECK(shape({4, 2, 5}, {5}) == Shape{4, 2});
  CHECK(shape({7, 1, 2, 5}, {4, 5, 3}) == Shape{7, 4, 2, 3});
  CHECK(shape({4, 2, 5}, {5, 3}) == Shape{4, 2, 3});
  CHECK(shape({0, 2, 5}, {5, 3}) == Shape{0, 2, 3});
  on_each_device<float>([](Device device) {
    const auto y = matmul(Tensor<float>({2, 0}, device), Tensor<float>({0, 3}, device));
    CHECK(y.host() == std::vector<float>(6, 0.f));
  });
}

TEST_CASE("matmul: gradients match finite differences, transposed and broadcast or not") {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      for (const auto& [left, right] :
           std::vector<std::pair<Shape, Shape>>{{{}, {}}, {{3}, {}}, {{}, {3}}, {{3, 1}, {2}}, {{0}, {1}}}) {
        const auto stack = [](const Shape& batch, Index rows, Index columns) {
          std::vector<Index> extents(batch.begin(), batch.end());
          extents.insert(extents.end(), {rows, columns});
          return Shape(std::span<const Index>(extents));
        };
        expect_gradients([&](const auto& in) { return matmul(in[0], in[1], {.transpose_a = ta, .transpose_b = tb}); },
                         {random(ta ? stack(left, 3, 2) : stack(left, 2, 3), 1),
                          random(tb ? stack(right, 4, 3) : stack(right, 3, 4), 2)});
      }
  for (const Index n : {1, 31}) {
    expect_gradients([](const auto& in) { return matmul(in[0], in[1]); }, {random({n}, 1), random({n}, 2)});
    expect_gradients([](const auto& in) { return matmul(in[0], in[1]); }, {random({n}, 1), random({2, n, 3}, 2)});
    expect_gradients([](const auto& in) { return matmul(in[0], in[1]); }, {random({2, 3, n}, 1), random({n}, 2)});
  }
}

TEST_CASE("matmul: a batch of small products on several threads equals each product alone") {
  const Index B = 200, M = 7, K = 33, N = 5;
  const auto a = random({B, M, K}, 1), b = random({B, N, K}, 2);
  const auto c = matmul(a, b, {.transpose_b = true});
  for (const Index n : {Index{0}, Index{77}, B - 1}) {
    const auto one =
        matmul(a.leading(n, n + 1).with_shape({M, K}), b.leading(n, n + 1).with_shape({N, K}), {.transpose_b = true});
    CHECK(c.leading(n, n + 1).host() == one.host());
  }
}

TEST_CASE("matmul: bf16 sums in float") {
  on_each_device<bf16>([](Device device) {
    const auto y = matmul(ones<bf16>({1, 1000}, device), ones<bf16>({1000, 1}, device));
    CHECK(static_cast<float>(y.item()) == 1000.f);
  });
}

TEST_CASE("matmul: names what disagrees") {
  CHECK_THROWS_WITH(matmul(Tensor<float>({7, 2, 3}), Tensor<float>({4, 5})),
                    "matmul: 'K' disagrees between a and b\n"
                    "  a  [7, 2, 3]    axis 2 is 3\n"
                    "  b  [4, 5]       axis 0 is 4");
  CHECK_THROWS_WITH(matmul(Tensor<float>({7, 2, 3}), Tensor<float>({4, 3, 5})),
                    "matmul: 'axis -3' disagrees between a and b\n"
                    "  a  [7, 2, 3]    axis 0 is 7\n"
                    "  b  [4, 3, 5]    axis 0 is 4\n"
                    "  broadcasting repeats axes of extent 1 only");
  CHECK_THROWS_WITH(matmul(Tensor<float>({3}), Tensor<float>({3}), {.transpose_a = true}),
                    "matmul: a [3] and b [3]: an operand must have at least 1 axis, and 2 to be transposed");
  CHECK_THROWS_AS(matmul(Tensor<float>(Shape{}), Tensor<float>({3})), ShapeError);
}

TEST_CASE("matmul: an empty tensor is an error that names the operand") {
  CHECK_THROWS_AS(matmul(Tensor<float>(), Tensor<float>()), Error);
  CHECK_THROWS_WITH(matmul(ones<float>({1, 1}), Tensor<float>()),
                    "matmul: 'b' is an empty tensor: it was made without a shape, or moved from");
  CHECK_THROWS_WITH(Tensor<float>() + ones<float>({1}),
                    "add: 'a' is an empty tensor: it was made without a shape, or moved from");
}
