// The scores of a model on a data set, and the loading of a trained model.
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

// Whether a model has targets other than the batch's labels, such as masked tokens or numbers.
template <class Model>
constexpr bool has_targets = requires(const Model& model, const data::Batch& batch, Random& random) {
  model.inputs_of(batch, random);
};

// Returns what the model computes its logits and its loss from: the batch, or what the model's inputs_of() makes of
// it, which may choose targets with `random`. Both have labels, can be moved, and are inputs of a cuda::Graph.
template <class Model>
auto inputs_of(const Model& model, const data::Batch& batch, Random& random) {
  if constexpr (has_targets<Model>)
    return model.inputs_of(batch, random);
  else
    return batch;
}

// Returns the logits of inputs on the model's device. Dropout is active if and only if `random` is given.
template <class A, class Model, class Inputs>
Tensor<float> logits(const Model& model, const Inputs& inputs, Random* random = nullptr) {  // [B, C]
  if constexpr (!std::is_same_v<Inputs, data::Batch>)
    return cast<float>(model.template forward<A>(inputs, random));
  else if constexpr (requires { model.template forward<A>(inputs.ids, inputs.sequences, random); })
    return cast<float>(model.template forward<A>(inputs.ids, inputs.sequences, random));
  else
    return cast<float>(
        model.template forward<A>(inputs.ids, inputs.sequences, {.types = inputs.types, .random = random}));
}

// Returns the mean loss of logits: the model's own, otherwise the cross-entropy of the labels.
template <class Model, class Inputs>
Tensor<float> loss_of(const Model& model, const Tensor<float>& z, const Inputs& inputs) {
  if constexpr (requires { model.loss(z, inputs); })
    return model.loss(z, inputs);
  else
    return cross_entropy(z, inputs.labels);
}

// Whether the loss compares the rows of a batch with each other, as in-batch negatives do. Then a part of a batch has
// no loss of its own: the model's forward() gives vectors of width() elements, and loss() takes those of the whole
// batch.
template <class Model>
constexpr bool compares_rows = requires {
  Model::compares_rows;
};

// Returns what is compared with the labels to count correct rows: the model's own predictions, otherwise the class with
// the highest logit.
template <class Model, class Inputs>
Tensor<Index> predicted_by(const Model& model, const Tensor<float>& z, const Inputs& inputs) {  // [B, C]
  if constexpr (requires { model.predicted(z, inputs); })
    return model.predicted(z, inputs);
  else
    return argmax(z, -1);
}

// Returns whether rows are predicted correctly or not, as classes are and numbers are not.
template <class Model>
bool has_accuracy(const Model& model) {
  if constexpr (requires { model.has_accuracy(); })
    return model.has_accuracy();
  else
    return true;
}

// Returns the number of labels that are predicted. Predictions of rows that filled the batch up follow the others.
inline Index count_correct(const Tensor<Index>& predicted, const Tensor<int>& labels) {  // [B] or more, [B]
  return std::inner_product(labels.data(), labels.data() + labels.size(), predicted.data(), Index{0}, std::plus(),
                            std::equal_to<Index>());
}

// The scores of a split: the mean loss, the measures of its task, and the confusion matrix of a classifier.
struct SplitScores {
  double loss = 0;
  Index rows = 0;
  std::vector<train::Metric> metrics;
  std::optional<train::ConfusionMatrix> confusion;

  // Returns the metric of a name, which must exist.
  double operator[](const std::string& name) const {
    return std::find_if(metrics.begin(), metrics.end(), [&](const auto& each) { return each.name == name; })->value;
  }
};

// Counts what a classifier predicts. A model with another task has tally(split, rows), which returns an object of this
// form for the first rows of a split. The numbers of several processes are added up before report() is called.
class ClassTally {
 public:
  explicit ClassTally(int classes) : numbers_(static_cast<std::size_t>(classes * classes)), classes_(classes) {}

  // Adds a batch, whose first row has the number `first` in the split.
  template <class Inputs>
  void add(Index /*first*/, const Tensor<float>& z, const Inputs& inputs) {
    const std::vector<Index> predicted = argmax(z, -1).host();
    const std::vector<int> labels = inputs.labels.host();
    for (std::size_t b = 0; b < labels.size(); ++b) add(labels[b], predicted[b]);
  }
  void add(Index label, Index predicted) { ++numbers_[static_cast<std::size_t>(label * classes_ + predicted)]; }
  std::span<double> numbers() { return numbers_; }
  void report(SplitScores& scores) const {
    train::Scores counted(classes_);
    auto next = numbers_.begin();
    for (int label = 0; label < classes_; ++label)
      for (int predicted = 0; predicted < classes_; ++predicted, ++next)
        counted.confusion.add(label, predicted, static_cast<Index>(*next));
    scores.metrics = counted.metrics();
    scores.confusion = std::move(counted.confusion);
  }

