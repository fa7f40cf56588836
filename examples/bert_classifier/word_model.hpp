// A model that labels words: the label of a word is predicted at its first token.
#pragma once
#include <heddle/models/bert.hpp>
#include <heddle/train/entity_scores.hpp>

#include "token_batch.hpp"

namespace heddle::examples {

// The labels of a sentence's words, each with the place of the word's first token.
struct WordLabels {
  std::vector<int> tokens, labels;
};

struct WordModel {
  models::BertTokenClassifier<> model;
  std::shared_ptr<const std::vector<WordLabels>> words;   // of all splits; the label of a row is its number here
  std::shared_ptr<const std::vector<std::string>> names;  // of the labels

  WordModel(models::BertTokenClassifier<> m, std::shared_ptr<const std::vector<WordLabels>> w,
            std::shared_ptr<const std::vector<std::string>> n)
      : model(std::move(m)), words(std::move(w)), names(std::move(n)) {}
  WordModel(const WordModel& other, Cloning& c) : model(c(other.model)), words(other.words), names(other.names) {}

  TokenBatch inputs_of(const data::Batch& batch, Random&) const {
    std::vector<int> rows, labels;
    const std::vector<int> sentences = batch.labels.host();
    for (std::size_t b = 0; b < sentences.size(); ++b) {
      const WordLabels& each = (*words)[static_cast<std::size_t>(sentences[b])];
      for (const int token : each.tokens) rows.push_back(batch.sequences.begins()[b] + token);
      labels.insert(labels.end(), each.labels.begin(), each.labels.end());
    }
    const auto tensor = [](const std::vector<int>& values) { return Tensor<int>({std::ssize(values)}, values); };
    return {batch.ids, batch.sequences, tensor(rows), tensor(labels)};
  }

  template <class A>
  Tensor<A> forward(const Tensor<int>& ids, const Sequences& sequences,
                    const models::ForwardOptions<A>& options = {}) const {  // [N, C]
    return model.template forward<A>(ids, sequences, options);
  }
  template <class A>
  Tensor<A> forward(const TokenBatch& batch, Random* random) const {  // [M, C]
    return take_rows(forward<A>(batch.ids, batch.sequences, {.random = random}), batch.rows);
  }

  // Counts words, and entities if all labels are tags of entities.
  class Tally {
   public:
    explicit Tally(const std::vector<std::string>& names) : names_(names) {
      std::set<std::string> types;
      for (const std::string& name : names) {
        const bool is_tag = name == "O" || (name.size() > 2 && name[1] == '-' && std::strchr("BIES", name[0]));
        has_entities_ = has_entities_ && is_tag;
        if (name.size() > 2) types.insert(name.substr(2));
      }
      types_.assign(types.begin(), types.end());
    }
    void add(Index /*first*/, const Tensor<float>& z, const TokenBatch& inputs) {
      const std::vector<Index> best = argmax(z, -1).host();
      const std::vector<int> labels = inputs.labels.host(), rows = inputs.rows.host();
      const std::vector<int>& begins = inputs.sequences.begins();
      std::vector<std::string> expected, predicted;
      std::size_t next = 0;
      for (std::size_t b = 0; b < begins.size(); ++b) {
        const int end = begins[b] + inputs.sequences.lengths()[b];
        for (expected.clear(), predicted.clear(); next < rows.size() && rows[next] < end; ++next) {
          expected.push_back(names_[static_cast<std::size_t>(labels[next])]);
          predicted.push_back(names_[static_cast<std::size_t>(best[next])]);
          ++words_;
          correct_ += labels[next] == best[next];
        }
        if (has_entities_) entities_.add(expected, predicted);
      }
    }
    std::span<double> numbers() {
      numbers_ = {words_, correct_};
      if (has_entities_) {
        const std::vector<double> sums = entities_.sums(types_);
        numbers_.insert(numbers_.end(), sums.begin(), sums.end());
      }
      return numbers_;
    }
    void report(SplitScores& scores) const {
      if (has_entities_) {
        train::EntityScores all;
        all.add_sums(types_, std::span(numbers_).subspan(2));
        scores.metrics = {{"f1", all.all().f1()}, {"precision", all.all().precision()}, {"recall", all.all().recall()}};
      }
      scores.metrics.push_back({"accuracy", numbers_[0] == 0 ? 0 : numbers_[1] / numbers_[0]});
    }

   private:
    const std::vector<std::string>& names_;
    std::vector<std::string> types_;  // of the entities
    bool has_entities_ = true;
    double words_ = 0, correct_ = 0;
    train::EntityScores entities_;
    std::vector<double> numbers_;
  };
  Tally tally(const data::Corpus&, Index /*rows*/) const { return Tally(*names); }

  static void visit(auto& self, auto&& f) { f("", self.model); }
};

}  // namespace heddle::examples
