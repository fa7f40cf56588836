// The scores of a classifier on a data set, and the loading of a trained classifier.
#pragma once
#include <functional>
#include <numeric>

#include <heddle/data/corpus.hpp>
#include <heddle/heddle.hpp>
#include <heddle/io/model.hpp>
#include <heddle/train/metrics_file.hpp>
#include <heddle/train/run_checkpoints.hpp>

#include "flags.hpp"
#include "processes.hpp"
#include "program.hpp"

namespace heddle::examples {

struct Splits {
  data::Corpus train, valid, test;  // test is empty if the data set has no labelled test rows
  int classes = 2;
};

// The first random stream of each use. Streams of two uses never overlap, and each is a function of the seed
// and a count.
enum class Stream : std::uint64_t {
  init = 0,
  order = std::uint64_t{1} << 56,
  dropout = std::uint64_t{2} << 56,
  split = std::uint64_t{3} << 56,
  masks = std::uint64_t{4} << 56,
  valid_masks = std::uint64_t{5} << 56
};
inline std::uint64_t stream(Stream use, Index number = 0) {
  return static_cast<std::uint64_t>(use) + static_cast<std::uint64_t>(number);
}
// Returns the generator of a step's dropout. Nearby steps share a stream, so that a cuda::Graph replays them.
inline Random dropout_generator(std::uint64_t seed, Index step) {
  constexpr int draws_of_step = 40, steps_of_stream = 24;  // powers of two
  Random random(seed, stream(Stream::dropout, step >> steps_of_stream));
  random.seek(static_cast<std::uint64_t>(step) << draws_of_step);
  return random;
}

// Whether a model has targets other than the batch's labels, such as masked tokens. In its confusion matrix every row
// has the label 1; its prediction is 1 if the row's target has the highest logit, otherwise 0.
template <class Model>
constexpr bool makes_labels = requires(const Model& model, const data::Batch& batch, Random& random) {
  model.inputs_of(batch, random);
};

// Returns what the model computes its logits from: the batch, or what the model's inputs_of() makes of it, which
// chooses the targets with `random`. Both have labels, can be moved, and are inputs of a cuda::Graph.
template <class Model>
auto inputs_of(const Model& model, const data::Batch& batch, Random& random) {
  if constexpr (makes_labels<Model>)
    return model.inputs_of(batch, random);
  else
    return batch;
}

// Returns the logits of inputs on the model's device. Dropout is active if and only if `random` is given.
template <class A, class Model, class Inputs>
Tensor<float> logits(const Model& model, const Inputs& inputs, Random* random = nullptr) {  // [B, C]
  if constexpr (makes_labels<Model>)
    return cast<float>(model.template forward<A>(inputs, random));
  else if constexpr (requires { model.template forward<A>(inputs.ids, inputs.sequences, random); })
    return cast<float>(model.template forward<A>(inputs.ids, inputs.sequences, random));
  else
    return cast<float>(
        model.template forward<A>(inputs.ids, inputs.sequences, {.types = inputs.types, .random = random}));
}

// Returns the number of labels that are predicted. Predictions of rows that filled the batch up follow the others.
inline Index count_correct(const Tensor<Index>& predicted, const Tensor<int>& labels) {  // [B] or more, [B]
  return std::inner_product(labels.data(), labels.data() + labels.size(), predicted.data(), Index{0}, std::plus(),
                            std::equal_to<Index>());
}

// Returns the scores on the first rows of a data set. Each of several processes evaluates some of the batches, and all
// get the scores.
template <class A, class Model>
train::Scores evaluate(const Model& model, const data::Corpus& rows, Index batch_size, int classes,
                       Index most_rows = std::numeric_limits<Index>::max()) {
  const NoGrad quiet;
  data::Batches batches(std::min(rows.count(), most_rows), batch_size, data::Order::sequential);
  const Device device = device_of(model);
  const distributed::Communicator& communicator = Processes::all().communicator();
  train::ConfusionMatrix counted(classes);
  std::vector<double> found;  // the loss and the labels of each batch; those of other processes are zeros here
  for (Index number = 0; number < batches.per_epoch(); ++number) {
    if (number % communicator.size() != communicator.rank()) {
      found.insert(found.end(), 2, 0.);
      continue;
    }
    Random masks(0, stream(Stream::valid_masks, number));
    const auto inputs = inputs_of(model, rows.batch(batches(0, number)), masks);
    const auto there = inputs.to(device);
    const Tensor<float> z = logits<A>(model, there);
    found.push_back(cross_entropy(z, there.labels).item());
    found.push_back(static_cast<double>(inputs.labels.size()));
    const auto predicted = argmax(z, -1).host();
    const std::vector<int> labels = inputs.labels.host();
    for (std::size_t b = 0; b < labels.size(); ++b) {
      const auto best = static_cast<int>(predicted[b]);
      makes_labels<Model> ? counted.add(1, best == labels[b]) : counted.add(labels[b], best);
    }
  }
  for (const Index count : counted.counts()) found.push_back(static_cast<double>(count));
  communicator.all_reduce(std::span(found));

  train::Scores scores(classes);
  auto next = found.begin();
  for (Index number = 0; number < batches.per_epoch(); ++number, next += 2)
    scores.add_loss(next[0], static_cast<Index>(next[1]));
  for (int label = 0; label < classes; ++label)
    for (int predicted = 0; predicted < classes; ++predicted, ++next)
      scores.confusion.add(label, predicted, static_cast<Index>(*next));
  return scores;
}

template <class Model>
void load_weights(Model& model, const std::string& file) {
  const io::LoadReport report = io::load(model, file);
  for (const std::string& name : report.unexpected)
    note(io::printable(file) + ": " + name + " is ignored, because the model has no weight of that name");
  train::require_finite(model, io::printable(file));
}

// The scores of each split with the model's weights; empty for a split without rows.
struct FinalScores {
  train::Scores train, valid, test;
};

// Prints and writes the scores of each split that has rows, and returns them. Of training texts in token files it takes
// the first 1,000. Throws RunFailed for a loss that is not finite.
template <class A, class Model>
FinalScores report(const Model& model, const Splits& splits, const TrainerFlags& flags, train::MetricsFile& metrics) {
  constexpr Index most_of_files = 1000;
  const auto scores_of = [&](const char* name, const data::Corpus& rows) {
    const bool takes_all = rows.is_in_memory() || &rows != &splits.train;
    const Index most = takes_all ? rows.count() : most_of_files;
    train::Scores s = evaluate<A>(model, rows, flags.batch_size, splits.classes, most);
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
