#include <heddle/ops/rotary.hpp>

#include "harness/agreement.hpp"
#include "harness/golden.hpp"
#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

// Returns rotary as a function of x, with a table as long as the longest sequence.
auto rotated(Index K, const Sequences& sequences, const RotaryOptions& options, double base = 10000) {
  return [=](const auto& in) {
    using T = typename std::remove_cvref_t<decltype(in[0])>::Element;
    const Device device = in[0].device();
    return rotary(in[0], rotary_table<Acc<T>>(sequences.longest(), rotary_frequencies(K, base), device),
                  sequences.to(device), options);
  };
}

}  // namespace

TEST_CASE("rotary_frequencies: powers of the base, in float") {
  CHECK(rotary_frequencies(4) == std::vector<float>{1, 1 / 100.f});
  CHECK(rotary_frequencies(2, 5) == std::vector<float>{1});
  CHECK(rotary_frequencies(512).size() == 256);
  CHECK_THROWS_WITH(rotary_frequencies(3), "rotary_frequencies: K must be even and from 2 to 512, got 3");
  CHECK_THROWS_AS(rotary_frequencies(0), ShapeError);
  CHECK_THROWS_AS(rotary_frequencies(514), ShapeError);
  for (const double base : {0.0, -1.0, quiet_nan<double>, infinity<double>})
    CHECK_THROWS_AS(rotary_frequencies(4, base), Error);
}

TEST_CASE("rotary_table: cosines, then sines, of angles in float") {
  const Tensor<double> table = rotary_table<double>(3, {1, 0.1f});
  REQUIRE(table.shape() == Shape({3, 4}));
  const double angle = static_cast<double>(2 * 0.1f);
  const std::vector<double> last = {std::cos(2.0), std::cos(angle), std::sin(2.0), std::sin(angle)};
  const std::vector<double> values = table.host();
  CHECK(std::vector<double>(values.begin(), values.begin() + 4) == std::vector<double>{1, 1, 0, 0});
  CHECK(std::vector<double>(values.begin() + 8, values.end()) == last);
  CHECK(rotary_table<float>(0, {1}).shape() == Shape({0, 2}));
  CHECK(rotary_table<float>(1, {1}).host() == std::vector<float>{1, 0});
  CHECK_THROWS_AS(rotary_table<float>(-1, {1}), ShapeError);
  CHECK_THROWS_WITH(rotary_table<float>(1, {}), "rotary_table: the number of frequencies must be from 1 to 256, got 0");
  CHECK_THROWS_AS(rotary_table<float>(1, std::vector<float>(257, 1)), ShapeError);
}

TEST_CASE("rotary_table: every device has the same angles up to position 8191") {
  on_each_device<float>([](Device device) {
    for (const double base : {10000.0, 160000.0}) {
      const Tensor<double> exact = rotary_table<double>(8192, rotary_frequencies(64, base));
      const Tensor<float> found = rotary_table<float>(8192, rotary_frequencies(64, base), device);
      const std::vector<double> values = exact.host();
      expect_close(joined(found.host()), values, part_of_largest(2.5e-7, values));
    }
  });
}

TEST_CASE("rotary: worked by hand") {
  // One head of two pairs; a quarter of a turn for each position, and half of one.
  const auto quarter = static_cast<float>(std::acos(0.0));
  const Tensor<double> table = rotary_table<double>(2, {quarter, 2 * quarter});
  const Tensor<double> x({2, 8}, {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8});
  const auto y = rotary(x, table, Sequences::packed({2}), {.heads = 2, .rotated = 1}).host();
  const std::vector<double> expected = {1, 2, 3, 4, 5, 6, 7, 8, -3, -2, 1, -4, 5, 6, 7, 8};
  expect_close(y, expected, part_of_largest(1e-7, expected));
}

TEST_CASE("rotary: values and gradients are PyTorch's") {
  const auto lengths_of = [](const Case& c) -> std::vector<int> {
    return c.label == "one_pair" ? std::vector<int>{5}
           : c.label == "packed" ? std::vector<int>{1, 7, 0, 4}
           : c.label == "far"    ? std::vector<int>{33}
                                 : std::vector<int>{2, 40};
  };
  for (const Case& c : golden("rotary")) {
    INFO(c.label);
    const auto heads = static_cast<Index>(c.option("heads")), K = static_cast<Index>(c.option("width"));
    const auto f =
        rotated(K, Sequences::packed(lengths_of(c)), {.heads = 3 * heads, .rotated = 2 * heads}, c.option("base"));
    expect_case<double>(c, {"x"}, f, 1e-7);  // PyTorch's powers in float differ in the last bit
    expect_case<float>(c, {"x"}, f, 1e-6);
    expect_case<bf16>(c, {"x"}, f, 0x1p-8);
  }
}

