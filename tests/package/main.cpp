#include <unistd.h>

#include <cstdio>

#include "classifier.hpp"

int main() {
  // The first kernel of a process, which makes the pool of threads, runs while the weight is locked.
  ::alarm(60);
  heddle::Parameter<float>(heddle::Tensor<float>({100003}, std::vector<float>(100003, 1.f))).as<heddle::bf16>();
  const heddle::text::WordPiece tokenizer(heddle::text::Vocabulary("[UNK]\n[CLS]\n[SEP]\ngood\nbad\nnot\n"));
  const std::vector<std::string> texts{"good", "bad", "not good", "not bad"};
  heddle::data::LabelledSequences rows;
  for (std::size_t i = 0; i < texts.size(); ++i) rows.add(tokenizer.encode(texts[i]).ids, i == 0 || i == 3);
  heddle::data::Batches batches(rows.count(), 4, heddle::data::Order::sequential);
  heddle::Random random(1);
  Classifier model(tokenizer.vocabulary().size(), random);
  const auto [before, after] = train(model, rows.batch(batches(0, 0)));
  std::printf("loss %.4f, then %.4f\n", static_cast<double>(before), static_cast<double>(after));
  heddle::io::save(model, "consumer.safetensors");
  heddle::io::load(model, "consumer.safetensors");
  // Weights of float with activations of bf16.
  const heddle::nn::Linear<> layer(2, 1, random);
  const auto x = heddle::full<heddle::bf16>({3, 2}, 1);
  heddle::backward(layer(x), heddle::full<heddle::bf16>({3, 1}, 1));
  return after < before && layer.weight.grad().host() == std::vector<float>{3, 3} ? 0 : 1;
}
