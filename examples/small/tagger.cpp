// Tags every token of a text: each row of a packed batch has a label. cross_entropy skips rows labelled ignore_index.
// A word that is not a determiner is a noun after a determiner and a verb elsewhere, so its tag depends on the word
// before it.
#include <iostream>
#include <vector>

#include <heddle/heddle.hpp>

using namespace heddle;

constexpr int words = 24, determiners = 8, start_token = words;  // words 0 to 7 are determiners
constexpr int longest = 12;                                      // tokens of a text
constexpr Index determiner = 0, noun = 1, verb = 2, no_tag = -100;

struct Batch {
  Tensor<int> ids;     // [N]
  Tensor<Index> tags;  // [N], no_tag for the start token of each text
  Sequences texts;
};

Batch make_batch(int count, Random& random) {
  std::vector<int> ids, lengths;
  std::vector<Index> tags;
  for (int text = 0; text < count; ++text) {
    lengths.push_back(longest - static_cast<int>(random.next() % 8));
    ids.push_back(start_token);
    tags.push_back(no_tag);
    for (int token = 1; token < lengths.back(); ++token) {
      const Index tag_of_other_words = tags.back() == determiner ? noun : verb;
      ids.push_back(static_cast<int>(random.next() % words));
      tags.push_back(ids.back() < determiners ? determiner : tag_of_other_words);
    }
  }
  const auto N = static_cast<Index>(ids.size());
  return {Tensor<int>({N}, ids), Tensor<Index>({N}, tags), Sequences::packed(lengths)};
}

struct Tagger {
  nn::Embedding<> embedding;
  nn::SinusoidalPositions<> positions;
  nn::Encoder<> encoder;
  nn::Linear<> out;

  Tensor<float> operator()(const Batch& batch, Random* random = nullptr) const {
    return out(encoder(positions.embed(embedding, batch.ids, batch.texts), batch.texts, random));  // [N, C]
  }
  static void visit(auto& self, auto&& f) {
    f("embedding", self.embedding), f("positions", self.positions), f("encoder", self.encoder), f("out", self.out);
  }
};

float token_accuracy(const Tagger& model, const Batch& batch) {
  const NoGrad no_grad;
  const Tensor<bool> correct = argmax(model(batch), -1) == batch.tags, counted = batch.tags != no_tag;  // [N]
  return sum(cast<float>(correct)).item() / sum(cast<float>(counted)).item();
}

int main() {
  Random random(1);
  Tagger model{{words + 1, 32, random}, {longest, 32}, {1, {.D = 32, .heads = 2}, random}, {32, 3, random}};
  optim::AdamW optimizer(model, {.lr = 5e-3});
  for (int step = 1; step <= 500; ++step) {
    const Batch batch = make_batch(32, random);
    const Tensor<float> loss = cross_entropy(model(batch, &random), batch.tags, {.ignore_index = no_tag});
    backward(loss);
    optimizer.step();
    if (step % 100 == 0) std::cout << "step " << step << "  loss " << loss.item() << '\n';
  }
  const float accuracy = token_accuracy(model, make_batch(200, random));
  std::cout << "token accuracy on new texts: " << accuracy << '\n';
  if (accuracy >= 0.95f) return 0;
  std::cerr << "tagger: expected a token accuracy of at least 0.95, got " << accuracy << '\n';
  return 1;
}
