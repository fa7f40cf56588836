// A user's source for nvcc whose functions are no templates: all kinds of operations with their gradients, and a model
// in training. Returns 1 if the loss did not fall.
#include <heddle/heddle.hpp>

using namespace heddle;

template <class T>
Tensor<T> elementwise(const Tensor<T>& a, const Tensor<T>& b) {
  Tensor<T> y = a + b - a * b / (b + T(1.f));
  for (const auto f : {exp<T>, log<T>, sqrt<T>, log1p<T>, abs<T>, erf<T>, tanh<T>, sigmoid<T>, relu<T>, gelu<T>,
                       gelu_tanh<T>, softplus<T>, silu<T>})
    y = y + f(b);
  y = y + maximum(a, b) + minimum(a, b) + clamp(a, {.min = -1., .max = 1.}) - where(a < b, a, b);
  if constexpr (!std::is_same_v<T, bf16>) y = y + pow(abs(b) + T(1), T(1.5)) + pow(b, a);
  return y;
}

Tensor<float> along_axes(const Tensor<float>& x, const Tensor<float>& ones, Random& random) {
  const Tensor<float> y = softmax(x) + log_softmax(x) + layer_norm(x, ones, ones) + rms_norm(x, ones);
  return sum(dropout(y, 0.5, random)) + max(x) + norm(x) + logsumexp(x, 1) + var(x) + mean(normalize(x));
}

struct Classifier {
  nn::Embedding<> embedding;
  nn::Encoder<> encoder;
  nn::Linear<> out;
  Tensor<float> operator()(const Tensor<int>& ids, const Sequences& texts, Random* random = nullptr) const {
    return out(mean_rows(encoder(embedding(ids), texts, random), texts));
  }
  static void visit(auto& self, auto&& f) {
    f("embedding", self.embedding), f("encoder", self.encoder), f("out", self.out);
  }
};

int main() {
  Random random(7);
  const Tensor<float> x = variable(abs(randn<float>({3, 33}, random)));
  backward(sum(elementwise(x, x)) + sum(along_axes(x, ones<float>({33}), random)));
  elementwise(cast<double>(x), cast<double>(x)), elementwise(cast<bf16>(x), cast<bf16>(x));
  for (const float g : x.grad().host()) require(std::isfinite(g), "a gradient is not finite");

  nn::Linear<> square(33, 33, random);
  optim::Sgd descent(square, {.lr = 0.1, .momentum = 0.9});
  const Tensor<float> y = square(x);
  backward(bce_with_logits(y, x) + mse_loss(y, x) + l1_loss(y, x) + sum(cosine_similarity(y, x)) +
           sum(topk(y, 2).values) + sum(matmul(y, x, {.transpose_b = true})));
  descent.step();

  Classifier model{{6, 32, random}, {1, {.D = 32, .heads = 2}, random}, {32, 2, random}};
  optim::AdamW optimizer(model, {.lr = 3e-3});
  const Tensor<int> ids({6}, {1, 2, 5, 2, 4, 1}), labels({2}, {1, 0});
  const Sequences texts = Sequences::packed({3, 3});
  float first = 0, last = 0;
  for (int step = 0; step < 20; ++step) {
    const Tensor<float> loss = cross_entropy(model(ids, texts, &random), labels);
    backward(loss);
    optimizer.step();
    (step == 0 ? first : last) = loss.item();
  }
  return last < first / 2 ? 0 : 1;
}
