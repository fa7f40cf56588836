#include <heddle/core/create.hpp>
#include <heddle/ops/arithmetic.hpp>
#include <heddle/ops/cast.hpp>
#include <heddle/ops/embed.hpp>
#include <heddle/ops/linear.hpp>
#include <heddle/ops/map.hpp>
#include <heddle/ops/rows.hpp>

#include "harness/golden.hpp"
#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {
Sequences packed(const Case& c) { return Sequences::packed(c["length"].as<int>()); }
}  // namespace

TEST_CASE("pack, unpack, first_rows, mean_rows: values and gradients are PyTorch's") {
  expect_golden("pack", {"x"}, [](const Case& c, const auto& x) { return pack(x[0], packed(c).to(x[0].device())); });
  expect_golden("unpack", {"x"},
                [](const Case& c, const auto& x) { return unpack(x[0], packed(c).to(x[0].device())); });
  expect_golden("first_rows", {"x"},
                [](const Case& c, const auto& x) { return first_rows(x[0], packed(c).to(x[0].device())); });
  expect_golden("mean_rows", {"x"},
                [](const Case& c, const auto& x) { return mean_rows(x[0], packed(c).to(x[0].device())); });
}

TEST_CASE("pack: takes the rows of a padded batch from the positions that its sequences give") {
  on_each_device<int>([](Device device) {
    const auto x = Tensor<int>({2, 3}, {1, 2, 3, 4, 5, 6}).to(device);
    CHECK(pack(x, Sequences::packed({2, 1}).to(device)).host() == std::vector<int>{1, 2, 4});
    CHECK(pack(x, Sequences::padded({2, 1}, 3).to(device)).host() == std::vector<int>{1, 2, 4});
    const auto left = Sequences::from_mask(Tensor<int>({2, 3}, {0, 1, 1, 0, 0, 1})).to(device);
    CHECK(pack(x, left).host() == std::vector<int>{2, 3, 6});
  });
}

TEST_CASE("unpack: pads with zeros to the longest sequence, or to the padded length of the sequences") {
  on_each_device<float>([](Device device) {
    const auto rows = Tensor<float>({3, 1}, {1, 2, 3}).to(device);
    const auto s = Sequences::packed({1, 0, 2}).to(device);
    const auto x = unpack(rows, s);
    CHECK(x.shape() == Shape{3, 2, 1});
    CHECK(x.host() == std::vector<float>{1, 0, 0, 0, 2, 3});
    CHECK(pack(x, s).host() == rows.host());
    const auto numbers = Tensor<int>({6}, {1, 2, 9, 4, 9, 9}).to(device);
    CHECK(unpack(numbers, Sequences::padded({2, 1}, 3).to(device)).host() == std::vector<int>{1, 2, 0, 4, 0, 0});
  });
}

TEST_CASE("first_rows, mean_rows: a sequence without rows gives zeros") {
  const auto check = []<class T>(T) {
    on_each_device<T>([](Device device) {
      const auto s = Sequences::packed({0, 2}).to(device), none = Sequences::packed({0, 0}).to(device);
      const auto x = Tensor<T>({2, 2}, {1, 2, 3, 4}).to(device);
      CHECK(first_rows(x, s).host() == std::vector<T>{0, 0, 1, 2});
      CHECK(mean_rows(x, s).host() == std::vector<T>{0, 0, 2, 3});
      const Tensor<T> empty({0, 3}, device);
      CHECK(first_rows(empty, none).host() == std::vector<T>(6, 0));
      CHECK(mean_rows(empty, none).host() == std::vector<T>(6, 0));
      CHECK(unpack(empty, none).shape() == Shape{2, 0, 3});
      CHECK(pack(Tensor<T>({2, 4, 3}, device), none).shape() == Shape{0, 3});
    });
  };
  check(double());
  check(float());
}

TEST_CASE("sums of many rows: rounding errors hardly grow with their number") {
  constexpr Index N = 8192, D = 5;
  const Tensor<double> exact = exp(random({N, D}, 1));
  const Sequences sequences = Sequences::packed({N});
  const auto sums = [&]<class T>(const Tensor<T>& x) {
    const Device device = x.device();
    const Tensor<T> embedding = variable(zeros<T>({1, D}, device)), bias = variable(zeros<T>({D}, device));
    backward(take_rows(embedding, zeros<int>({N}, device)), x);  // all rows take the same row
    backward(linear(x, zeros<T>({D, D}, device), bias), x);
    return std::vector{joined(sum_rows(x, sequences.to(device)).host()), joined(embedding.grad().host()),
                       joined(bias.grad().host())};
  };
  const auto expected = sums(exact);
  on_each_device<float>([&](Device device) {
    const auto found = sums(cast<float>(exact).to(device));
    for (std::size_t i = 0; i < found.size(); ++i)
      expect_close(found[i], expected[i], [](double value) { return 5e-7 * value; });
  });
}

