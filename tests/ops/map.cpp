#include <heddle/ops/map.hpp>

#include "gradcheck.hpp"

using namespace heddle;
using namespace heddle::testing;

TEST_CASE("map: gradients match finite differences") {
  const auto x = random({3, 5}, 1);
  auto positive = Tensor<double>(x.shape());
  for (Index i = 0; i < x.size(); ++i) positive.data()[i] = std::abs(x.data()[i]) + 0.1;
  expect_gradients([](const Inputs& in) { return exp(in[0]); }, {x}, 1e-6);
  expect_gradients([](const Inputs& in) { return log(in[0]); }, {positive}, 1e-6);
  expect_gradients([](const Inputs& in) { return sqrt(in[0]); }, {positive}, 1e-6);
  expect_gradients([](const Inputs& in) { return tanh(in[0]); }, {x});
  expect_gradients([](const Inputs& in) { return sigmoid(in[0]); }, {x});
  expect_gradients([](const Inputs& in) { return relu(in[0]); }, {x});
  expect_gradients([](const Inputs& in) { return gelu(in[0]); }, {x});
  expect_gradients([](const Inputs& in) { return gelu_tanh(in[0]); }, {x});
}
