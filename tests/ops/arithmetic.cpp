#include <heddle/ops/arithmetic.hpp>

#include "harness/golden.hpp"
#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

TEST_CASE("arithmetic: neg is the minus sign") {
  CHECK(neg(Tensor<float>({2}, {1, -2})).host() == std::vector<float>{-1, 2});
  expect_gradients([](const auto& in) { return neg(in[0]); }, {random({3}, 1)});
}

TEST_CASE("arithmetic: values and gradients are PyTorch's, whatever broadcasts") {
  const std::vector<std::string> ab = {"a", "b"};
  expect_golden("add", ab, [](const Case&, const auto& x) { return x[0] + x[1]; });
  expect_golden("sub", ab, [](const Case&, const auto& x) { return x[0] - x[1]; });
  expect_golden("mul", ab, [](const Case&, const auto& x) { return x[0] * x[1]; });
  expect_golden("div", ab, [](const Case&, const auto& x) { return x[0] / x[1]; });
  expect_golden("neg", {"x"}, [](const Case&, const auto& x) { return -x[0]; });
}

TEST_CASE("arithmetic: a number may be on either side") {
  const Tensor<double> x({3}, {1, -2, 4});
  CHECK((x + 1).host() == std::vector<double>{2, -1, 5});
  CHECK((1 + x).host() == std::vector<double>{2, -1, 5});
  CHECK((x - 0.5).host() == std::vector<double>{0.5, -2.5, 3.5});
  CHECK((0.5 - x).host() == std::vector<double>{-0.5, 2.5, -3.5});
  CHECK((x * 2.f).host() == std::vector<double>{2, -4, 8});
  CHECK((2 * x).host() == std::vector<double>{2, -4, 8});
  CHECK((x / 4).host() == std::vector<double>{0.25, -0.5, 1});
  CHECK((4 / x).host() == std::vector<double>{4, -2, 1});
  CHECK(std::signbit((-Tensor<float>({1}, {0.f})).item()));

  const auto every = [](const auto& in) {
    const auto& a = in[0];
    return (1.5 + a) * 2 + (3 - a) * 0.25 + (a - 7) / 3 + 5 / (a * a + 1) - a;
  };
  for (const Index n : {0, 1, 31, 33, 257}) expect_gradients(every, {random({n}, 1)});
}

TEST_CASE("arithmetic: gradients of odd and of empty shapes match finite differences") {
  const auto f = [](const auto& in) { return (in[0] + in[1]) * in[1] - in[0] / (in[1] * in[1] + 1); };
  for (const auto& [a, b] : std::vector<std::pair<Shape, Shape>>{{{33}, {33}},
                                                                 {{31, 3}, {3}},
                                                                 {{2, 1, 3, 1}, {4, 1, 5}},
                                                                 {{}, {7}},
                                                                 {{1, 1}, {1}},
                                                                 {{0, 3}, {1, 3}},
                                                                 {{5, 1}, {0}},
                                                                 {{2, 1, 2, 1, 2, 1, 2, 1}, {1, 2, 1, 2, 1, 2, 1, 2}}})
    expect_gradients(f, {random(a, 1), random(b, 2)});
}

TEST_CASE("arithmetic: long rows broadcast as short ones do") {
  const Index N = 301, D = 257;  // more than one piece of work
  const auto a = random({N, D}, 1), row = random({D}, 2), column = random({N, 1}, 3);
  const auto y = (a * row + column).host();
  for (Index n = 0; n < N; ++n)
    for (Index d = 0; d < D; ++d)
      REQUIRE(y[static_cast<std::size_t>(n * D + d)] == a.data()[n * D + d] * row.data()[d] + column.data()[n]);
}

TEST_CASE("arithmetic: integers wrap around and divide towards zero") {
  const int most = std::numeric_limits<int>::max(), least = std::numeric_limits<int>::min();
  const Tensor<int> a({4}, {most, -7, least, 7}), b({4}, {1, 2, -1, -2});
  CHECK((a + b).host() == std::vector<int>{least, -5, most, 5});
  CHECK((a - b).host() == std::vector<int>{most - 1, -9, least + 1, 9});
  CHECK((a * b).host() == std::vector<int>{most, -14, least, -14});
  CHECK((a / b).host() == std::vector<int>{most, -3, least, -3});
  CHECK((1 - a).host() == std::vector<int>{least + 2, 8, least + 1, -6});
  CHECK((-a).host() == std::vector<int>{-most, 7, least, -7});
  CHECK((Tensor<std::int64_t>({2}, {1, 2}) * (Index{1} << 40)).host() ==
        std::vector<std::int64_t>{Index{1} << 40, Index{1} << 41});
  CHECK_THROWS_WITH(a / 0, "div: an integer is divided by 0");
}

template <class A, class B>
concept Adds = requires(A a, B b) {
  a + b;
};

TEST_CASE("arithmetic: tensors of two types, and an integer tensor with a floating-point number, do not compile") {
  STATIC_REQUIRE((Adds<Tensor<float>, double> && Adds<int, Tensor<bf16>> && Adds<Tensor<int>, std::int64_t>));
  STATIC_REQUIRE_FALSE(Adds<Tensor<int>, double>);
  STATIC_REQUIRE_FALSE(Adds<Tensor<float>, Tensor<double>>);
}

TEST_CASE("arithmetic: bf16 rounds once, and its gradients sum in float") {
  on_each_device<bf16>([](Device device) {
    const auto x = full<bf16>({1}, 1.5, device);
    CHECK(static_cast<float>((x + 0.00390625).item()) == 1.5f);   // a tie goes to even
    CHECK(static_cast<float>((x * 1.003).item()) == 1.5078125f);  // 1.003 rounded to bf16 first would be 1
    const auto row = variable(ones<bf16>({1}, device));
    backward(row * full<bf16>({300}, 1.0078125, device), ones<bf16>({300}, device));  // a bf16 sum gives 346
    CHECK(static_cast<float>(row.grad().item()) == 302.f);
  });
}

TEST_CASE("arithmetic: infinities and NaN are IEEE's") {
  const float inf = infinity<float>;
  on_each_device<float>([&](Device device) {
    const auto x = Tensor<float>({4}, {inf, -inf, 0, 1}).to(device);
    const auto y = (x * 0).host(), z = (1 / x).host();
    CHECK((std::isnan(y[0]) && std::isnan(y[1]) && y[2] == 0));
    CHECK(z == std::vector<float>{0, 0, inf, 1});
  });
}

TEST_CASE("arithmetic: names the axis that disagrees") {
  const auto call = [] { return Tensor<float>({4, 2, 3}) + Tensor<float>({5, 3}); };
  CHECK_THROWS_WITH(call(),
                    "add: 'axis -2' disagrees between a and b\n"
                    "  a  [4, 2, 3]    axis 1 is 2\n"
                    "  b  [5, 3]       axis 0 is 5\n"
                    "  broadcasting repeats axes of extent 1 only");
  CHECK_THROWS_AS(call(), ShapeError);
}
