#include <heddle/core/create.hpp>
#include <heddle/ops/arithmetic.hpp>
#include <heddle/ops/embed.hpp>
#include <heddle/ops/reduce.hpp>

#include "harness/golden.hpp"
#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

TEST_CASE("embed, take_rows: values and gradients are PyTorch's") {
  expect_golden("embed", {"table"}, [](const Case& c, const auto& x) {
    return embed(Tensor<int>(c["ids"].shape, c["ids"].as<int>()).to(x[0].device()), x[0]);
  });
  expect_golden("take_rows", {"x"}, [](const Case& c, const auto& x) {
    return take_rows(x[0], Tensor<std::int64_t>(c["ids"].shape, c["ids"].as<std::int64_t>()).to(x[0].device()));
  });
}

TEST_CASE("take_rows: moves elements of any type") {
  const Tensor<int> rows({3}, {2, 0, 2});
  CHECK(take_rows(Tensor<int>({3, 2}, {1, 2, 3, 4, 5, 6}), rows).host() == std::vector<int>{5, 6, 1, 2, 5, 6});
  CHECK(take_rows(Tensor<bool>({3}, {true, false, false}), rows).host() == std::vector<bool>{false, true, false});
  CHECK(take_rows(Tensor<Index>({3, 1, 2}, {1, 2, 3, 4, 5, 6}), rows).shape() == Shape{3, 1, 2});
  CHECK(embed(Tensor<int>({2, 0}), Tensor<float>({5, 4})).shape() == Shape{2, 0, 4});
}

TEST_CASE("embed: gradients of repeated ids are summed in float, in order, on any number of threads") {
  Random random(1);
  const Index V = 31, N = 4000, D = 33;
  Tensor<int> ids({N});
  for (Index n = 0; n < N; ++n) ids.data()[n] = n % 3 ? 7 : static_cast<int>(random.next() % 20);
  const auto table = variable(zeros<float>({V, D}));
  const Tensor<float> dy = randn<float>({N, D}, random);
  std::vector<float> expected(static_cast<std::size_t>(V * D), 0.f);
  for (Index n = 0; n < N; ++n)
    for (Index d = 0; d < D; ++d)
      expected[static_cast<std::size_t>(std::as_const(ids).data()[n] * D + d)] += std::as_const(dy).data()[n * D + d];
  const int before = threads();
  for (const int count : {1, 3}) {
    set_threads(count);
    table.set_grad({});
    backward(embed(ids, table), dy);
    CHECK(table.grad().host() == expected);
  }
  set_threads(before);

  const auto small = variable(Tensor<bf16>({2, 1}, {bf16(0.f), bf16(0.f)}));
  const auto y = embed(zeros<int>({1000}), small);
  backward(y, full<bf16>(y.shape(), 1.f));
  CHECK(static_cast<float>(small.grad().host()[0]) == 1000.f);  // a sum in bf16 would stop at 256
}

TEST_CASE("embed: gradient matches finite differences") {
  const Tensor<int> ids({2, 3}, {4, 0, 4, 1, 1, 4});
  expect_gradients([&](const auto& in) { return embed(ids.to(in[0].device()), in[0]); }, {random({5, 3}, 1)});
  expect_gradients([&](const auto& in) { return take_rows(in[0], ids.with_shape({6}).to(in[0].device())); },
                   {random({5, 2, 2}, 1)});
}

TEST_CASE("embed, take_rows: errors name value, position and limit") {
  Tensor<int> ids = zeros<int>({4, 5});
  ids.data()[17] = 30522;
  const auto table = zeros<float>({28996, 2});
  CHECK_THROWS_WITH(embed(ids, table), "embed: id 30522 at position 17 is outside the table's 28996 rows");
  ids.data()[17] = -1;
  CHECK_THROWS_AS(embed(ids, table), IndexError);
  CHECK_THROWS_WITH(embed(ids, zeros<float>({3})), "embed: table [3] must have 2 axes");
  CHECK_THROWS_WITH(take_rows(zeros<float>({5, 3}), Tensor<Index>({3}, {0, 1, 5})),
                    "take_rows: row 5 at position 2 is outside the 5 rows of x");
  CHECK_THROWS_AS(take_rows(zeros<float>({5, 3}), ids), ShapeError);
}

TEST_CASE("embed: gradients by rows add up, with each other and with dense ones") {
  const auto table = variable(Tensor<double>({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}));
  const Tensor<int> ids({3}, {3, 1, 3});
  const auto loss = [&] { return sum(embed(ids, table)); };
  backward(loss());
  const RowGradient<double> once = detail::sparse_grad(table);
  CHECK(once.rows.host() == std::vector<Index>{1, 3});
  CHECK(once.values.host() == std::vector<double>{1, 1, 2, 2});
  backward(loss());
  CHECK(table.grad().host() == std::vector<double>{0, 0, 2, 2, 0, 0, 4, 4});
  table.set_grad({});
  CHECK_FALSE(table.grad());
  backward(loss() + sum(table));
  CHECK(table.grad().host() == std::vector<double>{1, 1, 2, 2, 1, 1, 3, 3});
  CHECK(grad(loss(), {table})[0].host() == std::vector<double>{0, 0, 1, 1, 0, 0, 2, 2});
  CHECK(table.grad().host()[0] == 1);
  table.set_grad({});
  backward(sum(embed(ids, table * table)));  // of a result, not of a variable
  CHECK(table.grad().host() == std::vector<double>{0, 0, 6, 8, 0, 0, 28, 32});
}
