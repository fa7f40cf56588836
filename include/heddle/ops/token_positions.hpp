// token_positions(ids, sequences, padding_id): the rows of a table of positions that RoBERTa's tokens take (Liu et al.
// 2019): the tokens of a sequence that are not padding are counted from padding_id + 1, and padding has row padding_id.
#pragma once
#include <heddle/core/sequences.hpp>
#include <heddle/ops/check_ids.hpp>

namespace heddle {

namespace kernel {
// Sequence b is the rows from begin(b) to begin(b) + length(b) - 1.
template <class Id>
void token_positions(Cpu, View<const Id, 1> ids, View<const int, 1> begin, View<const int, 1> length, Index padding_id,
                     View<int, 1> position) {
  const auto padding = static_cast<int>(padding_id);
  std::fill_n(position.data, position.extent[0], padding);
  for (Index b = 0; b < begin.extent[0]; ++b) {
    int last = padding;
    for (Index n = begin(b); n < begin(b) + length(b); ++n)
      if (static_cast<Index>(ids(n)) != padding_id) position(n) = ++last;
  }
}
}  // namespace kernel

/// Returns the row of a table of positions for each token, [N]: padding_id + k for the k-th token of its sequence that
/// is not `padding_id`, where k counts from 1, and padding_id for a padding token and for a row outside all sequences.
/// These are the position ids of RoBERTa in transformers. Ids on the host may be used with sequences on a GPU. @throws
/// ShapeError unless there is an id for each row of the sequences, and IndexError for a negative padding_id and for
/// positions above 2^31 - 1.
template <class Id>
Tensor<int> token_positions(const Tensor<Id>& ids,  // [N] or [B, T], int or int64
                            const Sequences& sequences, Index padding_id) {
  static_assert(kernel::is_label<Id>, "heddle: ids and rows must be int or int64");
  if (detail::are_on_host_for(sequences.device(), ids))
    return token_positions(ids.to(sequences.device()), sequences, padding_id);
  require<ShapeError>(ids.size() == sequences.rows(), "token_positions: ids ", ids.shape(),
                      " must have one element for each of the ", sequences.rows(), " rows of the sequences");
  require(ids.device() == sequences.device(), "token_positions: ids are on ", ids.device(), ", their sequences are on ",
          sequences.device(), "; move one of them with .to(Device)");
  require<IndexError>(padding_id >= 0 && padding_id <= std::numeric_limits<int>::max() - sequences.longest(),
                      "token_positions: padding_id ", padding_id,
                      " must be at least 0, and positions at most 2^31 - 1");
  Tensor<int> position({ids.size()}, ids.device());
  dispatch(ids, [&](auto device) {
    kernel::token_positions(device, view<1>(ids), view<1>(sequences.begin()), view<1>(sequences.length()), padding_id,
                            view<1>(position));
  });
  return position;
}

}  // namespace heddle
