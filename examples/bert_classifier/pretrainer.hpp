// Masked language modelling (Devlin et al. 2019, section 3.1): a BERT or one of its relatives learns to restore tokens
// that are hidden from it.
#pragma once
#include <heddle/models/bert.hpp>

#include "token_batch.hpp"

namespace heddle::examples {

// The ids of [MASK] and of the tokens that are never hidden, such as [CLS].
struct MaskTokens {
  int mask;
  std::vector<int> kept;
};

struct Pretrainer {
  models::BertMaskedLm<> model;
  MaskTokens tokens;

  Pretrainer(const models::BertConfig& config, MaskTokens mask_tokens, Random& random)
      : model(config, random), tokens(std::move(mask_tokens)) {}
  Pretrainer(const Pretrainer& other, Cloning& c) : model(c(other.model)), tokens(other.tokens) {}

  // Chooses each token of a batch on the host, except the kept ones, as a label with a probability of 15 %, but at
  // least one token: a kept one if all are. In the input, 80 % of these tokens are replaced by [MASK], 10 % by a token
  // drawn from the vocabulary, and the rest stay. Throws Error for a batch without tokens.
  TokenBatch inputs_of(const data::Batch& batch, Random& hiding) const {
    std::vector<int> ids = batch.ids.host(), rows, labels, candidates;
    const std::vector<int>& begins = batch.sequences.begins();
    for (std::size_t b = 0; b < begins.size(); ++b)
      for (int row = begins[b]; row < begins[b] + batch.sequences.lengths()[b]; ++row)
        if (std::find(tokens.kept.begin(), tokens.kept.end(), ids[static_cast<std::size_t>(row)]) == tokens.kept.end())
          candidates.push_back(row);
    require(!ids.empty(), "pre-training: a batch has no tokens");
    if (candidates.empty()) candidates.push_back(0);  // texts of token files may be blank
    const auto below = [&](std::uint64_t n) {
      return static_cast<int>(hiding.next() % n);
    };  // the bias is below n / 2^64
    for (const int row : candidates)
      if (below(100) < 15) rows.push_back(row);
    if (rows.empty()) rows.push_back(candidates[static_cast<std::size_t>(below(candidates.size()))]);
    for (const int row : rows) {
      int& id = ids[static_cast<std::size_t>(row)];
      labels.push_back(id);
      const int how = below(10), drawn = below(static_cast<std::uint64_t>(model.config().vocabulary));
      if (how < 8)
        id = tokens.mask;
      else if (how == 8)
        id = drawn;
    }
    const auto tensor = [](const std::vector<int>& values) {
      return Tensor<int>({static_cast<Index>(values.size())}, values);
    };
    return {tensor(ids), batch.sequences, tensor(rows), tensor(labels)};
  }

  template <class A>
  Tensor<A> forward(const TokenBatch& batch, Random* random) const {  // [M, V]
    return model.forward<A>(batch.ids, batch.sequences, batch.rows, {.random = random});
  }

  // Counts hidden tokens: each has the label 1, and the prediction 1 if its id has the highest logit, otherwise 0.
  struct Tally : ClassTally {
    Tally() : ClassTally(2) {}
    void add(Index, const Tensor<float>& z, const TokenBatch& inputs) {
      const std::vector<Index> best = argmax(z, -1).host();
      const std::vector<int> labels = inputs.labels.host();
      for (std::size_t m = 0; m < labels.size(); ++m) ClassTally::add(1, best[m] == labels[m]);
    }
  };
  Tally tally(const data::Corpus&, Index /*rows*/) const { return {}; }

  static void visit(auto& self, auto&& f) { f("", self.model); }
};

}  // namespace heddle::examples
