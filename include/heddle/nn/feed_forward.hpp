#pragma once
#include <heddle/nn/linear.hpp>
#include <heddle/ops/linear_gelu.hpp>

namespace heddle::nn {

/// The activation of a FeedForward, a function of ops/map.hpp.
enum class Activation { gelu, gelu_tanh, relu };

/// Two linear maps with an activation between them, named as torch.nn.Sequential(Linear, GELU, Linear) names them.
template <Floating T = float>
struct FeedForward {
  Linear<T> in;           ///< D to width
  Linear<T> out;          ///< width to D
  Activation activation;  ///< between the two

  /// Draws the weights of both linear maps, D to width and width to D. @throws ShapeError for a size below 1.
  [[gnu::cold]] FeedForward(Index D, Index width, Random& random, Activation function = Activation::gelu)
      : in(require_size("FeedForward", "D", D), require_size("FeedForward", "width", width), random),
        out(width, D, random),
        activation(function) {}
  /// Copies the members of `other` for clone().
  FeedForward(const FeedForward& other, Cloning& c)
      : in(c(other.in)), out(c(other.out)), activation(other.activation) {}

  /// Returns out(activation(in(x))). @throws ShapeError unless the last axis of x has extent D.
  template <Floating A>
  Tensor<A> operator()(const Tensor<A>& x) const {  // [..., D]
    switch (activation) {
      case Activation::gelu_tanh: return out(gelu_tanh(in(x)));
      case Activation::relu: return out(relu(in(x)));
      case Activation::gelu: break;
    }
    return out(linear_gelu(x, in.weight.template as<A>(), in.bias ? in.bias->template as<A>() : Tensor<A>()));
  }
  template <std::integral A>
  void operator()(const Tensor<A>&, const auto&...) const = delete;  // needs cast<float>(x)

  /// Visits the members.
  static void visit(auto& self, auto&& f) {
    f("0", self.in);
    f("2", self.out);
  }
};

}  // namespace heddle::nn
