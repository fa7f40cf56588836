#include <heddle/ops/linear.hpp>

#include "golden/expect.hpp"
#include "gradcheck.hpp"

using namespace heddle;
using namespace heddle::testing;

TEST_CASE("linear: worked by hand") {
  const Tensor<float> x({2, 2}, {1, 2, 3, 4}), weight({3, 2}, {1, 0, 0, 1, 1, 1}), bias({3}, {10, 20, 30});
  CHECK(linear(x, weight, bias).host() == std::vector<float>{11, 22, 33, 13, 24, 37});
  CHECK(linear(x, weight).host() == std::vector<float>{1, 2, 3, 3, 4, 7});
}

TEST_CASE("linear: values and gradients are PyTorch's") {
  expect_golden(
      "linear", {"x", "weight", "bias"}, [](const Case&, const auto& in) { return linear(in[0], in[1], in[2]); }, 32);
}

TEST_CASE("linear: gradient matches finite differences") {
  for (const Index rows : {0, 1, 3, 33})
    expect_gradients([](const Inputs& in) { return linear(in[0], in[1], in[2]); },
                     {random({rows, 5}, 1), random({4, 5}, 2), random({4}, 3)});
  expect_gradients([](const Inputs& in) { return linear(in[0], in[1]); }, {random({2, 3, 5}, 1), random({4, 5}, 2)});
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
  Tensor<bf16> x({1, 257}), weight({1, 257});
  std::fill_n(x.data(), 257, bf16(1.f));
  std::fill_n(weight.data(), 257, bf16(1.f));
  CHECK(static_cast<float>(linear(x, weight).item()) ==
        256.f);  // 257 is a tie in bf16 and goes to even; a bf16 sum stops at 256 too
  weight.data()[0] = bf16(3.f);
  CHECK(static_cast<float>(linear(x, weight).item()) == 260.f);
}

TEST_CASE("linear: its bits do not depend on the number of threads") {
  const Tensor<float> x = variable(cast<float>(random({300, 129}, 1))),
                      weight = variable(cast<float>(random({257, 129}, 2)));
  const auto run = [&](int count) {
    set_threads(count);
    const Tensor<float> y = linear(x, weight);
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
