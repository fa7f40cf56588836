// How a permuted tensor finds its elements, on the host and on the GPU.
#pragma once
#include <algorithm>
#include <vector>

#include <heddle/shape.hpp>

namespace heddle {

// How a permuted tensor finds its elements: along its axis a there are extent[a], which stand stride[a] apart in the
// original. Axes that were neighbours and still are count as one.
struct Permutation {
  int rank = 0;
  Index extent[Shape::max_rank] = {1};
  Index stride[Shape::max_rank] = {1};

  // The axes are those of permute, counted from 0.
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

}  // namespace heddle
