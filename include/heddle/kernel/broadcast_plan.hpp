// BroadcastPlan: where kernels find the elements of broadcast operands.
#pragma once
#include <heddle/base/shape.hpp>

namespace heddle::kernel {

// The positions of N operands' elements for each element of the result. Axes are counted from the last. Adjacent axes
// are merged if each operand is repeated along both or along neither: equal shapes have one axis, a matrix and a row
// have two. There is at least one axis.
template <int N>
struct BroadcastPlan {
  int rank = 0;
  Index size = 1;
  Index extent[Shape::max_rank] = {1};
  Index stride[unsigned{N}][Shape::max_rank] = {};  // 0 if the operand is repeated along the axis; else 1 on axis 0

  // Returns the position in an operand of the first element of row n of the result. A row has extent[0] elements.
  HEDDLE_HD Index offset(int operand, Index n) const {
    Index at = 0;
    for (int a = 1; a < rank - 1; ++a) {
      at += n % extent[a] * stride[operand][a];
      n /= extent[a];
    }
    return rank > 1 ? at + n * stride[operand][rank - 1] : at;
  }
};

}  // namespace heddle::kernel
