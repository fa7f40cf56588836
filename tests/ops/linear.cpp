#include <heddle/core/create.hpp>
#include <heddle/ops/arithmetic.hpp>
#include <heddle/ops/cast.hpp>
#include <heddle/ops/linear.hpp>
#include <heddle/ops/linear_gelu.hpp>
#include <heddle/ops/matmul.hpp>
#include <heddle/ops/reduce.hpp>
#include <heddle/ops/slice.hpp>

#include "harness/agreement.hpp"
#include "harness/golden.hpp"
#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

TEST_CASE("linear: worked by hand") {
  on_each_device<float>([](Device device) {
    const auto x = Tensor<float>({2, 2}, {1, 2, 3, 4}).to(device),
               weight = Tensor<float>({3, 2}, {1, 0, 0, 1, 1, 1}).to(device),
               bias = Tensor<float>({3}, {10, 20, 30}).to(device);
    CHECK(linear(x, weight, bias).host() == std::vector<float>{11, 22, 33, 13, 24, 37});
    CHECK(linear(x, weight).host() == std::vector<float>{1, 2, 3, 3, 4, 7});
  });
}

TEST_CASE("linear: values and gradients are PyTorch's") {
  expect_golden(
      "linear", {"x", "weight", "bias"}, [](const Case&, const auto& in) { return linear(in[0], in[1], in[2]); }, 32);
}

TEST_CASE("linear: gradient matches finite differences") {
  for (const Index rows : {0, 1, 3, 33})
    expect_gradients([](const auto& in) { return linear(in[0], in[1], in[2]); },
                     {random({rows, 5}, 1), random({4, 5}, 2), random({4}, 3)});
  expect_gradients([](const auto& in) { return linear(in[0], in[1]); }, {random({2, 3, 5}, 1), random({4, 5}, 2)});
}

TEST_CASE("linear: values and gradients are the same on every device") {
  const auto with_bias = [](const auto& in) { return linear(in[0], in[1], in[2]); };
  for (const Index N : {1, 5, 33}) {
    expect_agrees<float>(with_bias, {random<float>({N, 7}, 1), random<float>({9, 7}, 2), random<float>({9}, 3)});
    expect_agrees_with_cpu<bf16>(with_bias, {random<bf16>({N, 7}, 1), random<bf16>({9, 7}, 2), random<bf16>({9}, 3)},
                                 2);
  }
}

TEMPLATE_TEST_CASE("linear_parts: results and gradients are those of linear maps with slices of the weight", "", double,
                   float, bf16) {
  using T = TestType;
  on_each_device<T>([](Device device) {
    for (const auto& count : {std::pair{1, 1}, {3, 33}, {0, 5}, {2, 0}})
      for (const Index rows : {1, 8, 15})
        for (const bool has_bias : {true, false}) {
          const Index B = count.first, N = count.second;
          CAPTURE(B, N, rows, has_bias);
          const auto evaluate = [&](auto f) {
            const auto operand = [&](Shape shape, std::uint64_t seed) {
              return variable(converted<T>(random<T>(shape, seed), device));
            };
            const Tensor<T> x = operand({B, 24}, 1), z = operand({N, 24}, 2), weight = operand({16, 24}, 3),
                            bias = has_bias ? operand({16}, 4) : Tensor<T>();
            const auto [of_x, of_z] = f(x, z, weight, bias, rows);
            backward(sum(of_x * of_x) + sum(of_z * of_z));
            std::vector<std::vector<double>> found{joined(of_x.host()), joined(of_z.host())};
            for (const Tensor<T>& each : {x, z, weight}) found.push_back(joined(each.grad().host()));
            if (has_bias) found.push_back(joined(bias.grad().host()));
            return found;
          };
          const auto found = evaluate([](const auto& x, const auto& z, const auto& weight, const auto& bias,
                                         Index first) { return detail::linear_parts(x, z, weight, bias, first); });
          const auto expected =
              evaluate([](const auto& x, const auto& z, const auto& weight, const auto& bias, Index first) {
                const auto part = [&](const auto& of, Index begin, Index end) {
                  return linear(of, slice(weight, 0, begin, end), bias ? slice(bias, 0, begin, end) : bias);
                };
                return std::pair(part(x, 0, first), part(z, first, 16));
              });
          // On a GPU, the sums for dbias may have another order if the part begins at another alignment.
          const double error = device == Device::cpu ? 0 : std::is_same_v<T, bf16> ? 0.01 : 1e-6;
          for (std::size_t i = 0; i < expected.size(); ++i) {
            REQUIRE(found[i].size() == expected[i].size());
            for (std::size_t e = 0; e < expected[i].size(); ++e)
              REQUIRE(std::abs(found[i][e] - expected[i][e]) <= error * (1 + std::abs(expected[i][e])));
          }
        }
  });
}

