// Trains an encoder without absolute positions on a task that needs the order: does token 0 stand before token 1?
// nn::RelativePositionBias adds a trained number for each distance to the attention scores. Without it the encoder does
// not see the order and can only guess.
#include <iostream>
#include <optional>
#include <vector>

#include <heddle/heddle.hpp>

using namespace heddle;

constexpr int vocabulary = 20, longest = 12;

struct Batch {
  Tensor<int> ids;       // [N]
  Tensor<Index> labels;  // [B], 1 if token 0 precedes token 1
  Sequences texts;
};

Batch make_batch(int count, Random& random) {
  const auto draw = [&](int n) { return static_cast<int>(random.next() % static_cast<unsigned>(n)); };
  std::vector<int> ids, lengths;
  std::vector<Index> labels;
  for (int text = 0; text < count; ++text) {
    const int length = longest - draw(7);
    const int position0 = draw(length), position1 = (position0 + 1 + draw(length - 1)) % length;
    for (int t = 0; t < length; ++t) ids.push_back(t == position0 ? 0 : t == position1 ? 1 : 2 + draw(vocabulary - 2));
    lengths.push_back(length);
    labels.push_back(position0 < position1);
  }
  const auto N = static_cast<Index>(ids.size());
  return {Tensor<int>({N}, ids), Tensor<Index>({count}, labels), Sequences::packed(lengths)};
}

struct Classifier {
  nn::Embedding<> embedding;
  nn::Encoder<> encoder;
  nn::Linear<> out;
  std::optional<nn::RelativePositionBias<>> distances;

  Tensor<float> operator()(const Batch& batch, Random* random = nullptr) const {
    const Tensor<float> bias = distances ? (*distances)(batch.texts) : Tensor<float>();  // [1, H, T, T], or empty
    const Tensor<float> rows = encoder(embedding(batch.ids), batch.texts, {.bias = bias}, random);  // [N, D]
    return out(mean_rows(rows, batch.texts));                                                       // [B, C]
  }
  static void visit(auto& self, auto&& f) {
    f("embedding", self.embedding), f("encoder", self.encoder), f("out", self.out), f("distances", self.distances);
  }
};

// Returns the accuracy on new texts.
float train(bool with_distances) {
  Random random(1);
  Classifier model{{vocabulary, 32, random}, {1, {.D = 32, .heads = 2}, random}, {32, 2, random}, {}};
  if (with_distances) model.distances.emplace(longest, 2);
  optim::AdamW optimizer(model, {.lr = 5e-3});
  for (int step = 1; step <= 400; ++step) {
    const Batch batch = make_batch(32, random);
    const Tensor<float> loss = cross_entropy(model(batch, &random), batch.labels);
    backward(loss);
    optimizer.step();
    if (step % 200 == 0) std::cout << "step " << step << "  loss " << loss.item() << '\n';
  }
  const NoGrad no_grad;
  const Batch new_texts = make_batch(500, random);
  return mean(cast<float>(argmax(model(new_texts), -1) == new_texts.labels)).item();
}

int main() {
  const float without = train(false), with = train(true);
  std::cout << "accuracy without positions: " << without << ", with relative positions: " << with << '\n';
  if (without <= 0.65f && with >= 0.95f) return 0;
  std::cerr << "relative_positions: expected at most 0.65 without and at least 0.95 with relative positions\n";
  return 1;
}
