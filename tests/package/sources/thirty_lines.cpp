#include <heddle/heddle.hpp>

#include <iostream>

using namespace heddle;

struct Net {
  nn::Linear<> hidden, out;

  explicit Net(Random& random) : hidden(2, 16, random), out(16, 2, random) {}

  Tensor<float> operator()(const Tensor<float>& x) const { return out(gelu(hidden(x))); }  // [B, 2] to [B, 2]

  static void visit(auto& self, auto&& f) {
    f("hidden", self.hidden);
    f("out", self.out);
  }
};

int main() {
  const Tensor<float> x({4, 2}, {0, 0, 0, 1, 1, 0, 1, 1});  // [B, 2]
  const Tensor<int> y({4}, {0, 1, 1, 0});                   // [B]
  Random random(1);
  Net net(random);
  optim::Adam adam(net, {.lr = 0.05});
  for (int step = 0; step < 100; ++step) {
    const Tensor<float> loss = cross_entropy(net(x), y);
    backward(loss);
    adam.step();
    if (step % 20 == 0) std::cout << step << ' ' << loss.item() << '\n';
  }
  std::cout << softmax(net(x), -1) << '\n';
}
