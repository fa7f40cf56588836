// A batch whose labels belong to some of its tokens, such as words or masked tokens.
#pragma once
#include "../common/evaluate.hpp"

namespace heddle::examples {

struct TokenBatch {
  Tensor<int> ids;  // [N] as the model reads them
  Sequences sequences;
  Tensor<int> rows, labels;  // [M] the rows of some tokens, ascending, and their labels

  TokenBatch to(Device device) const {
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
inline TokenBatch filled(const TokenBatch& batch, Index most) {
  const data::Batch texts = data::filled(data::Batch{batch.ids, batch.sequences, {}}, most);
  return {texts.ids, texts.sequences, data::filled(batch.rows, 0), data::filled(batch.labels, data::ignored_label)};
}

// Returns a part of a batch, as data::part().
inline TokenBatch part(const TokenBatch& batch, const BatchPart& place) {
  const std::vector<int> all = batch.rows.host();
  const Index first = place.first_row, last = first + place.rows;
  const auto begin = std::lower_bound(all.begin(), all.end(), first), end = std::lower_bound(begin, all.end(), last);
  std::vector<int> rows(begin, end);
  for (int& row : rows) row -= static_cast<int>(first);
  return {batch.ids.leading(first, last), data::part(batch.sequences, place), Tensor<int>({end - begin}, rows),
          batch.labels.leading(begin - all.begin(), end - all.begin())};
}

}  // namespace heddle::examples