TEST_CASE("linear_parts: a weight that requires no gradient, and one that alone requires one") {
  const Tensor<double> x = random({2, 3}, 1), z = random({5, 3}, 2), weight = random({4, 3}, 3), bias = random({4}, 4);
  const auto run = [&](const auto& in) {
    const auto [of_x, of_z] = detail::linear_parts(in[0], in[1], in[2], in[3], 1);
    return sum(of_x * of_x) + sum(of_z * of_z);
  };
  for (int alone = 0; alone < 4; ++alone) {
    std::vector<Tensor<double>> in{x, z, weight, bias}, all = in;
    in[static_cast<std::size_t>(alone)] = variable(in[static_cast<std::size_t>(alone)]);
    for (Tensor<double>& each : all) each = variable(each);
    backward(run(in));
    backward(run(all));
    for (int i = 0; i < 4; ++i) {
      if (i == alone)
        CHECK(in[static_cast<std::size_t>(i)].grad().host() == all[static_cast<std::size_t>(i)].grad().host());
    }
  }
}

TEST_CASE("linear: names the axis that disagrees") {
  const auto call = [] { return linear(Tensor<float>({32, 128, 256}), Tensor<float>({512, 384})); };
  CHECK_THROWS_WITH(call(),
                    "linear: 'in' disagrees between x and weight\n"
                    "  x       [32, 128, 256]    axis 2 is 256\n"
                    "  weight  [512, 384]        axis 1 is 384");
  CHECK_THROWS_AS(call(), ShapeError);
}

TEST_CASE("linear: bf16 rounds once, after a sum in float") {
  on_each_device<bf16>([](Device device) {
    const auto x = ones<bf16>({1, 257}, device);
    auto weight = ones<bf16>({1, 257});
    CHECK(static_cast<float>(linear(x, weight.to(device)).item()) ==
          256.f);  // 257 is a tie in bf16 and goes to even; a bf16 sum stops at 256 too
    weight.data()[0] = bf16(3.f);
    CHECK(static_cast<float>(linear(x, weight.to(device)).item()) == 260.f);
  });
}

// The weight is large enough for SkinnyLhs and PanelLhs; the numbers of rows are on either side of their limits.
TEST_CASE("linear: few rows and a large weight") {
  const Index in = 515, out = 521;
  const Tensor<double> weight = random({out, in}, 2), bias = random({out}, 3);
  for (const Index rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 21, 24, 25, 31, 32, 33}) {
    CAPTURE(rows);
    const Tensor<double> x = random({rows, in}, 1);
    const auto results = [&]<class T>(T) {
      std::vector<std::vector<T>> all;
      for (const bool with_bias : {false, true})
        all.push_back(linear(cast<T>(x), cast<T>(weight), with_bias ? cast<T>(bias) : Tensor<T>()).host());
      return all;
    };
    const auto expected = results(0.0);
    const auto actual = results(0.f);
    for (std::size_t r = 0; r < expected.size(); ++r)
      for (std::size_t i = 0; i < expected[r].size(); ++i) {
        CAPTURE(r, i);
        REQUIRE(actual[r][i] == Approx(expected[r][i]).margin(1e-4));
      }
  }
}

TEST_CASE("linear: gradients of large weights whose rows are pages apart") {
  // Blocks of these products read their operands from copies where oneDNN is slow without them. 300 rows are summed in
  // two parts.
  for (const auto& [N, out, in] :
       {std::tuple<Index, Index, Index>{300, 200, 1024}, {150, 1024, 130}, {31, 257, 2048}, {0, 130, 1024}}) {
    CAPTURE(N, out, in);
    const auto gradients = [&]<class T>(const Tensor<double>& x0, const Tensor<double>& w0, const Tensor<double>& dy) {
      const Tensor<T> x = variable(cast<T>(x0)), weight = variable(cast<T>(w0));
      backward(linear(x, weight), cast<T>(dy));
      return std::pair{joined(x.grad().host()), joined(weight.grad().host())};
    };
    const Tensor<double> x = random({N, in}, 1), weight = random({out, in}, 2), dy = random({N, out}, 3);
    const auto expected = gradients.operator()<double>(x, weight, dy);
    const auto found = gradients.operator()<float>(x, weight, dy);
    const auto bound_of = [](Index terms) {  // of a sum of products
      return [=](double) { return 1e-5 * std::sqrt(static_cast<double>(terms)); };
    };
    expect_close(found.first, expected.first, bound_of(out));
    expect_close(found.second, expected.second, bound_of(N));
  }
}

