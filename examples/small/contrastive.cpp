// Trains a sentence encoder on pairs of texts with the same meaning. The other texts of the batch are the negative
// examples: in cross_entropy the class of a left text is the index of its right text.
#include <iostream>
#include <vector>

#include <heddle/heddle.hpp>

using namespace heddle;

constexpr int words = 80;  // words 0 and 1 are synonyms, so are 2 and 3, and so on

struct Pairs {
  Tensor<int> left, right;  // [N] each; token n of `right` is the synonym of token n of `left`
  Sequences texts;          // B texts on either side
};

Pairs make_pairs(int count, Random& random) {
  std::vector<int> left, right, lengths;
  for (int pair = 0; pair < count; ++pair) {
    lengths.push_back(4 + static_cast<int>(random.next() % 5));
    for (int token = 0; token < lengths.back(); ++token) {
      const int word = static_cast<int>(random.next() % words);
      left.push_back(word);
      right.push_back(word % 2 == 0 ? word + 1 : word - 1);
    }
  }
  const auto N = static_cast<Index>(left.size());
  return {Tensor<int>({N}, left), Tensor<int>({N}, right), Sequences::packed(lengths)};
}

struct SentenceEncoder {
  nn::Embedding<> embedding;
  nn::Encoder<> encoder;

  // Returns one vector of length 1 for each text.
  Tensor<float> operator()(const Tensor<int>& ids, const Sequences& texts, Random* random) const {
    return normalize(mean_rows(encoder(embedding(ids), texts, random), texts), {.axis = 1});  // [B, D]
  }
  static void visit(auto& self, auto&& f) { f("embedding", self.embedding), f("encoder", self.encoder); }
};

// Returns the cosine similarity of each left text to each right text.
Tensor<float> similarities(const SentenceEncoder& model, const Pairs& pairs, Random* random = nullptr) {
  const Tensor<float> left = model(pairs.left, pairs.texts, random);    // [B, D]
  const Tensor<float> right = model(pairs.right, pairs.texts, random);  // [B, D]
  return matmul(left, right, {.transpose_b = true});                    // [B, B]
}

// Returns the share of left texts whose most similar right text is their own.
float retrieval_accuracy(const SentenceEncoder& model, const Pairs& pairs) {
  const NoGrad no_grad;
  const Tensor<Index> nearest = argmax(similarities(model, pairs), 1);  // [B]
  return mean(cast<float>(nearest == arange<Index>(nearest.size()))).item();
}

int main() {
  constexpr int batch_size = 32;
  constexpr double temperature = 0.1;
  Random random(1);
  const Pairs new_pairs = make_pairs(200, random);
  SentenceEncoder model{{words, 32, random}, {1, {.D = 32, .heads = 2}, random}};
  optim::AdamW optimizer(model, {.lr = 5e-3});
  std::cout << "retrieval accuracy before training: " << retrieval_accuracy(model, new_pairs) << '\n';
  for (int step = 1; step <= 300; ++step) {
    const Tensor<float> scores = similarities(model, make_pairs(batch_size, random), &random) / temperature;  // [B, B]
    const Tensor<float> loss = cross_entropy(scores, arange<Index>(batch_size));
    backward(loss);
    optimizer.step();
    if (step % 100 == 0) std::cout << "step " << step << "  loss " << loss.item() << '\n';
  }
  const float accuracy = retrieval_accuracy(model, new_pairs);
  std::cout << "retrieval accuracy among 200 new pairs: " << accuracy << '\n';
  if (accuracy >= 0.9f) return 0;
  std::cerr << "contrastive: expected a retrieval accuracy of at least 0.9, got " << accuracy << '\n';
  return 1;
}