TEST_CASE("rotary: gradients match finite differences") {
  for (const Index half : {1, 15, 16, 17, 128})
    expect_gradients(rotated(2 * half, Sequences::packed({3, 0, 2}), {.heads = 3, .rotated = 2}),
                     {random({5, 6 * half}, 1)}, 1e-6);
  expect_gradients(rotated(4, Sequences::padded({2, 3}, 4), {.heads = 2, .rotated = 2}), {random({2, 4, 8}, 1)}, 1e-6);
  expect_gradients(rotated(4, Sequences::packed({}), {.heads = 2, .rotated = 1}), {random({0, 8}, 1)});
}

TEST_CASE("rotary: float and bf16 agree with double on every device") {
  for (const Index K : {2, 62, 64, 130})
    for (const Index rotated_heads : {0, 2, 3}) {
      const auto f = rotated(K, Sequences::packed({31, 1, 0, 257}), {.heads = 3, .rotated = rotated_heads});
      const Inputs in{random<bf16>({289, 3 * K}, 1)};
      expect_agrees<float>(f, in, gpu_function_errors);
      expect_agrees<bf16>(f, in, gpu_function_errors);
    }
}

TEST_CASE("rotary: scores of queries and keys depend on their distance only") {
  const Tensor<double> table = rotary_table<double>(50, rotary_frequencies(8));
  const std::vector<double> query = random({8}, 1).host(), key = random({8}, 2).host();
  const auto score = [&](Index q, Index k) {
    Tensor<double> x = zeros<double>({50, 8});
    std::copy(query.begin(), query.end(), x.data() + q * 8);
    const auto turned = [&](const Tensor<double>& rows, Index at) {
      const auto all = rotary(rows, table, Sequences::packed({50}), {}).host();
      return std::vector<double>(all.begin() + at * 8, all.begin() + at * 8 + 8);
    };
    const auto a = turned(x, q);
    Tensor<double> other = zeros<double>({50, 8});
    std::copy(key.begin(), key.end(), other.data() + k * 8);
    const auto b = turned(other, k);
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  };
  CHECK(score(3, 10) == Approx(score(40, 47)).epsilon(1e-5));
  CHECK(score(10, 3) != Approx(score(3, 10)).epsilon(1e-3));
}

TEST_CASE("rotary: rows outside all sequences have position 0") {
  const Tensor<double> table = rotary_table<double>(2, {0.5f});
  const Tensor<double> x({1, 3, 2}, {1, 2, 3, 4, 5, 6});
  const auto y = rotary(x, table, Sequences::padded({2}, 3), {}).host();
  CHECK(std::vector<double>(y.begin() + 4, y.end()) == std::vector<double>{5, 6});
  CHECK(y[2] == Approx(3 * std::cos(0.5) - 4 * std::sin(0.5)));
}

TEST_CASE("rotary: refuses what does not fit") {
  const Tensor<float> table = rotary_table<float>(4, {1, 0.5f}), x({3, 8});
  const Sequences three = Sequences::packed({3});
  CHECK_THROWS_WITH(rotary(x, table, three, {.heads = 3, .rotated = 1}),
                    "rotary: x [3, 8] must have columns for 3 heads of 4");
  CHECK_THROWS_WITH(rotary(x, table, three, {.heads = 2, .rotated = 3}),
                    "rotary: heads must be at least 1 and rotated from 0 to heads, got 2 and 3");
  CHECK_THROWS_WITH(rotary(Tensor<float>({5, 8}), table, Sequences::packed({5}), {.heads = 2, .rotated = 1}),
                    "rotary: a sequence of 5 tokens is longer than the table's 4 positions");
  CHECK_THROWS_AS(rotary(x, table, Sequences::packed({4}), {.heads = 2, .rotated = 1}), ShapeError);
  CHECK_THROWS_AS(rotary(x, Tensor<float>({4}), three, {.heads = 2, .rotated = 1}), ShapeError);
  CHECK_THROWS_AS(rotary(x, Tensor<float>({4, 3}), three, {.heads = 2, .rotated = 1}), ShapeError);
  CHECK_THROWS_AS(rotary(Tensor<float>({3, 0}), Tensor<float>({4, 0}), three, {.heads = 2, .rotated = 1}), ShapeError);
}