// Checks that values and gradients in bf16 differ from those in float by at most one rounding. The sizes are large
// enough for oneDNN's bf16 kernels.
TEST_CASE("linear: bf16 products of any size are those of float, rounded") {
  for (const auto& [N, out, in] : {std::array<Index, 3>{65, 33, 129}, {257, 64, 64}, {31, 257, 100}, {1, 300, 257}}) {
    CAPTURE(N, out, in);
    std::vector<Tensor<bf16>> narrow;
    std::vector<Tensor<float>> wide;
    for (const Shape& shape : {Shape{N, in}, Shape{out, in}, Shape{out}}) {
      narrow.push_back(variable(cast<bf16>(random(shape, narrow.size() + 1))));
      wide.push_back(variable(cast<float>(detach(narrow.back()))));
    }
    const Tensor<bf16> dy = cast<bf16>(random({N, out}, 4));
    const Tensor<bf16> y = linear(narrow[0], narrow[1], narrow[2]);
    const Tensor<float> expected = linear(wide[0], wide[1], wide[2]);
    backward(y, dy);
    backward(expected, cast<float>(dy));
    const auto close = [](const Tensor<bf16>& a, const Tensor<float>& b) {
      const auto actual = cast<float>(a).host(), right = b.host();
      for (std::size_t i = 0; i < right.size(); ++i) {
        CAPTURE(i);
        REQUIRE(actual[i] == Approx(right[i]).epsilon(0.0041).margin(2e-4));  // half a unit in bf16's last place
      }
    };
    close(y, expected);
    for (std::size_t i = 0; i < 3; ++i) close(narrow[i].grad(), wide[i].grad());
  }
}

template <class T>
void threads_change_nothing(Index rows, Index in, Index out) {
  const Tensor<T> x = variable(cast<T>(random({rows, in}, 1))), weight = variable(cast<T>(random({out, in}, 2)));
  const auto run = [&](int count) {
    set_threads(count);
    const Tensor<T> y = linear(x, weight);
    x.set_grad({});
    weight.set_grad({});
    backward(sum(y * y));
    return std::tuple(y.host(), x.grad().host(), weight.grad().host());
  };
  const int before = threads();
  const auto one = run(1);
  for (const int count : {2, 3, 5}) CHECK((run(count) == one));
  set_threads(before);
}

TEST_CASE("linear: its bits do not depend on the number of threads") {
  threads_change_nothing<float>(300, 129, 257);
  threads_change_nothing<float>(21, 515, 521);
  threads_change_nothing<bf16>(300, 129, 257);
}

TEST_CASE("RowwiseProducts: a row has the same bits whatever the other rows are") {
  for (const auto& [columns, depth] : {std::pair<Index, Index>{1, 1}, {5, 3}, {33, 31}, {64, 257}, {200, 600}}) {
    CAPTURE(columns, depth);
    const Tensor<float> x = cast<float>(random({70, depth}, 1)), weight = cast<float>(random({columns, depth}, 2)),
                        bias = cast<float>(random({columns}, 3));
    const std::vector<float> general = linear(x, weight, bias).host();
    const RowwiseProducts rowwise;
    const std::vector<float> all = linear(x, weight, bias).host(), activated = linear_gelu(x, weight, bias).host();
    for (std::size_t i = 0; i < all.size(); ++i) REQUIRE(all[i] == Approx(general[i]).margin(1e-4));
    for (const auto& [first, last] :
         {std::pair<Index, Index>{0, 1}, {0, 5}, {3, 8}, {4, 4}, {29, 31}, {30, 70}, {69, 70}}) {
      CAPTURE(first, last);
      const Tensor<float> rows = slice(x, 0, first, last);
      const auto part_of = [&, begin = first * columns, end = last * columns](const std::vector<float>& values) {
        return std::vector<float>(values.begin() + begin, values.begin() + end);
      };
      CHECK(linear(rows, weight, bias).host() == part_of(all));
      CHECK(linear_gelu(rows, weight, bias).host() == part_of(activated));
    }
  }
}

TEST_CASE("RowwiseProducts: each thread that computes products of a batch computes rows alone") {
  const Tensor<float> x = cast<float>(random({64, 37, 91}, 1)), y = cast<float>(random({64, 45, 91}, 2));
  const auto product = [&] { return matmul(x, y, {.transpose_b = true}).host(); };
  const int before = threads();
  const RowwiseProducts rowwise;
  set_threads(1);
  const std::vector<float> expected = product();
  set_threads(4);
  for (int run = 0; run < 20; ++run) CHECK(product() == expected);
  set_threads(before);
}
