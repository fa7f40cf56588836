// View and MatrixView: borrowed memory as kernels see it, on the host and on the GPU.
#pragma once
#include <type_traits>
#include <utility>

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

// Returns `width` columns of a matrix from column `first` on; without data for an empty tensor.
template <class TensorT>
auto matrix_view(TensorT& x, Index first, Index width) {
  using E = std::remove_pointer_t<decltype(x.device_data())>;
  return x ? MatrixView<E>{x.device_data() + first, x.dim(0), width, x.dim(1)} : MatrixView<E>{nullptr, 0, width, 0};
}

// Returns a matrix as a MatrixView: a View, a matrix of Eigen, a tensor, whose leading axes are folded, or a
// ColumnSlice.
template <class M>
auto matrix_view(M&& m) {
  if constexpr (requires { m.extent; }) {
    return MatrixView<std::remove_pointer_t<decltype(m.data)>>{m.data, m.extent[0], m.extent[1], m.extent[1]};
  } else if constexpr (requires { m.cols(); }) {
    return MatrixView<std::remove_pointer_t<decltype(m.data())>>{m.data(), m.rows(), m.cols(), m.cols()};
  } else if constexpr (requires { m.first; }) {
    return matrix_view(std::as_const(m.x), m.first, m.width);
  } else {
    return matrix_view(view<2>(m));
  }
}

// Returns a read-only view.
template <class T>
MatrixView<const T> as_const(MatrixView<T> x) {
  return {x.data, x.rows, x.width, x.stride};
}

// The use of a product: it overwrites its output, or it is added to it.
enum class Into { set, add };

}  // namespace kernel
}  // namespace heddle
