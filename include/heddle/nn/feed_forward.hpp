#pragma once
#include <heddle/nn/linear.hpp>
#include <heddle/ops/dropout.hpp>
#include <heddle/ops/gated.hpp>
#include <heddle/ops/linear_gelu.hpp>

namespace heddle::nn {

/// The activation of a feed-forward network, a function of ops/map.hpp.
enum class Activation { gelu, gelu_tanh, relu, silu };

/// Returns the activation of each element.
template <Floating A>
Tensor<A> activated(const Tensor<A>& x, Activation activation) {
  switch (activation) {
    case Activation::gelu_tanh: return gelu_tanh(x);
    case Activation::relu: return relu(x);
    case Activation::silu: return silu(x);
    case Activation::gelu: break;
  }
  return gelu(x);
}

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
    if (activation != Activation::gelu) return out(activated(in(x), activation));
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

/// The options of a GatedFeedForward.
struct GatedOptions {
  Activation activation = Activation::gelu;  ///< of the gate
  Gate gate = Gate::first;                   ///< the half of the first map's columns that passes through the activation
  bool in_bias = true;                       ///< whether the first linear map has a bias
  bool out_bias = true;                      ///< whether the second one has
};

/// Two linear maps with a gated unit between them (Shazeer 2020): half of the columns of the first map pass through the
/// activation and are multiplied with the other half.
template <Floating T = float>
struct GatedFeedForward {
  Linear<T> in;           ///< D to 2 * width
  Linear<T> out;          ///< width to D
  Activation activation;  ///< of the gate
  Gate gate;              ///< the gate's half of the columns

  /// Draws the weights of both linear maps. @throws ShapeError for a size below 1.
  [[gnu::cold]] GatedFeedForward(Index D, Index width, Random& random, const GatedOptions& options = {})
      : in(require_size("GatedFeedForward", "D", D), 2 * require_size("GatedFeedForward", "width", width), random,
           options.in_bias),
        out(width, D, random, options.out_bias),
        activation(options.activation),
        gate(options.gate) {}
  /// Copies the members of `other` for clone().
  GatedFeedForward(const GatedFeedForward& other, Cloning& c)
      : in(c(other.in)), out(c(other.out)), activation(other.activation), gate(other.gate) {}

  /// Returns out(activation(a) * b), where a and b are the halves of in(x) and a is that of the gate. @throws
  /// ShapeError unless the last axis of x has extent D.
  template <Floating A>
  Tensor<A> operator()(const Tensor<A>& x) const {  // [..., D]
    return out(gated(in(x)));
  }
  /// Returns the same with dropout before the second map, active if and only if `random` is given. @throws ShapeError
  /// as above, and Error for a p outside [0, 1), before or after rounding.
  template <Floating A>
  Tensor<A> operator()(const Tensor<A>& x, double p, Random* random) const {  // [..., D]
    return out(dropout(gated(in(x)), p, random));
  }
  template <std::integral A>
  void operator()(const Tensor<A>&, const auto&...) const = delete;  // needs cast<float>(x)

  /// Visits the members.
  static void visit(auto& self, auto&& f) {
    f("in", self.in);
    f("out", self.out);
  }

 private:
  template <Floating A>
  Tensor<A> gated(const Tensor<A>& x) const {  // [..., 2 * width] to [..., width]
    switch (activation) {
      case Activation::gelu_tanh: return gated_gelu_tanh(x, gate);
      case Activation::relu: return gated_relu(x, gate);
      case Activation::silu: return gated_silu(x, gate);
      case Activation::gelu: break;
    }
    return gated_gelu(x, gate);
  }
};

}  // namespace heddle::nn