 private:
  std::vector<double> numbers_;  // rows by label and prediction
  int classes_;
};

template <class Model>
auto make_tally(const Model& model, const data::Corpus& split, Index rows, int classes) {
  if constexpr (requires { model.tally(split, rows); })
    return model.tally(split, rows);
  else
    return ClassTally(classes);
}

// Returns the scores on the first rows of a data set. Each of several processes evaluates some of the batches, and all
// get the scores.
template <class A, class Model>
SplitScores evaluate(const Model& model, const data::Corpus& split, Index batch_size, int classes,
                     Index most_rows = std::numeric_limits<Index>::max()) {
  const NoGrad quiet;
  const Index rows = std::min(split.count(), most_rows);
  data::Batches batches(rows, batch_size, data::Order::sequential);
  const Device device = device_of(model);
  const distributed::Communicator& communicator = Processes::all().communicator();
  auto tally = make_tally(model, split, rows, classes);
  std::vector<double> found;  // the loss and the labels of each batch; those of other processes are zeros here
  for (Index number = 0; number < batches.per_epoch(); ++number) {
    if (number % communicator.size() != communicator.rank()) {
      found.insert(found.end(), 2, 0.);
      continue;
    }
    Random masks(0, stream(Stream::valid_masks, number));
    const auto inputs = inputs_of(model, split.batch(batches(0, number)), masks);
    const auto there = inputs.to(device);
    const Tensor<float> z = logits<A>(model, there);
    found.push_back(loss_of(model, z, there).item());
    found.push_back(static_cast<double>(inputs.labels.size()));
    tally.add(number * batch_size, z.to(Device::cpu), inputs);
  }
  const std::size_t losses = found.size();
  const std::span<double> counted = tally.numbers();
  found.insert(found.end(), counted.begin(), counted.end());
  communicator.all_reduce(std::span(found));
  std::copy(found.begin() + static_cast<std::ptrdiff_t>(losses), found.end(), counted.begin());

  SplitScores scores;
  double sum = 0;
  for (std::size_t i = 0; i < losses; i += 2) {
    sum += found[i] * found[i + 1];
    scores.rows += static_cast<Index>(found[i + 1]);
  }
  if (scores.rows > 0) scores.loss = sum / static_cast<double>(scores.rows);
  if (std::isfinite(scores.loss)) tally.report(scores);  // the caller reports a loss that is not
  return scores;
}

template <class Model>
void load_weights(Model& model, const std::string& file) {
  const io::LoadReport report = io::load(model, file);
  for (const std::string& name : report.unexpected)
    note(io::printable(file) + ": " + name + " is ignored, because the model has no weight of that name");
  train::require_finite(model, io::printable(file));
}

// The scores of each split with the model's weights; without rows for a split that has none.
struct FinalScores {
  SplitScores train, valid, test;
};

// Returns metrics for a line of output.
inline std::string to_text(std::span<const train::Metric> metrics) {
  std::string text;
  for (const train::Metric& each : metrics) {
    char number[32];
    std::snprintf(number, sizeof number, "%.4f", each.value);
    text += "  " + each.name + ' ' + number;
  }
  return text;
}

// Prints and writes the scores of each split that has rows, and returns them. Of training texts in token files it takes
// the first 1,000, and of examples with a loss that compares rows the first 5,000. Throws RunFailed for a loss that is
// not finite.
template <class A, class Model>
FinalScores report(const Model& model, const Splits& splits, const TrainerFlags& flags, train::MetricsFile& metrics) {
  constexpr Index most_of_files = 1000, most_to_search = 5000;
  const auto scores_of = [&](const char* name, const data::Corpus& rows) {
    Index most = rows.count();
    if (&rows == &splits.train && !rows.is_in_memory()) most = most_of_files;
    if (&rows == &splits.train && compares_rows<Model>) most = std::min(most, most_to_search);
    SplitScores s = evaluate<A>(model, rows, flags.batch_size, splits.classes, most);
    if (rows.count() == 0) return s;
    require<train::RunFailed>(std::isfinite(s.loss), "the ", name, " loss is not finite");
    std::printf("%-5s  loss %.4f%s\n", name, s.loss, to_text(s.metrics).c_str());
    metrics.final(name, s.loss, s.metrics);
    return s;
  };
  return {scores_of("train", splits.train), scores_of("valid", splits.valid), scores_of("test", splits.test)};
}

}  // namespace heddle::examples
