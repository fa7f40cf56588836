// A sentence encoder in training: its losses on pairs and triples of texts, and its scores on a split.
#pragma once
#include <heddle/models/sentence_losses.hpp>
#include <heddle/models/sentence_modules.hpp>
#include <heddle/train/regression_scores.hpp>
#include <heddle/train/retrieval_scores.hpp>

#include "../common/evaluate.hpp"

namespace heddle::examples {

// The examples of all splits. An example consists of two or three texts: a text, one that belongs to it, and, for some
// losses, one that does not.
struct TextSets {
  struct Example {
    std::vector<int> lengths;  // tokens of each text
    std::vector<int> texts;    // the number of each text among all distinct texts
    float score = 0;           // the similarity of the first two texts
    bool has_score = false;
  };
  std::vector<Example> examples;
};

// A batch of examples, whose labels are 1. The texts of an example follow each other.
struct TextSetBatch {
  Tensor<int> ids;       // [N]
  Sequences sequences;   // B * K texts
  Tensor<int> labels;    // [B] of examples
  Tensor<float> scores;  // [B] the similarities; empty without them

  TextSetBatch to(Device device) const {
    return {ids.to(device), sequences.to(device), labels ? labels.to(device) : labels,
            scores ? scores.to(device) : scores};
  }
  template <class F>
  void each_input(F&& f) {
    f(ids);
    f(sequences);
    f(labels);
    f(scores);
  }
};
// Steps are not replayed, so no batch is filled up.
inline TextSetBatch filled(const TextSetBatch& batch, Index) { return batch; }
// Returns the texts of a part of a batch, without labels.
inline TextSetBatch part(const TextSetBatch& batch, const BatchPart& place) {
  return {batch.ids.leading(place.first_row, place.first_row + place.rows), data::part(batch.sequences, place), {}, {}};
}

// The loss of an encoder, and its options.
struct SentenceTraining {
  std::string loss = "in_batch";  // in_batch, triplet or cosine
  double temperature = 0.05, margin = 5;
  bool cosine_distance = false;  // of triplets; otherwise Euclidean
};

struct SentenceTrainee {
  static constexpr bool compares_rows = true;

  models::detail::SentenceModel model;
  // The pooler of BERT and of some relatives. No vector reads it, but transformers misses it in a folder without it.
  std::optional<nn::Linear<>> pooler{};
  const char* pooler_name;  // empty if the model has none
  SentenceTraining training;
  Index prompt;      // tokens of the prompt before each text
  Index dimensions;  // elements of a vector
  std::shared_ptr<const TextSets> sets;

  SentenceTrainee(models::detail::SentenceModel m, const SentenceTraining& t, Index prompt_tokens, Index width,
                  std::shared_ptr<const TextSets> s)
      : model(std::move(m)),
        pooler_name(models::detail::form_of(model.encoder.config.family).pooler),
        training(t),
        prompt(prompt_tokens),
        dimensions(width),
        sets(std::move(s)) {}

  Index width() const { return dimensions; }

  TextSetBatch inputs_of(const data::Batch& batch, Random&) const {
    std::vector<int> lengths;
    std::vector<float> scores;
    for (const int number : batch.labels.host()) {
      const TextSets::Example& each = sets->examples[static_cast<std::size_t>(number)];
      lengths.insert(lengths.end(), each.lengths.begin(), each.lengths.end());
      if (each.has_score) scores.push_back(each.score);
    }
    const Index count = batch.labels.size();
    return {batch.ids, Sequences::packed(lengths), full<int>({count}, 1),
            scores.empty() ? Tensor<float>() : Tensor<float>({count}, scores)};
  }

  template <class A>
  Tensor<float> forward(const Tensor<int>& ids, const Sequences& sequences,
                        const models::ForwardOptions<A>& options = {}) const {  // [texts, D]
    return model.template vectors<A>(ids, sequences, prompt, options.random);
  }
  template <class A>
  Tensor<float> forward(const TextSetBatch& batch, Random* random) const {  // [B * K, D]
    return forward<A>(batch.ids, batch.sequences, {.random = random});
  }

  // Returns the mean loss of vectors [B * K, D]. Examples with a score have the loss of cosine regression.
  Tensor<float> loss(const Tensor<float>& vectors, const TextSetBatch& batch) const {
    const std::vector<Tensor<float>> texts = by_place(vectors, batch);
    if (batch.scores) return models::cosine_similarity_loss(texts[0], texts[1], batch.scores);
    if (training.loss == "triplet")
      return models::triplet_loss(
          texts[0], texts[1], texts[2],
          {.distance = training.cosine_distance ? models::TripletDistance::cosine : models::TripletDistance::euclidean,
           .margin = training.margin});
    return models::multiple_negatives_ranking_loss(texts[0], candidates(texts), {.temperature = training.temperature});
  }
  // Returns 1 for each example whose text is closer to the one that belongs to it than to the others, otherwise 0.
  Tensor<Index> predicted(const Tensor<float>& vectors, const TextSetBatch& batch) const {
    const std::vector<Tensor<float>> texts = by_place(vectors, batch);
    const Index count = batch.labels.dim(0);
    if (batch.scores) return full<Index>({count}, 0, vectors.device());
    if (training.loss == "triplet" && training.cosine_distance)
      return cast<Index>(cosine_similarity(texts[0], texts[1]) > cosine_similarity(texts[0], texts[2]));
    if (training.loss == "triplet")
      return cast<Index>(norm(texts[0] - texts[1], 2, {1}) < norm(texts[0] - texts[2], 2, {1}));
    const Tensor<float> scores = matmul(normalize(texts[0]), normalize(candidates(texts)), {.transpose_b = true});
    return cast<Index>(argmax(scores, 1) == arange<Index>(count, vectors.device()));
  }
  bool has_accuracy() const { return training.loss != "cosine"; }

