// What a classifier says of a data set, and loading one that was trained before.
#pragma once
#include <heddle/data/batches.hpp>
#include <heddle/heddle.hpp>
#include <heddle/io/model.hpp>

#include "flags.hpp"
#include "metrics.hpp"
#include "program.hpp"

namespace heddle::examples {

struct Splits {
  data::LabelledSequences train, valid, test;  // an empty test has no labels, or is not there
  int classes = 2;
};

// Of a batch on the model's device.
template <class A, class Model>
Tensor<float> logits(const Model& model, const data::Batch& batch, Random* random = nullptr) {  // [B, C]
  return cast<float>(model.template forward<A>(batch.ids, batch.sequences, random));
}

// Loss and scores on a data set, without training.
template <class A, class Model>
Scores evaluate(const Model& model, const data::LabelledSequences& rows, Index batch_size, int classes) {
  const NoGrad quiet;
  Scores scores(classes);
  data::Batches batches(rows.count(), batch_size, data::Order::sequential);
  const Device device = device_of(model);
  for (Index number = 0; number < batches.per_epoch(); ++number) {
    const data::Batch batch = rows.batch(batches(0, number));
    const data::Batch there = batch.to(device);
    const Tensor<float> z = logits<A>(model, there);
    scores.add_loss(cross_entropy(z, there.labels).item(), batch.labels.size());
    const auto predicted = argmax(z, -1).host();
    for (Index b = 0; b < batch.labels.size(); ++b)
      scores.add(batch.labels.data()[b], static_cast<int>(predicted[static_cast<std::size_t>(b)]));
  }
  return scores;
}

// Throws RunFailed with the name of a weight that is not finite; `where` begins the message.
template <class Model>
void require_finite(const Model& model, const std::string& where) {
  walk_once(model, [&](const Name& name, const auto& x) {
    for (const auto value : x.value().host())
      if (!std::isfinite(value))
        throw RunFailed(where + ": the weight '" + name.str() + "' holds a value that is not finite");
  });
}

template <class Model>
void load_weights(Model& model, const std::string& file) {
  const io::LoadReport report = io::load(model, file);
  for (const std::string& name : report.unexpected)
    note(io::printable(file) + ": " + name + " is not of this model and was left out");
  require_finite(model, io::printable(file));
}

// Reports the final metrics of each split that has labels.
template <class A, class Model>
void report(const Model& model, const Splits& splits, const TrainerFlags& flags, MetricsFile& metrics) {
  const std::pair<const char*, const data::LabelledSequences*> all[] = {
      {"train", &splits.train}, {"valid", &splits.valid}, {"test", &splits.test}};
  for (const auto& [name, rows] : all) {
    if (rows->count() == 0) continue;
    const Scores s = evaluate<A>(model, *rows, flags.batch_size, splits.classes);
    if (!std::isfinite(s.loss())) throw RunFailed(std::string("the ") + name + " loss is not finite");
    std::printf("%-5s  loss %.4f  accuracy %.4f  precision %.4f  recall %.4f\n", name, s.loss(), s.accuracy(),
                s.precision(), s.recall());
    metrics.final(name, s);
  }
}

}  // namespace heddle::examples
