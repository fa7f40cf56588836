// View and MatrixView: borrowed memory as kernels see it, on the host and on the GPU.
#pragma once
#include <heddle/base/build.hpp>

namespace heddle {

/// A contiguous, row-major array that is owned elsewhere: x(i, j, k), with k fastest. The number of axes is static, the
/// extents are not.
template <class T, int Rank>
struct View {
  T* data;                       ///< the first element
  Index extent[unsigned{Rank}];  ///< the extents of the axes

  /// Returns one element: one index per axis, without a bounds check.
  template <class... Indices>
  HEDDLE_HD T& operator()(Indices... i) const {
    static_assert(sizeof...(Indices) == Rank, "heddle::View: one index per axis");
    Index offset = 0;
    int axis = 0;
    ((offset = offset * extent[axis++] + static_cast<Index>(i)), ...);
    return data[offset];
  }
};

/// `width` adjacent columns of a row-major matrix whose rows are `stride` elements apart. Attention sees q, k and v
/// this way when they are columns of one matrix [N, 3 * D].
template <class T>
struct MatrixView {
  T* data;       ///< the first column of row 0
  Index rows;    ///< number of rows
  Index width;   ///< number of columns
  Index stride;  ///< elements from one row to the next

  /// Returns the element in row n and column d, without a bounds check.
  HEDDLE_HD T& operator()(Index n, Index d) const { return data[n * stride + d]; }
};

namespace kernel {

// Returns a matrix as a MatrixView of all its columns.
template <class T>
MatrixView<T> matrix_view(View<T, 2> v) {
  return {v.data, v.extent[0], v.extent[1], v.extent[1]};
}

// The use of a product: it overwrites its output, or it is added to it.
enum class Into { set, add };

}  // namespace kernel
}  // namespace heddle
