// A small model to train.
#pragma once
#include <heddle/nn/linear.hpp>
#include <heddle/ops/map.hpp>

namespace heddle::testing {

/// Two linear layers with tanh between them: [N, 8] to [N, 2].
struct TwoLayers {
  nn::Linear<float> a, b;

  explicit TwoLayers(Random& random) : a(8, 16, random), b(16, 2, random) {}
  Tensor<float> operator()(const Tensor<float>& x) const { return b(tanh(a(x))); }
  static void visit(auto& self, auto&& f) {
    f("a", self.a);
    f("b", self.b);
  }
};

}  // namespace heddle::testing
