#include "classifier.hpp"

std::pair<float, float> train(Classifier& model, const heddle::data::Batch& batch) {
  heddle::optim::Adam optimizer(model, {.lr = 1e-2});
  const auto loss = [&] { return heddle::cross_entropy(model(batch.ids, batch.sequences), batch.labels); };
  const float before = loss().item();
  for (int step = 0; step < 20; ++step) {
    heddle::backward(loss());
    optimizer.step();
  }
  return {before, loss().item()};
}