  // Collects the similarities of the examples of a split if they have scores, otherwise their vectors.
  class Tally {
   public:
    Tally(const SentenceTrainee& model, const data::Corpus& split, Index rows) : rows_(rows), width_(model.dimensions) {
      if (rows == 0) return;
      examples_ = std::span(model.sets->examples).subspan(at(split.label(0)), at(rows));
      texts_ = std::ssize(examples_[0].lengths);
      each_ = has_scores() ? 2 : texts_ * width_;
      numbers_.resize(at(rows * each_));
    }
    void add(Index first, const Tensor<float>& vectors, const TextSetBatch& batch) {
      double* to = numbers_.data() + first * each_;
      if (!has_scores()) {
        std::copy_n(vectors.data(), vectors.size(), to);
        return;
      }
      const std::vector<Tensor<float>> texts = by_place(vectors, batch);
      for (const float cosine : cosine_similarity(texts[0], texts[1]).host()) {
        to[0] = double{examples_[at(first++)].score};
        to[1] = double{cosine};
        to += 2;
      }
    }
    std::span<double> numbers() { return numbers_; }
    void report(SplitScores& scores) const {
      if (rows_ == 0) return;
      if (!has_scores()) {
        search(scores);
        return;
      }
      train::RegressionScores found;
      for (Index row = 0; row < rows_; ++row) found.add(numbers_[at(2 * row)], numbers_[at(2 * row + 1)]);
      scores.metrics = {{"spearman", found.spearman()}, {"pearson", found.pearson()}};
    }

   private:
    static constexpr Index most_found = 10;

    static std::size_t at(Index i) { return static_cast<std::size_t>(i); }
    bool has_scores() const { return examples_[0].has_score; }

    // Searches the text that belongs to each first text, among all texts that are not first. Equal texts are one.
    void search(SplitScores& scores) const {
      std::map<int, Index> queries, documents;  // the row of each text in the matrices
      std::vector<float> of_queries, of_documents;
      std::vector<int> query_texts, document_texts;
      std::vector<std::set<Index>> relevant;
      const auto add = [&](std::map<int, Index>& rows, std::vector<int>& texts, std::vector<float>& values, Index row,
                           Index place) {
        const int text = examples_[at(row)].texts[at(place)];
        const auto [found, is_new] = rows.emplace(text, std::ssize(rows));
        if (is_new) {
          const auto begin = numbers_.begin() + row * each_ + place * width_;
          std::transform(begin, begin + width_, std::back_inserter(values),
                         [](double x) { return static_cast<float>(x); });
          texts.push_back(text);
        }
        return found->second;
      };
      for (Index row = 0; row < rows_; ++row) {
        const Index query = add(queries, query_texts, of_queries, row, 0);
        relevant.resize(queries.size());
        for (Index place = 1; place < texts_; ++place) {
          const Index document = add(documents, document_texts, of_documents, row, place);
          if (place == 1 && examples_[at(row)].texts[0] != examples_[at(row)].texts[1])
            relevant[at(query)].insert(document);
        }
      }
      const auto matrix = [&](const std::vector<float>& values) {
        return normalize(Tensor<float>({std::ssize(values) / width_, width_}, values));
      };
      const Tensor<float> wanted = matrix(of_queries), all = matrix(of_documents);
      train::RetrievalScores found;
      constexpr Index block = 256;
      for (Index first = 0; first < wanted.dim(0); first += block) {
        const Index last = std::min(first + block, wanted.dim(0));
        const Tensor<float> cosines = matmul(slice(wanted, 0, first, last), all, {.transpose_b = true});
        for (Index query = first; query < last; ++query) {
          if (relevant[at(query)].empty()) continue;
          const float* const row = cosines.data() + (query - first) * all.dim(0);
          std::vector<Index> order;
          for (Index d = 0; d < all.dim(0); ++d)
            if (document_texts[at(d)] != query_texts[at(query)]) order.push_back(d);  // a text does not find itself
          const Index count = std::min(most_found, std::ssize(order));
          std::partial_sort(order.begin(), order.begin() + count, order.end(),
                            [&](Index a, Index b) { return row[a] != row[b] ? row[a] > row[b] : a < b; });
          order.resize(at(count));
          found.add(order, std::vector<Index>(relevant[at(query)].begin(), relevant[at(query)].end()));
        }
      }
      scores.metrics = {{"recall_at_10", found.recall_at(most_found)}, {"ndcg_at_10", found.ndcg_at(most_found)}};
    }

    Index rows_, width_, texts_ = 0, each_ = 0;  // each_: numbers of a row
    std::span<const TextSets::Example> examples_;
    std::vector<double> numbers_;
  };
  Tally tally(const data::Corpus& split, Index rows) const { return {*this, split, rows}; }

  static void visit(auto& self, auto&& f) {
    f("", self.model.encoder);
    f(self.pooler_name, self.pooler);
  }

 private:
  // Returns the vectors [B, D] of the first texts of all examples, of the second ones, and of the third ones.
  static std::vector<Tensor<float>> by_place(const Tensor<float>& vectors, const TextSetBatch& batch) {
    const Index B = batch.labels.dim(0), D = vectors.dim(1), K = vectors.dim(0) / B;
    const Tensor<float> sets = reshape(vectors, {B, K, D});
    std::vector<Tensor<float>> texts;
    for (Index k = 0; k < K; ++k) texts.push_back(reshape(slice(sets, 1, k, k + 1), {B, D}));
    return texts;
  }
  static Tensor<float> candidates(const std::vector<Tensor<float>>& texts) {
    return texts.size() > 2 ? concat({texts[1], texts[2]}) : texts[1];
  }
};

}  // namespace heddle::examples
