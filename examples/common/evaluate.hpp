// The scores of a classifier on a data set, and loading one that was trained before.
#pragma once
#include <heddle/data/batches.hpp>
#include <heddle/heddle.hpp>
#include <heddle/io/model.hpp>
#include <heddle/train/metrics_file.hpp>
#include <heddle/train/run_checkpoints.hpp>

#include "flags.hpp"
#include "program.hpp"

namespace heddle::examples {

struct Splits {
  data::LabelledSequences train, valid, test;  // test is empty if there is none with labels
  int classes = 2;
};

// Returns the scores of the classes for a batch on the model's device.
template <class A, class Model>
Tensor<float> logits(const Model& model, const data::Batch& batch, Random* random = nullptr) {  // [B, C]
  return cast<float>(model.template forward<A>(batch.ids, batch.sequences, random));
}

// Returns how many rows of z [B, C] have their label's score as the highest.
inline Index count_correct(const Tensor<float>& z, const Tensor<int>& labels) {
  const auto predicted = argmax(detach(z), -1).host();
  const auto expected = labels.host();
  Index correct = 0;
  for (std::size_t b = 0; b < expected.size(); ++b) correct += predicted[b] == expected[b];
  return correct;
}

// Returns loss and scores on a data set.
template <class A, class Model>
train::Scores evaluate(const Model& model, const data::LabelledSequences& rows, Index batch_size, int classes) {
  const NoGrad quiet;
  train::Scores scores(classes);
  data::Batches batches(rows.count(), batch_size, data::Order::sequential);
  const Device device = device_of(model);
  for (Index number = 0; number < batches.per_epoch(); ++number) {
    const data::Batch batch = rows.batch(batches(0, number));
    const data::Batch there = batch.to(device);
    const Tensor<float> z = logits<A>(model, there);
    scores.add_loss(cross_entropy(z, there.labels).item(), batch.labels.size());
    const auto predicted = argmax(z, -1).host();
    for (Index b = 0; b < batch.labels.size(); ++b)
      scores.confusion.add(batch.labels.data()[b], static_cast<int>(predicted[static_cast<std::size_t>(b)]));
  }
  return scores;
}

template <class Model>
void load_weights(Model& model, const std::string& file) {
  const io::LoadReport report = io::load(model, file);
  for (const std::string& name : report.unexpected)
    note(io::printable(file) + ": " + name + " is not of this model and was left out");
  train::require_finite(model, io::printable(file));
}

// The scores of each split with the last weights; without rows they are empty.
struct FinalScores {
  train::Scores train, valid, test;
};

// Prints and writes the scores of each split that has rows, and returns them. Throws RunFailed for a loss that is not finite.
template <class A, class Model>
FinalScores report(const Model& model, const Splits& splits, const TrainerFlags& flags, train::MetricsFile& metrics) {
  const auto scores_of = [&](const char* name, const data::LabelledSequences& rows) {
    train::Scores s = evaluate<A>(model, rows, flags.batch_size, splits.classes);
    if (rows.count() == 0) return s;
    require<train::RunFailed>(std::isfinite(s.loss()), "the ", name, " loss is not finite");
    std::printf("%-5s  loss %.4f  accuracy %.4f  precision %.4f  recall %.4f\n", name, s.loss(), s.confusion.accuracy(),
                s.confusion.precision(), s.confusion.recall());
    metrics.final(name, s);
    return s;
  };
  return {scores_of("train", splits.train), scores_of("valid", splits.valid), scores_of("test", splits.test)};
}

}  // namespace heddle::examples
