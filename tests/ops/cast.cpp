#include <heddle/ops/arithmetic.hpp>
#include <heddle/ops/cast.hpp>

#include "harness/agreement.hpp"
#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

TEST_CASE("cast: to an integer truncates, clamps, and converts NaN to 0") {
  const double inf = infinity<double>, nan = quiet_nan<double>;
  const int most = std::numeric_limits<int>::max(), least = std::numeric_limits<int>::min();
  const Tensor<double> x({10}, {1.9, -1.9, -0.5, 2147483647.5, 2147483648.0, -2147483648.5, inf, -inf, nan, 1e300});
  const std::vector<int> whole{1, -1, 0, most, most, least, most, least, 0, most};
  CHECK(cast<int>(x).host() == whole);
  on_each_device<float>([&](Device device) {
    const auto single = cast<float>(x).to(device);
    CHECK(cast<int>(single).host() == whole);
    const auto wide = cast<std::int64_t>(single).host();
    CHECK(wide[4] == Index{1} << 31);
    CHECK(wide[6] == std::numeric_limits<std::int64_t>::max());
    CHECK(wide[7] == std::numeric_limits<std::int64_t>::min());
    CHECK(wide[8] == 0);
    const auto narrow = Tensor<bf16>({3}, {bf16(3.f), bf16(-1e20f), bf16(std::nanf(""))}).to(device);
    CHECK(cast<int>(narrow).host() == std::vector<int>{3, least, 0});
  });
}

TEST_CASE("cast: between integers wraps around; to bool, every nonzero value is true") {
  on_each_device<float>([](Device device) {
    CHECK(cast<int>(Tensor<std::int64_t>({2}, {(Index{1} << 32) + 5, -1}).to(device)).host() ==
          std::vector<int>{5, -1});
    CHECK(cast<bool>(Tensor<float>({4}, {0, -0.f, 1e-30f, quiet_nan<float>}).to(device)).host() ==
          std::vector<bool>{false, false, true, true});
    CHECK(cast<bool>(Tensor<std::int64_t>({2}, {Index{1} << 32, 0}).to(device)).host() ==
          std::vector<bool>{true, false});
    CHECK(static_cast<float>(cast<bf16>(Tensor<int>({1}, {257}).to(device)).item()) == 256.f);
  });
  CHECK(cast<double>(Tensor<bool>({2}, {true, false})).host() == std::vector<double>{1, 0});
}

TEST_CASE("cast: to bf16 rounds as bf16 itself does") {
  const float inf = infinity<float>, nan = quiet_nan<float>;
  std::vector<float> values = {0, -0.f, 1.00390625f, 1.01171875f, 3.39e38f, inf, -inf, nan, -nan, 1e-40f, 1e-45f};
  for (const double value : random({100}, 3).host()) values.push_back(static_cast<float>(value));
  const Tensor<float> x({static_cast<Index>(values.size())}, values);
  on_each_device<float>([&](Device device) {
    const auto y = cast<bf16>(x.to(device)).host();
    for (std::size_t i = 0; i < values.size(); ++i) REQUIRE(y[i].bits == bf16(values[i]).bits);
  });
}

TEST_CASE("cast: a cast to the same type returns the same tensor") {
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
  const auto there_and_back = [](const auto& in) {
    using A = typename std::decay_t<decltype(in[0])>::Element;
    return cast<A>(cast<std::conditional_t<std::is_same_v<A, bf16>, float, A>>(in[0]));
  };
  expect_agrees<bf16>(there_and_back, {random<bf16>({33, 5}, 1)});
}
