// Compares the gradients of a model's parameters with central differences, in double.
#pragma once
#include <heddle/nn/module.hpp>

#include "gradients.hpp"

namespace heddle::testing {

/// Checks the gradient of every parameter for a tensor f() that the model computes; f must give the same
/// values each time.
template <class M, class F>
void expect_parameter_gradients(M& model, F f) {
  zero_grad(model);
  const Tensor<double> y = f(), dy = random(y.shape(), 7);
  backward(y, dy);
  each_parameter(model, [&](const Name& name, auto& p) {
    INFO(name.str());
    expect_central_differences(
        p.grad() ? p.grad().host() : std::vector<double>(), [&](const Inputs&) { return f(); }, {}, p.value(),
        dy.host(), [](double e) { return std::max(1e-6, 1e-5 * std::abs(e)); });
  });
}

}  // namespace heddle::testing
