// A text model whose targets are numbers: which labels a text has, values, or the score of a pair.
#pragma once
#include <cmath>
#include <heddle/models/pretrained.hpp>
#include <heddle/train/multi_label_scores.hpp>
#include <heddle/train/regression_scores.hpp>

#include "../common/evaluate.hpp"
#include "labelled_texts.hpp"

namespace heddle::examples {

// A batch whose labels are 1 and whose targets are numbers.
struct TargetBatch : data::Batch {
  Tensor<float> targets;  // [B, C]
  Tensor<float> weight;   // [B, 1] 0 for a row that fills the batch up; empty if there is none

  TargetBatch to(Device device) const {
    return {data::Batch::to(device), targets.to(device), weight ? weight.to(device) : weight};
  }
  template <class F>
  void each_input(F&& f) {
    data::Batch::each_input(f);
    f(targets);
    f(weight);
  }
};

// Returns a batch filled up as by data::filled(), with rows of weight 0.
inline TargetBatch filled(const TargetBatch& batch, Index most) {
  TargetBatch all{data::filled(static_cast<const data::Batch&>(batch), most), {}, {}};
  const Index rows = batch.targets.dim(0), width = batch.targets.dim(1), count = all.sequences.count();
  std::vector<float> targets = batch.targets.host(), weight(static_cast<std::size_t>(rows), 1.f);
  targets.resize(static_cast<std::size_t>(count * width));
  weight.resize(static_cast<std::size_t>(count));
  all.targets = Tensor<float>({count, width}, targets);
  all.weight = Tensor<float>({count, 1}, weight);
  return all;
}

// Returns a part of a batch, as data::part().
inline TargetBatch part(const TargetBatch& batch, const BatchPart& place) {
  const Index first = place.first_sequence, last = first + place.sequences;
  return {data::part(static_cast<const data::Batch&>(batch), place), batch.targets.leading(first, last), {}};
}

// The kinds of targets: 0 or 1 for each label, values, and scores from 0 to 1.
enum class TargetKind { label_sets, values, pair_scores };

struct TargetModel {
  models::SequenceClassifier<> model;
  TargetKind kind;
  std::shared_ptr<const Targets> targets;  // of all splits; the label of a row is its number here
  Tensor<float> positive_weights;          // [C] of the labels' positive terms; empty if they are 1

  TargetModel(models::SequenceClassifier<> m, TargetKind k, std::shared_ptr<const Targets> all, Tensor<float> weights)
      : model(std::move(m)), kind(k), targets(std::move(all)), positive_weights(std::move(weights)) {}
  TargetModel(const TargetModel& other, Cloning& c)
      : model(c(other.model)), kind(other.kind), targets(other.targets), positive_weights(other.positive_weights) {}

  TargetBatch inputs_of(const data::Batch& batch, Random&) const {
    const Index width = targets->width, rows = batch.sequences.count();
    std::vector<float> values;
    for (const int row : batch.labels.host()) {
      const auto first = targets->values.begin() + row * width;
      values.insert(values.end(), first, first + width);
    }
    TargetBatch inputs{batch, Tensor<float>({rows, width}, values), {}};
    inputs.labels = full<int>({rows}, 1);
    return inputs;
  }

  template <class A>
  Tensor<A> forward(const Tensor<int>& ids, const Sequences& sequences,
                    const models::ForwardOptions<A>& options = {}) const {  // [B, C]
    return model.template forward<A>(ids, sequences, options);
  }
  template <class A>
  Tensor<A> forward(const TargetBatch& batch, Random* random) const {  // [B, C]
    return forward<A>(batch.ids, batch.sequences, {.types = batch.types, .random = random});
  }

  // Returns the mean over rows and columns of the squared errors, or of the binary cross-entropies.
  Tensor<float> loss(const Tensor<float>& z, const TargetBatch& batch) const {
    const Reduction reduction = batch.weight ? Reduction::none : Reduction::mean;
    const Tensor<float> losses =
        kind == TargetKind::values
            ? mse_loss(z, batch.targets, {.reduction = reduction})
            : bce_with_logits(z, batch.targets, {.pos_weight = positive_weights, .reduction = reduction});
    if (!batch.weight) return losses;
    return sum(losses * batch.weight) / (sum(batch.weight) * static_cast<float>(z.dim(1)));
  }
  // Returns 1 for each row whose labels are all right, otherwise 0.
  Tensor<Index> predicted(const Tensor<float>& z, const TargetBatch& batch) const {
    const Tensor<float> answer = cast<float>(z > 0.f), right = cast<float>(batch.targets > 0.5f);
    return cast<Index>(sum(abs(answer - right), {1}) == 0.f);
  }
  bool has_accuracy() const { return kind != TargetKind::values; }

