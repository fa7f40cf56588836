// Reduction: how the losses of elements or rows are combined.
#pragma once
#include <heddle/ops/arithmetic.hpp>

namespace heddle {

/// The result of a loss function: the mean or the sum of the elements' losses, the losses themselves (none), or their
/// sum divided by the extent of axis 0 (batch_mean).
enum class Reduction { mean, sum, none, batch_mean };

namespace detail {

// Returns x reshaped. Adds no node to the graph if x already has the shape.
template <class T>
Tensor<T> in_shape(const Tensor<T>& x, const Shape& shape) {
  return x.shape() == shape ? x : reshape(x, shape);
}

template <class T>
Tensor<T> reduce_loss(const char* op, const Tensor<T>& losses, Reduction reduction) {
  if (reduction == Reduction::none) return losses;
  if (reduction == Reduction::mean) return mean(losses);
  if (reduction == Reduction::sum) return sum(losses);
  require<ShapeError>(losses.rank() > 0, op, ": the reduction batch_mean needs an axis 0; the losses are ",
                      losses.shape());
  return sum(losses) / losses.dim(0);
}

}  // namespace detail
}  // namespace heddle
