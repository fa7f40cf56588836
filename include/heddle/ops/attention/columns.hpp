// Columns of a matrix, as attention takes its operands.
#pragma once
#include <heddle/core/tensor.hpp>

namespace heddle {

/// Columns [first, first + width) of a matrix. A tensor converts to all its columns.
template <class T>
struct ColumnSlice {
  using Element = T;  ///< the type of an element
  Tensor<T> x;        ///< [N, D] or [B, T, D]
  Index first;        ///< the first of the columns
  Index width;        ///< their number

  /// Takes all columns of a tensor.
  ColumnSlice(const Tensor<T>& rows) : x(rows), first(0), width(rows.rank() > 0 ? rows.dim(-1) : 0) {}
  /// Takes columns [from, from + columns) without a check; heddle::columns() checks them first.
  ColumnSlice(const Tensor<T>& rows, Index from, Index columns) : x(rows), first(from), width(columns) {}

  /// Returns the shape of the columns.
  Shape shape() const { return x.rank() > 0 ? x.shape().with(-1, width) : x.shape(); }
  /// Returns the device.
  Device device() const { return x.device(); }
  /// Returns whether backward computes a gradient for x.
  bool requires_grad() const { return x.requires_grad(); }
  /// Returns whether x is not empty.
  explicit operator bool() const { return static_cast<bool>(x); }
};

/// Returns some columns of a matrix or of a padded batch, such as the queries, columns(qkv, 0, D), of qkv [N, 3 * D].
/// @throws ShapeError unless x has these columns.
template <class T>
ColumnSlice<T> columns(const Tensor<T>& x, Index first, Index width) {
  require<ShapeError>(x.rank() >= 2 && first >= 0 && width >= 0 && first <= x.dim(-1) - width, "columns: [", first,
                      ", ", first + width, ") is not within the last axis of ", x.shape());
  return {x, first, width};
}

}  // namespace heddle
