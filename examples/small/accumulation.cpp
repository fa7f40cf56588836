// Accumulates the gradients of four small batches before each step, so that only one of them is in memory at a time.
// The weights stay equal, up to rounding, to those of a model that is trained on the four as one large batch.
#include <algorithm>
#include <iostream>
#include <vector>

#include <heddle/heddle.hpp>

using namespace heddle;

constexpr int vocabulary = 50, text_length = 8, small_batch = 8, parts = 4, large_batch = parts * small_batch;

struct Batch {
  Tensor<int> ids;     // [N]
  Tensor<int> labels;  // [B], 1 if the first word of the text is odd
  Sequences texts;
};

Batch make_batch(int count, Random& random) {
  std::vector<int> ids, labels;
  for (int text = 0; text < count; ++text) {
    for (int token = 0; token < text_length; ++token) ids.push_back(static_cast<int>(random.next() % vocabulary));
    labels.push_back(ids[ids.size() - text_length] % 2);
  }
  return {Tensor<int>({count * text_length}, ids), Tensor<int>({count}, labels),
          Sequences::packed(std::vector<int>(labels.size(), text_length))};
}

struct Classifier {
  nn::Embedding<> embedding;
  nn::Encoder<> encoder;
  nn::Linear<> out;

  static Classifier make(Random random) {
    return {{vocabulary, 32, random}, {1, {.D = 32, .heads = 2}, random}, {32, 2, random}};
  }
  Tensor<float> loss(const Batch& batch) const {
    const Tensor<float> rows = encoder(embedding(batch.ids), batch.texts);   // [N, D]
    return cross_entropy(out(first_rows(rows, batch.texts)), batch.labels);  // [], the mean over the texts
  }
  static void visit(auto& self, auto&& f) {
    f("embedding", self.embedding), f("encoder", self.encoder), f("out", self.out);
  }
};

std::vector<Tensor<float>> weights_of(const Classifier& model) {
  std::vector<Tensor<float>> weights;
  each_parameter(model, [&](const Name&, const auto& weight) { weights.push_back(weight.value()); });
  return weights;
}

int main() {
  Classifier model = Classifier::make(Random(1)), reference = Classifier::make(Random(1));
  optim::Sgd optimizer(model, {.lr = 0.1}), reference_optimizer(reference, {.lr = 0.1});
  Random random(2), same_random(2);  // equal seeds: both models see the same texts
  for (int step = 1; step <= 100; ++step) {
    double loss = 0;
    for (int part = 0; part < parts; ++part) {
      const Tensor<float> share = model.loss(make_batch(small_batch, random)) / parts;  // the shares add up to the mean
      backward(share);                                                                  // adds to the gradients
      loss += share.item();
    }
    optimizer.step();  // clears the gradients
    const Tensor<float> reference_loss = reference.loss(make_batch(large_batch, same_random));
    backward(reference_loss);
    reference_optimizer.step();
    if (step % 20 == 0)
      std::cout << "step " << step << "  loss " << loss << ", of the large batch " << reference_loss.item() << '\n';
  }

  const std::vector<Tensor<float>> weights = weights_of(model), expected = weights_of(reference);
  float difference = 0;
  for (std::size_t w = 0; w < weights.size(); ++w)
    difference = std::max(difference, max(abs(weights[w] - expected[w])).item());
  std::cout << "largest difference between two weights: " << difference << '\n';
  if (difference <= 1e-4f) return 0;
  std::cerr << "accumulation: expected a difference of at most 1e-4\n";
  return 1;
}