  // Collects the results of a split of label sets.
  class SetTally {
   public:
    explicit SetTally(Index labels) : scores_(labels) {}
    void add(const Tensor<float>& z, const Tensor<float>& wanted) {
      const auto width = static_cast<std::size_t>(z.dim(1));
      std::vector<std::uint8_t> expected(width), predicted(width);
      for (Index b = 0; b < z.dim(0); ++b) {
        for (std::size_t c = 0; c < width; ++c) {
          expected[c] = wanted.data()[static_cast<std::size_t>(b) * width + c] > 0.5f;
          predicted[c] = z.data()[static_cast<std::size_t>(b) * width + c] > 0;
        }
        scores_.add(expected, predicted);
      }
    }
    std::vector<double> sums() const { return scores_.sums(); }
    void report(std::span<const double> sums, SplitScores& scores) const {
      train::MultiLabelScores all(std::ssize(scores_.labels()));
      all.add_sums(sums);
      scores.metrics = {{"f1_micro", all.f1_micro()}, {"f1_macro", all.f1_macro()}, {"accuracy", all.accuracy()}};
    }

   private:
    train::MultiLabelScores scores_;
  };

  // Collects the values of a split. Rows that were not added are zeros.
  class ValueTally {
   public:
    ValueTally(Index rows, Index width, bool are_scores)
        : numbers_(static_cast<std::size_t>(2 * rows * width)), width_(width), are_scores_(are_scores) {}
    void add(Index first, const Tensor<float>& z, const Tensor<float>& wanted) {
      for (Index i = 0; i < z.size(); ++i) {
        const auto place = static_cast<std::size_t>(2 * (first * width_ + i));
        const double x = double{z.data()[i]};
        numbers_[place] = double{wanted.data()[i]};
        numbers_[place + 1] = are_scores_ ? 1 / (1 + std::exp(-x)) : x;
      }
    }
    const std::vector<double>& sums() const { return numbers_; }
    // The correlations are means over the columns.
    void report(std::span<const double> numbers, SplitScores& scores) const {
      double pearson = 0, spearman = 0, mse = 0;
      const std::size_t pairs = numbers.size() / 2, width = static_cast<std::size_t>(width_);
      Index correct = 0;
      for (std::size_t c = 0; c < width; ++c) {
        train::RegressionScores column;
        for (std::size_t i = c; i < pairs; i += width) {
          column.add(numbers[2 * i], numbers[2 * i + 1]);
          correct += (numbers[2 * i] > 0.5) == (numbers[2 * i + 1] > 0.5);
        }
        pearson += column.pearson() / static_cast<double>(width_);
        spearman += column.spearman() / static_cast<double>(width_);
        mse += column.mse() / static_cast<double>(width_);
      }
      scores.metrics = {{"pearson", pearson}, {"spearman", spearman}};
      const double accuracy = pairs == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(pairs);
      scores.metrics.push_back(are_scores_ ? train::Metric{"accuracy", accuracy} : train::Metric{"mse", mse});
    }

   private:
    std::vector<double> numbers_;  // target and result of each row and column
    Index width_;
    bool are_scores_;
  };

  // Counts the results of a split, as ClassTally.
  class Tally {
   public:
    Tally(TargetKind kind, Index rows, Index width) : results_(ValueTally(rows, width, kind != TargetKind::values)) {
      if (kind == TargetKind::label_sets) results_ = SetTally(width);
    }
    void add(Index first, const Tensor<float>& z, const TargetBatch& inputs) {
      if (auto* sets = std::get_if<SetTally>(&results_)) return sets->add(z, inputs.targets);
      std::get<ValueTally>(results_).add(first, z, inputs.targets);
    }
    std::span<double> numbers() {
      numbers_ = std::visit([](const auto& each) { return std::vector<double>(each.sums()); }, results_);
      return numbers_;
    }
    void report(SplitScores& scores) const {
      std::visit([&](const auto& each) { each.report(numbers_, scores); }, results_);
    }

   private:
    std::variant<SetTally, ValueTally> results_;
    std::vector<double> numbers_;
  };
  Tally tally(const data::Corpus&, Index rows) const { return {kind, rows, targets->width}; }

  static void visit(auto& self, auto&& f) { f("", self.model); }
};

}  // namespace heddle::examples
