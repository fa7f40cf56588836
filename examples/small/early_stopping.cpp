// Stops training when the validation loss has not improved for some epochs, and restores the weights of the best epoch.
// clone() makes the copy that keeps the best weights. copy_weights() writes in place, so the optimizer still holds the
// model's weights.
#include <iostream>
#include <vector>

#include <heddle/heddle.hpp>

using namespace heddle;

constexpr int vocabulary = 40, text_length = 8;

struct Batch {
  Tensor<int> ids;     // [N]
  Tensor<int> labels;  // [B], 1 if most words of the text are odd; every fifth label is random
  Sequences texts;
};

Batch make_batch(int count, Random& random) {
  const auto draw = [&](unsigned n) { return static_cast<int>(random.next() % n); };
  std::vector<int> ids, labels;
  for (int text = 0; text < count; ++text) {
    int odd = 0;
    for (int t = 0; t < text_length; ++t) odd += ids.emplace_back(draw(vocabulary)) % 2;
    labels.push_back(text % 5 == 0 ? draw(2) : odd > text_length / 2);
  }
  return {Tensor<int>({count * text_length}, ids), Tensor<int>({count}, labels),
          Sequences::packed(std::vector<int>(labels.size(), text_length))};
}

struct Classifier {
  nn::Embedding<> embedding;
  nn::Encoder<> encoder;
  nn::Linear<> out;

  explicit Classifier(Random& random)
      : embedding(vocabulary, 32, random), encoder(1, {.D = 32, .heads = 2}, random), out(32, 2, random) {}
  Classifier(const Classifier& other, Cloning& c)
      : embedding(c(other.embedding)), encoder(c(other.encoder)), out(c(other.out)) {}

  Tensor<float> loss(const Batch& batch, Random* random = nullptr) const {
    const Tensor<float> rows = encoder(embedding(batch.ids), batch.texts, random);  // [N, D]
    return cross_entropy(out(mean_rows(rows, batch.texts)), batch.labels);          // []
  }
  static void visit(auto& self, auto&& f) {
    f("embedding", self.embedding), f("encoder", self.encoder), f("out", self.out);
  }
};

float validation_loss(const Classifier& model, const Batch& batch) {
  const NoGrad no_grad;
  return model.loss(batch).item();
}

int main() {
  constexpr int patience = 10;  // epochs without an improvement
  Random random(1);
  const Batch training = make_batch(100, random), validation = make_batch(200, random);
  Classifier model(random);
  Classifier best = clone(model);
  optim::AdamW optimizer(model, {.lr = 3e-3});
  float loss = validation_loss(model, validation), best_loss = loss;
  for (int epoch = 1, best_epoch = 0; epoch <= best_epoch + patience; ++epoch) {
    backward(model.loss(training, &random));
    optimizer.step();
    loss = validation_loss(model, validation);
    if (epoch % 5 == 0) std::cout << "epoch " << epoch << "  validation loss " << loss << '\n';
    if (loss >= best_loss) continue;
    best_loss = loss;
    best_epoch = epoch;
    copy_weights(model, best);
  }
  copy_weights(best, model);

  const float restored = validation_loss(model, validation);
  std::cout << "validation loss of the last epoch: " << loss << ", of the restored weights: " << restored << '\n';
  if (restored == best_loss && restored < loss) return 0;
  std::cerr << "early_stopping: expected the best validation loss, " << best_loss << ", after the restoration\n";
  return 1;
}
