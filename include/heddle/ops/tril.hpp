// tril(x, diagonal): the lower triangle of matrices.
#pragma once
#include <heddle/ops/where.hpp>

namespace heddle {

/// Returns the elements of the last two axes on and below a diagonal, and zeros above it. Diagonal 0 is the main
/// diagonal, k > 0 the k-th above it, and k < 0 the |k|-th below it. @throws ShapeError for fewer than two axes.
template <class T>
Tensor<T> tril(const Tensor<T>& x,  // [..., M, N]
               Index diagonal = 0) {
  require<ShapeError>(x.rank() >= 2, "tril: x ", x.shape(), " must have at least 2 axes");
  Tensor<bool> above({x.dim(-2), x.dim(-1)});
  bool* out = above.data();
  for (Index m = 0; m < above.dim(0); ++m)
    for (Index n = 0; n < above.dim(1); ++n) *out++ = n - m > diagonal;
  return masked_fill(x, above.to(x.device()), 0);
}

}  // namespace heddle
