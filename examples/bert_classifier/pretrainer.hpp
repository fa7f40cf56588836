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

// A batch with hidden tokens, which the model shall restore.
struct MaskedBatch {
  Tensor<int> ids;  // [N] as the model reads them
  Sequences sequences;
  Tensor<int> rows, labels;  // [M] the rows of the hidden tokens, and their ids

  MaskedBatch to(Device device) const {
    return {ids.to(device), sequences.to(device), rows.to(device), labels.to(device)};
  }
  template <class F>
  void each_input(F&& f) {
    f(ids);
    f(sequences);
    f(rows);
    f(labels);
  }
};

// Returns a batch filled up as by data::filled(), with labels that the loss ignores.
inline MaskedBatch filled(const MaskedBatch& batch, Index most) {
  const data::Batch texts = data::filled(data::Batch{batch.ids, batch.sequences, {}}, most);
  return {texts.ids, texts.sequences, data::filled(batch.rows, 0), data::filled(batch.labels, data::ignored_label)};
}

// Returns a part of a batch, as data::part(). The rows are ascending.
inline MaskedBatch part(const MaskedBatch& batch, const BatchPart& place) {
  const std::vector<int> all = batch.rows.host();
  const Index first = place.first_row, last = first + place.rows;
  const auto begin = std::lower_bound(all.begin(), all.end(), first), end = std::lower_bound(begin, all.end(), last);
  std::vector<int> rows(begin, end);
  for (int& row : rows) row -= static_cast<int>(first);
  return {batch.ids.leading(first, last), data::part(batch.sequences, place), Tensor<int>({end - begin}, rows),
          batch.labels.leading(begin - all.begin(), end - all.begin())};
}

struct Pretrainer {
  models::BertMaskedLm<> model;
  MaskTokens tokens;

  Pretrainer(const models::BertConfig& config, MaskTokens mask_tokens, Random& random)
      : model(config, random), tokens(std::move(mask_tokens)) {}
  Pretrainer(const Pretrainer& other, Cloning& c) : model(c(other.model)), tokens(other.tokens) {}

  // Chooses each token of a batch on the host, except the kept ones, as a label with a probability of 15 %, but at
  // least one token: a kept one if all are. In the input, 80 % of these tokens are replaced by [MASK], 10 % by a token
  // drawn from the vocabulary, and the rest stay. Throws Error for a batch without tokens.
  MaskedBatch inputs_of(const data::Batch& batch, Random& hiding) const {
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
  Tensor<A> forward(const MaskedBatch& batch, Random* random) const {  // [M, V]
    return model.forward<A>(batch.ids, batch.sequences, batch.rows, {.random = random});
  }

  static void visit(auto& self, auto&& f) { f("", self.model); }
};

}  // namespace heddle::examples
