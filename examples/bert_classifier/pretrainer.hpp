// Masked language modelling (Devlin et al. 2019, section 3.1): BERT learns to restore tokens that are hidden from it.
#pragma once
#include <heddle/models/bert.hpp>

#include "../common/evaluate.hpp"

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

  // Chooses each of the batch's tokens, except the kept ones, as a label with a probability of 15 %, but at least one
  // token. In the input, 80 % of these tokens are replaced by [MASK], 10 % by a token drawn from the vocabulary, and
  // the rest stay. Throws Error for a batch in which every token is kept.
  template <class A>
  Scored score(const data::Batch& batch, Random& hiding, Random* random) const {
    std::vector<int> ids = batch.ids.host(), rows, labels, candidates;
    const std::vector<int>& begins = batch.sequences.begins();
    for (std::size_t b = 0; b < begins.size(); ++b)
      for (int row = begins[b]; row < begins[b] + batch.sequences.lengths()[b]; ++row)
        if (std::find(tokens.kept.begin(), tokens.kept.end(), ids[static_cast<std::size_t>(row)]) == tokens.kept.end())
          candidates.push_back(row);
    require(!candidates.empty(),
            "pre-training: every token of a batch is special; give texts with tokens that can be masked");
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
    const auto to_device = [&](const std::vector<int>& values) {
      return Tensor<int>({static_cast<Index>(values.size())}, values).to(batch.ids.device());
    };
    const Tensor<A> z =
        model.forward<A>(to_device(ids), batch.sequences, to_device(rows), {.random = random});  // [M, V]
    return {cast<float>(z), to_device(labels)};
  }

  static void visit(auto& self, auto&& f) { f("", self.model); }
};

}  // namespace heddle::examples
