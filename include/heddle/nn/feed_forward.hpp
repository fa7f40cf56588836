#pragma once
#include <heddle/nn/linear.hpp>
#include <heddle/ops/map.hpp>

namespace heddle::nn {

// The functions of ops/map.hpp that a FeedForward may have.
enum class Activation { gelu, gelu_tanh, relu };

// The function of that name, of each element.
template <class A>
Tensor<A> activate(Activation activation, const Tensor<A>& x) {
  switch (activation) {
    case Activation::gelu_tanh: return gelu_tanh(x);
    case Activation::relu: return relu(x);
    case Activation::gelu: break;
  }
  return gelu(x);
}

// Two linear maps with an activation between them, named as torch.nn.Sequential(Linear, GELU, Linear) names them.
template <class T = float>
struct FeedForward {
  Linear<T> in, out;
  Activation activation;

  // D to width and back. Throws ShapeError for a size below 1.
  FeedForward(Index D, Index width, Random& random, Activation function = Activation::gelu)
      : in(D, width, random), out(width, D, random), activation(function) {}
  FeedForward(const FeedForward& other, Cloning& c)
      : in(c(other.in)), out(c(other.out)), activation(other.activation) {}

  template <class A>
  Tensor<A> operator()(const Tensor<A>& x) const {  // [..., D]
    return out(activate(activation, in(x)));
  }

  static void visit(auto& self, auto&& f) {
    f("0", self.in);
    f("2", self.out);
  }
};

}  // namespace heddle::nn
