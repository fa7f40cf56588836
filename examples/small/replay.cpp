// Trains a classifier of ragged texts and, if there is a GPU, replays the steps as CUDA graphs: the host then enqueues
// a few pieces of work for a step, however large the model is. Without a GPU, the same program trains on the CPU.
#include <iostream>
#include <optional>

#include <heddle/autograd/cuda_graph.hpp>
#include <heddle/data/batches.hpp>
#include <heddle/heddle.hpp>

using namespace heddle;

constexpr int vocabulary = 50, longest_text = 30, epochs = 5;

// Returns texts whose label is 1 if the first word is odd.
data::LabelledSequences make_texts(Index count, Random random) {
  data::LabelledSequences texts;
  for (Index n = 0; n < count; ++n) {
    std::vector<int> words(1 + random.next() % longest_text);
    for (int& word : words) word = static_cast<int>(random.next() % vocabulary);
    texts.add(words, words[0] % 2);
  }
  return texts;
}

struct Classifier {
  nn::Embedding<> embedding;
  nn::Encoder<> encoder;
  nn::Linear<> out;

  Tensor<float> loss(const data::Batch& batch, Random& random) const {
    const Tensor<float> rows = encoder(embedding(batch.ids), batch.sequences, &random);  // [N, D]
    return cross_entropy(out(first_rows(rows, batch.sequences)), batch.labels);          // []
  }
  static void visit(auto& self, auto&& f) {
    f("embedding", self.embedding), f("encoder", self.encoder), f("out", self.out);
  }
};

Device best_device() {
#ifdef HEDDLE_CUDA
  if (cuda::unavailable().empty()) return Device::cuda;
#endif
  return Device::cpu;
}

int main() {
  Random random(1);
  Classifier model{{vocabulary, 32, random}, {1, {.D = 32, .heads = 2}, random}, {32, 2, random}};
  to(model, best_device());
  optim::AdamW optimizer(model, {.lr = 3e-3});
  const data::LabelledSequences texts = make_texts(640, Random(2));
  data::Batches batches(texts.count(), 32, data::Order::shuffled, 3);

  cuda::Graph graph(best_device());
  std::optional<HostCopy<float>> loss;  // of the step before: reading it does not wait for the one that runs
  double sum = 0;
  for (Index epoch = 0; epoch < epochs; ++epoch) {
    sum = 0;
    for (Index number = 0; number < batches.per_epoch(); ++number) {
      const data::Batch batch = data::filled(texts.batch(batches(epoch, number)), longest_text);
      const auto forward_and_backward = [&](const data::Batch& there, Random& dropout) {
        const Tensor<float> of_batch = model.loss(there, dropout);
        backward(of_batch);
        return detach(of_batch);
      };
      const Tensor<float> of_batch = graph.run(forward_and_backward, batch, random);
      optimizer.step({.max_norm = 1});
      if (loss) sum += loss->get().item();
      loss.emplace(of_batch);
    }
    std::cout << "epoch " << epoch << "  mean loss " << sum / static_cast<double>(batches.per_epoch()) << '\n';
  }
  std::cout << graph.replays() << " of " << epochs * batches.per_epoch() << " steps were replays\n";
  if (sum / static_cast<double>(batches.per_epoch()) < 0.4) return 0;
  std::cerr << "replay: expected a mean loss below 0.4\n";
  return 1;
}
