// Runs a function of tensors in an element type on a device, forward and backward.
#pragma once
#include <string>
#include <vector>

#include <heddle/autograd/backward.hpp>

#include "../catch.hpp"
#include "numbers.hpp"

namespace heddle::testing {

/// A tensor that a function computed.
struct Computed {
  std::string name;
  Shape shape;
  std::vector<double> values;  // zeros for a gradient that the backward left out
  bool is_present = true;

  friend bool operator==(const Computed&, const Computed&) = default;
};

/// y, and if y has a graph, the gradient of each input that has data, in the order of the inputs.
using Evaluation = std::vector<Computed>;

template <class T>
Computed computed(const std::string& name, const Tensor<T>& x) {
  return {name, x.shape(), joined(x.host())};
}

/// Returns the default dy of evaluate(): random, so that no term of a gradient can cancel another, and exact in T.
template <class T>
Tensor<double> fixed_dy(const Shape& shape) {
  return random<T>(shape, 77);
}

/// Evaluates y = f(inputs) and its gradients in A on `device`. f takes a std::vector of Tensor<A>; an input without
/// data is passed on as an empty tensor and has no gradient. dy defaults to fixed_dy<T>; evaluations that are compared
/// must have the same T.
template <class A, class T = A, class F>
Evaluation evaluate(F&& f, const Inputs& inputs, Device device, const Tensor<double>& dy = {}) {
  std::vector<Tensor<A>> at;
  for (const auto& x : inputs) at.push_back(x ? variable(converted<A>(x, device)) : Tensor<A>());
  const Tensor<A> y = f(std::as_const(at));
  REQUIRE(y.device() == device);
  Evaluation all{computed("y", y)};
  if (!y.requires_grad()) return all;
  backward(y, converted<A>(dy ? dy : fixed_dy<T>(y.shape()), device));
  for (std::size_t i = 0; i < at.size(); ++i) {
    if (!at[i]) continue;
    const Tensor<A> gradient = at[i].grad();
    const std::string name = "the gradient of input " + std::to_string(i);
    if (gradient)
      all.push_back(computed(name, gradient));
    else
      all.push_back({name, at[i].shape(), std::vector<double>(static_cast<std::size_t>(at[i].size())), false});
  }
  return all;
}

}  // namespace heddle::testing