TEST_CASE("rows: gradients match finite differences") {
  const auto s = Sequences::packed({2, 0, 3}), padded = Sequences::padded({2, 0, 3}, 4);
  const auto left = Sequences::from_mask(Tensor<int>({2, 3}, {0, 1, 1, 0, 0, 1}));
  for (const auto& sequences : {s, padded, left}) {
    const Shape shape{sequences.rows(), 2};
    expect_gradients([&](const auto& in) { return unpack(in[0], sequences.to(in[0].device())); }, {random(shape, 1)});
    expect_gradients([&](const auto& in) { return first_rows(in[0], sequences.to(in[0].device())); },
                     {random(shape, 1)});
    expect_gradients([&](const auto& in) { return mean_rows(in[0], sequences.to(in[0].device())); },
                     {random(shape, 1)});
  }
  expect_gradients([&](const auto& in) { return pack(in[0], s.to(in[0].device())); }, {random({3, 4, 2}, 1)});
  expect_gradients([&](const auto& in) { return pack(in[0], padded.to(in[0].device())); }, {random({3, 4, 2}, 1)});
  expect_gradients([&](const auto& in) { return pack(in[0], left.to(in[0].device())); }, {random({2, 3, 2}, 1)});
}

TEST_CASE("rows: errors name shapes and counts") {
  const auto s = Sequences::packed({2, 3});
  CHECK_THROWS_WITH(pack(Tensor<float>({3, 4, 2}), s), "pack: x [3, 4, 2] must be [2, T, ...] for 2 sequences");
  CHECK_THROWS_WITH(pack(Tensor<float>({2, 2, 2}), s), "pack: x [2, 2, 2] must have at least 3 positions on axis 1");
  CHECK_THROWS_WITH(pack(Tensor<float>({2, 5}), Sequences::padded({2, 3}, 4)),
                    "pack: x [2, 5] must have 4 positions on axis 1");
  CHECK_THROWS_WITH(unpack(Tensor<float>({4, 2}), s),
                    "unpack: rows [4, 2] must have one row for each of the 5 rows of its 2 sequences");
  CHECK_THROWS_AS(first_rows(Tensor<float>({4, 2}), s), ShapeError);
  CHECK_THROWS_AS(mean_rows(Tensor<float>({5}), s), ShapeError);
}

TEST_CASE("last_rows, sum_rows, max_rows: worked by hand; a sequence without rows gives zeros") {
  const auto check = []<class T>(T) {
    on_each_device<T>([](Device device) {
      const auto x = converted<T>(Tensor<double>({3, 2}, {-1, 7, 4, -6, -8, -9}), device);
      for (const Sequences& on_host : {Sequences::packed({2, 0, 1}), Sequences::packed({0, 3, 0})}) {
        const Sequences s = on_host.to(device);
        const bool two = s.lengths()[0] == 2;
        using Numbers = std::vector<double>;
        CHECK(joined(last_rows(x, s).host()) == (two ? Numbers{4, -6, 0, 0, -8, -9} : Numbers{0, 0, -8, -9, 0, 0}));
        CHECK(joined(sum_rows(x, s).host()) == (two ? Numbers{3, 1, 0, 0, -8, -9} : Numbers{0, 0, -5, -8, 0, 0}));
        CHECK(joined(max_rows(x, s).host()) == (two ? Numbers{4, 7, 0, 0, -8, -9} : Numbers{0, 0, 4, 7, 0, 0}));
      }
      const auto none = Sequences::packed({0, 0}).to(device);
      const Tensor<T> empty({0, 3}, device);
      CHECK(joined(last_rows(empty, none).host()) == std::vector<double>(6, 0));
      CHECK(joined(sum_rows(empty, none).host()) == std::vector<double>(6, 0));
      CHECK(joined(max_rows(empty, none).host()) == std::vector<double>(6, 0));
    });
  };
  check(float());
  check(double());
  check(bf16());
  const auto s = Sequences::packed({2});
  CHECK_THROWS_WITH(max_rows(zeros<float>({3, 1}), s),
                    ContainsSubstring("max_rows: x [3, 1] must have one row for each"));
  CHECK_THROWS_AS(sum_rows(zeros<float>({2, 1, 1}), s), ShapeError);
}

TEST_CASE("last_rows, sum_rows, max_rows: gradients match finite differences; padded batches give the packed values") {
  for (const auto& lengths : {std::vector<int>{1}, {31, 0, 2}, {33, 1}, {0}}) {
    const auto s = Sequences::packed(lengths), padded = Sequences::padded(lengths, 40);
    const auto pool = [](const auto& x, const Sequences& all) {
      const Sequences here = all.to(x.device());
      return last_rows(x, here) + sum_rows(x, here) * max_rows(x, here);
    };
    expect_gradients([&](const auto& in) { return pool(in[0], s); }, {random({s.rows(), 3}, 1)}, 1e-6);
    const auto batch = random({padded.count(), 40, 2}, 2);
    CHECK(pool(batch, padded).host() == pool(pack(batch, padded), s).host());
  }
}
