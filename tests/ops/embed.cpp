#include <heddle/heddle.hpp>

#include "harness/agreement.hpp"
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
  on_each_device<int>([](Device device) {
    const auto rows = Tensor<int>({3}, {2, 0, 2}).to(device);
    const auto x = Tensor<int>({3, 2}, {1, 2, 3, 4, 5, 6}).to(device);
    CHECK(take_rows(x, rows).host() == std::vector<int>{5, 6, 1, 2, 5, 6});
    const auto flags = Tensor<bool>({3}, {true, false, false}).to(device);
    CHECK(take_rows(flags, rows).host() == std::vector<bool>{false, true, false});
    const auto wide = Tensor<Index>({3, 1, 2}, {1, 2, 3, 4, 5, 6}).to(device);
    CHECK(take_rows(wide, rows).host() == std::vector<Index>{5, 6, 1, 2, 5, 6});
    CHECK(take_rows(wide, rows).shape() == Shape{3, 1, 2});
    CHECK(embed(Tensor<int>({2, 0}, device), Tensor<float>({5, 4}, device)).shape() == Shape{2, 0, 4});
  });
}

TEST_CASE("embed: gradients of repeated ids are summed in float, in parts of 64, in order, on any number of threads") {
  Random random(1);
  const Index V = 31, N = 4000, D = 33;
  Tensor<int> ids({N});
  for (Index n = 0; n < N; ++n) ids.data()[n] = n % 3 ? 7 : static_cast<int>(random.next() % 20);
  const auto table = variable(zeros<float>({V, D}));
  const Tensor<float> dy = randn<float>({N, D}, random);
  std::vector<float> expected(static_cast<std::size_t>(V * D), 0.f), parts = expected;
  const auto place = [&](Index id, Index d) { return static_cast<std::size_t>(id * D + d); };
  const auto add_part = [&](Index id, Index d) { expected[place(id, d)] += std::exchange(parts[place(id, d)], 0.f); };
  std::vector<int> rows_of(static_cast<std::size_t>(V), 0);
  for (Index n = 0; n < N; ++n) {
    const int id = std::as_const(ids).data()[n];
    const bool is_full = ++rows_of[static_cast<std::size_t>(id)] % 64 == 0;
    for (Index d = 0; d < D; ++d) {
      parts[place(id, d)] += std::as_const(dy).data()[n * D + d];
      if (is_full) add_part(id, d);
    }
  }
  for (Index id = 0; id < V; ++id)
    for (Index d = 0; d < D; ++d) add_part(id, d);
  const int before = threads();
  for (const int count : {1, 3}) {
    set_threads(count);
    table.set_grad({});
    backward(embed(ids, table), dy);
    CHECK(table.grad().host() == expected);
  }
  set_threads(before);

  on_each_device<bf16>([](Device device) {
    const auto small = variable(zeros<bf16>({2, 1}, device));
    const auto y = embed(zeros<int>({1000}, device), small);
    backward(y, ones<bf16>(y.shape(), device));
    CHECK(static_cast<float>(small.grad().host()[0]) == 1000.f);  // a sum in bf16 would stop at 256
  });
}

TEST_CASE("embed: gradient matches finite differences") {
  const Tensor<int> ids({2, 3}, {4, 0, 4, 1, 1, 4});
  expect_gradients([&](const auto& in) { return embed(ids.to(in[0].device()), in[0]); }, {random({5, 3}, 1)});
  expect_gradients([&](const auto& in) { return take_rows(in[0], ids.with_shape({6}).to(in[0].device())); },
                   {random({5, 2, 2}, 1)});
}

TEST_CASE("embed, take_rows: as near to double as plain float, for ids of either type") {
  const Tensor<Index> ids({2, 5}, {3, 0, 3, 6, 1, 3, 2, 2, 0, 3});
  const auto embedded = [&](const auto& in) { return embed(ids.to(in[0].device()), in[0]); };
  expect_agrees<float>(embedded, {random<float>({7, 5}, 1)});
  expect_agrees<bf16>(embedded, {random<bf16>({7, 8}, 1)});
  const Tensor<int> rows({3}, {4, 4, 1});
  expect_agrees<float>([&](const auto& in) { return take_rows(in[0], rows.to(in[0].device())); },
                       {random<float>({5, 2, 3}, 2)});
}

