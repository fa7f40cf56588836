#pragma once
#include <heddle/nn/clone.hpp>
#include <heddle/nn/init.hpp>
#include <heddle/ops/linear.hpp>

namespace heddle::nn {

/// y = x weight^T + bias, like torch.nn.Linear.
template <Floating T = float>
struct Linear {
  Parameter<T> weight;               ///< [out, in]
  std::optional<Parameter<T>> bias;  ///< [out]

  /// Draws the weights with linear_init(). @throws ShapeError for a size below 1.
  [[gnu::cold]] Linear(Index in, Index out, Random& random, bool with_bias = true);
  /// Copies the members of `other` for clone().
  Linear(const Linear& other, Cloning& c) : weight(c(other.weight)), bias(c(other.bias)) {}

  /// Returns x weight^T + bias. @throws ShapeError unless the last axis of x has extent `in`.
  template <Floating A>
  Tensor<A> operator()(const Tensor<A>& x) const {  // [..., in] to [..., out]
    return linear(x, weight.template as<A>(), bias ? bias->template as<A>() : Tensor<A>());
  }
  template <std::integral A>
  void operator()(const Tensor<A>&, const auto&...) const = delete;  // needs cast<float>(x)

  /// Visits the members.
  static void visit(auto& self, auto&& f) {
    f("weight", self.weight);
    f("bias", self.bias);
  }
};

template <Floating T>
Linear<T>::Linear(Index in, Index out, Random& random, bool with_bias)
    : weight(linear_init<T>({require_size("Linear", "out", out), require_size("Linear", "in", in)}, in, random)) {
  if (with_bias) bias = linear_init<T>({out}, in, random);
}

}  // namespace heddle::nn
