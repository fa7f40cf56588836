#include <heddle/ops/arithmetic.hpp>
#include <heddle/ops/cast.hpp>

#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

TEST_CASE("cast: to an integer cuts off, clamps, and makes 0 of NaN") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const int most = std::numeric_limits<int>::max(), least = std::numeric_limits<int>::min();
  const Tensor<double> x({10}, {1.9, -1.9, -0.5, 2147483647.5, 2147483648.0, -2147483648.5, inf, -inf, nan, 1e300});
  CHECK(cast<int>(x).host() == std::vector<int>{1, -1, 0, most, most, least, most, least, 0, most});
  const auto wide = cast<std::int64_t>(cast<float>(x)).host();
  CHECK(wide[4] == Index{1} << 31);
  CHECK(wide[6] == std::numeric_limits<std::int64_t>::max());
  CHECK(wide[7] == std::numeric_limits<std::int64_t>::min());
  CHECK(cast<int>(Tensor<bf16>({2}, {bf16(3.f), bf16(-1e20f)})).host() == std::vector<int>{3, least});
}

TEST_CASE("cast: between integers wraps, to bool asks whether it is not 0") {
  CHECK(cast<int>(Tensor<std::int64_t>({2}, {(Index{1} << 32) + 5, -1})).host() == std::vector<int>{5, -1});
  CHECK(cast<bool>(Tensor<float>({4}, {0, -0.f, 1e-30f, std::numeric_limits<float>::quiet_NaN()})).host() ==
        std::vector<bool>{false, false, true, true});
  CHECK(cast<bool>(Tensor<std::int64_t>({2}, {Index{1} << 32, 0})).host() == std::vector<bool>{true, false});
  CHECK(cast<double>(Tensor<bool>({2}, {true, false})).host() == std::vector<double>{1, 0});
  CHECK(static_cast<float>(cast<bf16>(Tensor<int>({1}, {257})).item()) == 256.f);
}

TEST_CASE("cast: to bf16 rounds as bf16 itself does") {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> values = {0, -0.f, 1.00390625f, 1.01171875f, 3.39e38f, inf, -inf, 1e-40f, 1e-45f};
  for (Index i = 0; i < 100; ++i) values.push_back(static_cast<float>(random({100}, 3).data()[i]));
  const Tensor<float> x({static_cast<Index>(values.size())}, values);
  const auto y = cast<bf16>(x).host();
  for (std::size_t i = 0; i < values.size(); ++i) REQUIRE(y[i].bits == bf16(values[i]).bits);
  CHECK(std::isnan(static_cast<float>(cast<bf16>(Tensor<float>({1}, {std::nanf("")})).item())));
}

TEST_CASE("cast: the same type is the same tensor") {
  const auto x = variable(Tensor<float>({2}, {1, 2}));
  CHECK(cast<float>(x).data() == x.data());
  CHECK(cast<float>(x).node() == x.node());
}

TEST_CASE("cast: connects graphs of different element types") {
  const auto x = variable(Tensor<double>({2}, {3, 5}));
  const Tensor<float> half = cast<float>(x * 0.5);
  const Tensor<bf16> y = cast<bf16>(half * half);
  backward(cast<float>(sum(y)));
  CHECK(x.grad().host() == std::vector<double>{1.5, 2.5});

  CHECK_FALSE(cast<int>(x).requires_grad());
  CHECK_FALSE(cast<double>(Tensor<int>({1}, {1})).requires_grad());
  expect_gradients([](const Inputs& in) { return cast<double>(in[0]) * 2; }, {random({0}, 1)});
}
