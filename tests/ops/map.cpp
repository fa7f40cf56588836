#include <heddle/ops/map.hpp>
#include <heddle/ops/reduce.hpp>

#include "harness/golden.hpp"
#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

// Checks f on 33 copies of each value, so that it is also computed in vector registers.
template <class T, class F>
void expect_values_in(F&& f, const std::vector<double>& x, const std::vector<double>& y) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    CAPTURE(x[i]);
    const auto many = full<double>({33}, x[i]);
    on_each_device<T>([&](Device device) {
      expect_close(joined(f(converted<T>(many, device)).host()), std::vector<double>(33, y[i]), equal);
    });
  }
}
template <class F>
void expect_values(F&& f, const std::vector<double>& x, const std::vector<double>& y) {
  expect_values_in<double>(f, x, y);
  expect_values_in<float>(f, x, y);
  expect_values_in<bf16>(f, x, y);
}

}  // namespace

TEST_CASE("map: values and gradients are PyTorch's") {
  expect_golden("exp", {"x"}, [](const Case&, const auto& x) { return exp(x[0]); });
  expect_golden("log", {"x"}, [](const Case&, const auto& x) { return log(x[0]); });
  expect_golden("sqrt", {"x"}, [](const Case&, const auto& x) { return sqrt(x[0]); });
  expect_golden("tanh", {"x"}, [](const Case&, const auto& x) { return tanh(x[0]); });
  expect_golden("sigmoid", {"x"}, [](const Case&, const auto& x) { return sigmoid(x[0]); });
  expect_golden("relu", {"x"}, [](const Case&, const auto& x) { return relu(x[0]); });
  expect_golden("gelu", {"x"}, [](const Case&, const auto& x) { return gelu(x[0]); });
  expect_golden(
      "gelu_tanh", {"x"}, [](const Case&, const auto& x) { return gelu_tanh(x[0]); },
      16);  // 1 + tanh loses digits where it is near 0
}

TEST_CASE("map: gradients match finite differences") {
  const auto x = random({3, 5}, 1);
  auto positive = Tensor<double>(x.shape());
  for (Index i = 0; i < x.size(); ++i) positive.data()[i] = std::abs(x.data()[i]) + 0.1;
  expect_gradients([](const auto& in) { return exp(in[0]); }, {x}, 1e-6);
  expect_gradients([](const auto& in) { return log(in[0]); }, {positive}, 1e-6);
  expect_gradients([](const auto& in) { return sqrt(in[0]); }, {positive}, 1e-6);
  expect_gradients([](const auto& in) { return tanh(in[0]); }, {x});
  expect_gradients([](const auto& in) { return sigmoid(in[0]); }, {x});
  expect_gradients([](const auto& in) { return relu(in[0]); }, {x});
  expect_gradients([](const auto& in) { return gelu(in[0]); }, {x});
  expect_gradients([](const auto& in) { return gelu_tanh(in[0]); }, {x});
  expect_gradients([](const auto& in) { return abs(in[0]); }, {x});
  expect_gradients([](const auto& in) { return log1p(in[0]); }, {positive}, 1e-6);
  expect_gradients([](const auto& in) { return erf(in[0]); }, {x});
  expect_gradients([](const auto& in) { return softplus(in[0]); }, {x});
  expect_gradients([](const auto& in) { return silu(in[0]); }, {x});
}

TEST_CASE("map: infinities and NaN") {
  const double inf = infinity<double>, none = quiet_nan<double>;
  expect_values([](const auto& x) { return exp(x); }, {inf, -inf, none, 0}, {inf, 0, none, 1});
  expect_values([](const auto& x) { return log(x); }, {inf, 0, none, -1}, {inf, -inf, none, none});
  expect_values([](const auto& x) { return sqrt(x); }, {inf, 0, none, -1}, {inf, 0, none, none});
  expect_values([](const auto& x) { return tanh(x); }, {inf, -inf, none}, {1, -1, none});
  expect_values([](const auto& x) { return sigmoid(x); }, {inf, -inf, none}, {1, 0, none});
  expect_values([](const auto& x) { return relu(x); }, {inf, -inf, none}, {inf, 0, none});
  expect_values([](const auto& x) { return abs(x); }, {inf, -inf, none, -2, -0.0}, {inf, inf, none, 2, 0});
  expect_values([](const auto& x) { return log1p(x); }, {inf, -1, none, -2, 0}, {inf, -inf, none, none, 0});
  expect_values([](const auto& x) { return erf(x); }, {inf, -inf, none, 0}, {1, -1, none, 0});
  expect_values([](const auto& x) { return softplus(x); }, {inf, -inf, none, 1000, -1000}, {inf, 0, none, 1000, 0});
  expect_values([](const auto& x) { return silu(x); }, {inf, none, 0, 1000, -1000}, {inf, none, 0, 1000, 0});
  expect_values(
      [](const auto& x) {
        const auto leaf = variable(x);
        backward(sum(abs(leaf)));
        return leaf.grad();
      },
      {inf, -inf, 0, -0.0, 3}, {1, -1, 0, 0, 1});
  expect_values(
      [](const auto& x) {
        const auto leaf = variable(x);
        backward(sum(relu(leaf)));
        return leaf.grad();
      },
      {inf, -inf, 0, 3}, {1, 0, 0, 1});
}
