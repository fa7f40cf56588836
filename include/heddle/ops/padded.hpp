// Padded batches [B, T, ...] as rows and back, for the operations and layers that take Sequences.
#pragma once
#include <heddle/core/sequences.hpp>
#include <heddle/ops/reshape.hpp>

namespace heddle::detail {

// Returns the shape of the rows [B * T, ...] of a padded batch [B, T, ...] of these sequences, and any other shape as
// it is.
inline Shape shape_of_rows(const Shape& x, const Sequences& sequences) {
  return is_padded_batch(x, sequences) ? x.without(0).with(0, sequences.rows()) : x;
}
// Returns a padded batch of these sequences as its rows, and any other x as it is.
template <class T>
Tensor<T> rows_of_batch(const Tensor<T>& x, const Sequences& sequences) {
  if (!is_padded_batch(x.shape(), sequences)) return x;
  return reshape(x, shape_of_rows(x.shape(), sequences));
}

// Returns rows [N, D] as a padded batch [B, T, D], if the operand of shape `given` was one; otherwise the rows
// as they are.
template <class T>
Tensor<T> rows_as_given(const Tensor<T>& rows, const Shape& given, const Sequences& sequences) {
  return is_padded_batch(given, sequences) ? reshape(rows, given.with(-1, rows.dim(-1))) : rows;
}

}  // namespace heddle::detail