TEST_CASE("embed: infinity and NaN in a gradient stay in their row") {
  const float inf = infinity<float>;
  on_each_device<float>([&](Device device) {
    const auto table = variable(zeros<float>({5, 1}, device));
    backward(embed(Tensor<int>({6}, {1, 0, 1, 2, 2, 3}).to(device), table),
             Tensor<float>({6, 1}, {inf, 1, 2, inf, -inf, quiet_nan<float>}).to(device));
    const auto gradient = table.grad().host();
    CHECK(gradient[0] == 1);
    CHECK(gradient[1] == inf);
    CHECK(std::isnan(gradient[2]));
    CHECK(std::isnan(gradient[3]));
    CHECK(gradient[4] == 0);
  });
}

TEST_CASE("embed, take_rows: errors name value, position and limit") {
  Tensor<int> ids = zeros<int>({4, 5});
  ids.data()[17] = 30522;
  on_each_device<float>([&](Device device) {
    const auto table = zeros<float>({28996, 2}, device), x = zeros<float>({5, 3}, device);
    const auto wrong_row = Tensor<Index>({3}, {0, 1, 5});
    for (const Device of_ids : {Device::cpu, device}) {
      CHECK_THROWS_WITH((embed(ids.to(of_ids), table), synchronize()),
                        "embed: id 30522 at position 17 is outside the table's 28996 rows");
      CHECK_THROWS_WITH((take_rows(x, wrong_row.to(of_ids)), synchronize()),
                        "take_rows: row 5 at position 2 is outside the 5 rows of x");
      CHECK_THROWS_WITH((take_rows(x, full<int>({1}, -1, of_ids)), synchronize()),
                        "take_rows: row -1 at position 0 is outside the 5 rows of x");
      CHECK_THROWS_AS((embed(full<int>({4, 5}, -1, of_ids), table), synchronize()), IndexError);
    }
    CHECK_THROWS_WITH(embed(zeros<int>({4, 5}, device), zeros<float>({3}, device)),
                      "embed: table [3] must have 2 axes");
    CHECK_THROWS_AS(take_rows(x, zeros<int>({4, 5}, device)), ShapeError);
  });
}

TEST_CASE("embed, take_rows: ids on the host select rows on any device") {
  on_each_device<float>([](Device device) {
    const auto table = Tensor<float>({5, 1}, {0, 1, 2, 3, 4}).to(device);
    CHECK(embed(Tensor<int>({2}, {1, 4}), table).host() == std::vector<float>{1, 4});
    CHECK(take_rows(table, Tensor<int>({2}, {1, 4})).host() == std::vector<float>{1, 4});
  });
}

TEST_CASE("embed: sparse gradients add up, with each other and with dense ones") {
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
  backward(sum(embed(ids, table * table)));  // the table is a result, not a variable
  CHECK(table.grad().host() == std::vector<double>{0, 0, 6, 8, 0, 0, 28, 32});
}

TEST_CASE("embed: the row of padding_id has no gradient") {
  const auto check = []<class T>(T) {
    on_each_device<T>([](Device device) {
      const Tensor<T> table = variable(converted<T>(random({5, 3}, 1), device));
      const Tensor<int> ids({2, 2}, {4, 2, 2, 0});
      for (const bool is_on_host : {true, false}) {
        table.set_grad({});
        const Tensor<T> y = embed(is_on_host ? ids : ids.to(device), table, 2);
        CHECK(y.host() == embed(ids, table).host());
        backward(sum(y));
        CHECK(joined(table.grad().host()) == std::vector<double>{1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1});
      }
      CHECK_THROWS_WITH(embed(ids, table, 5), "embed: padding_id 5 is outside the table's 5 rows");
      CHECK_THROWS_AS(embed(ids, table, -1), IndexError);
    });
  };
  check(float());
  check(bf16());
  check(double());
}

TEST_CASE("Embedding: the row of padding_id begins as zeros and is not trained; a copy keeps it") {
  Random random(1);
  nn::Embedding<double> words(4, 3, random, {.padding_id = 1});
  const nn::Embedding<double> copy = clone(words);
  CHECK(copy.padding_id == Index{1});
  optim::Sgd sgd(words, {.lr = 1});
  const Tensor<double> rows = words(Tensor<int>({3}, {1, 2, 1})) + 1.0;
  backward(sum(rows * rows));
  sgd.step();
  const auto before = copy.weight.host(), after = words.weight.host();
  for (std::size_t i = 0; i < 12; ++i) {
    if (i / 3 == 1) CHECK(before[i] == 0);
    CHECK((after[i] == before[i]) == (i / 3 != 2));
  }
  CHECK_THROWS_WITH(nn::Embedding<>(4, 3, random, {.padding_id = 4}),
                    "Embedding: padding_id 4 is outside the table's 4 rows");
}
