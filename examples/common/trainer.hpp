// The training loop of every system. A model brings
//   template <class A> Tensor<A> forward(const Tensor<int>& ids, const Sequences&, Random*) const   logits [B, C]
// and a static visit; the rest, from batches to files, is here.
#pragma once
#include <limits>
#include <memory>
#include <variant>

#include <heddle/data/batches.hpp>
#include <heddle/heddle.hpp>
#include <heddle/io/model.hpp>

#include "flags.hpp"
#include "metrics.hpp"
#include "out_folder.hpp"
#include "program.hpp"
#include "progress.hpp"

namespace heddle::examples {

struct Splits {
  data::LabelledSequences train, valid, test;  // an empty test has no labels, or is not there
  int classes = 2;
};

// Where each use of random numbers has its streams: none ever meets another, and each is a function of the seed and a count.
enum class Stream : std::uint64_t { init = 0, order = std::uint64_t{1} << 56, dropout = std::uint64_t{2} << 56 };
inline std::uint64_t stream(Stream use, Index number = 0) {
  return static_cast<std::uint64_t>(use) + static_cast<std::uint64_t>(number);
}

// One optimizer of those that the flags offer.
class Optimizer {
 public:
  template <class M>
  Optimizer(M& model, const TrainerFlags& f) : optimizer_(make(model, f)) {}
  void step(double factor) {
    std::visit([&](auto& o) { o.step(factor); }, optimizer_);
  }

 private:
  using Any = std::variant<optim::Sgd, optim::Adam, optim::AdamW>;
  template <class M>
  static Any make(M& model, const TrainerFlags& f) {
    if (f.optimizer == "sgd") return optim::Sgd(model, {.lr = f.lr, .momentum = f.momentum});
    if (f.optimizer == "adamw") return optim::AdamW(model, {.lr = f.lr});
    return optim::Adam(model, {.lr = f.lr});
  }
  Any optimizer_;
};

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
  for (Index number = 0; number < batches.per_epoch(); ++number) {
    const data::Batch batch = rows.batch(batches(0, number));
    const Tensor<float> z = logits<A>(model, batch);
    scores.add_loss(cross_entropy(z, batch.labels).item(), batch.labels.size());
    const auto predicted = argmax(z, -1).host();
    for (Index b = 0; b < batch.labels.size(); ++b)
      scores.add(batch.labels.data()[b], static_cast<int>(predicted[static_cast<std::size_t>(b)]));
  }
  return scores;
}

// Throws RunFailed with the name of a weight that is not finite.
template <class Model>
void require_finite(const Model& model, const std::string& file) {
  walk_once(model, [&](const Name& name, const auto& x) {
    for (const auto value : x.value().host())
      if (!std::isfinite(value))
        throw RunFailed(file + ": the weight '" + name.str() + "' holds a value that is not finite");
  });
}

template <class Model>
void load_weights(Model& model, const std::string& file) {
  const io::LoadReport report = io::load(model, file);
  for (const std::string& name : report.unexpected)
    note(io::printable(file) + ": " + name + " is not of this model and was left out");
  require_finite(model, io::printable(file));
}

inline void print_final(const std::string& split, const Scores& s) {
  std::printf("%-5s  loss %.4f  accuracy %.4f  precision %.4f  recall %.4f\n", split.c_str(), s.loss(), s.accuracy(),
              s.precision(), s.recall());
}

// Reports the final metrics of each split that has labels.
template <class A, class Model>
void report(const Model& model, const Splits& splits, const TrainerFlags& flags, MetricsFile& metrics) {
  const std::pair<const char*, const data::LabelledSequences*> all[] = {
      {"train", &splits.train}, {"valid", &splits.valid}, {"test", &splits.test}};
  for (const auto& [name, rows] : all) {
    if (rows->count() == 0) continue;
    const Scores scores = evaluate<A>(model, *rows, flags.batch_size, splits.classes);
    print_final(name, scores);
    metrics.final(name, scores);
  }
}

// Trains, and writes the best and the last weights to the folder where one is given.
template <class A, class Model>
void train(Model& model, const Splits& splits, const TrainerFlags& flags, const OutFolder* out) {
  MetricsFile metrics(flags.metrics);
  Progress progress(flags.progress);
  Optimizer optimizer(model, flags);
  const optim::Constant schedule;
  data::Batches batches(splits.train.count(), flags.batch_size,
                        flags.order == "shuffled" ? data::Order::shuffled : data::Order::sequential, flags.seed,
                        stream(Stream::order));
  double best = std::numeric_limits<double>::infinity();
  Index step = 0;
  for (Index epoch = 0; epoch < flags.epochs && (flags.steps == 0 || step < flags.steps); ++epoch) {
    const Stopwatch since_epoch;
    double loss_sum = 0;
    Index rows = 0;
    for (Index number = 0; number < batches.per_epoch() && (flags.steps == 0 || step < flags.steps); ++number) {
      const Stopwatch since_step;
      const data::Batch batch = splits.train.batch(batches(epoch, number));
      Random random(flags.seed, stream(Stream::dropout, step));
      const Tensor<float> loss = cross_entropy(logits<A>(model, batch, &random), batch.labels);
      const double value = loss.item();
      if (!std::isfinite(value))
        throw RunFailed("the loss of step " + std::to_string(step + 1) + " is not finite; nothing was saved after it");
      backward(loss);
      const double factor = schedule(step);
      optimizer.step(factor);
      ++step;
      loss_sum += value * static_cast<double>(batch.labels.size());
      rows += batch.labels.size();
      metrics.step(step, value, flags.lr * factor, batch.ids.size(), since_step.seconds());
      progress.step(epoch, number + 1, batches.per_epoch(), loss_sum / static_cast<double>(rows));
    }
    const double train_loss = loss_sum / static_cast<double>(rows), seconds = since_epoch.seconds();
    const Scores valid = evaluate<A>(model, splits.valid, flags.batch_size, splits.classes);
    progress.clear();
    std::printf("epoch %lld  train loss %.4f  valid loss %.4f  accuracy %.4f  %.1f s\n", static_cast<long long>(epoch),
                train_loss, valid.loss(), valid.accuracy(), seconds);
    std::fflush(stdout);
    metrics.epoch(epoch, train_loss, valid, seconds);
    if (!out) continue;
    if (valid.loss() < best || epoch == 0) io::save(model, out->file("model.safetensors"));
    best = std::min(best, valid.loss());
    io::save(model, out->file("last.safetensors"));
  }
  report<A>(model, splits, flags, metrics);
}

}  // namespace heddle::examples
