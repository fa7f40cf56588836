// Permutation: where kernels find the elements of a permuted tensor.
#pragma once
#include <algorithm>
#include <vector>

#include <heddle/base/shape.hpp>

namespace heddle::kernel {

// Axis a of the result has extent[a] elements, which are stride[a] elements apart in the original. Axes that are
// adjacent before and after are merged.
struct Permutation {
  int rank = 0;
  Index extent[Shape::max_rank] = {1};
  Index stride[Shape::max_rank] = {1};

  // `axes` are those of permute, counted from 0.
  Permutation(const Shape& shape, const std::vector<int>& axes) {
    for (const int axis : axes) {
      const Index n = shape[axis], step = shape.product(axis + 1, shape.rank());
      if (n == 1) continue;
      if (rank == 0 || stride[rank - 1] != n * step) extent[rank++] = 1;
      extent[rank - 1] *= n;
      stride[rank - 1] = step;
    }
    rank = std::max(rank, 1);
  }
};

}  // namespace heddle::kernel
