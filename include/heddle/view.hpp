// View and Columns: borrowed memory as kernels see it, and the tags that choose a kernel. All that nvcc and g++ share
// with cuda.hpp.
#pragma once
#include <cstdint>
#include <heddle/bf16.hpp>
#include <type_traits>

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "heddle cannot be compiled with -ffast-math or -ffinite-math-only: masks and NaN checks need real infinities"
#endif

namespace heddle {

// Of elements, rows and extents.
using Index = std::int64_t;

// Contiguous and row-major: x(i, j, k) with k fastest. Rank is static, extents are not.
template <class T, int Rank>
struct View {
  T* data;
  Index extent[Rank];

  // One index per axis, not checked.
  template <class... I>
  HEDDLE_HD T& operator()(I... i) const {
    static_assert(sizeof...(I) == Rank, "heddle::View: one index per axis");
    Index offset = 0;
    int axis = 0;
    ((offset = offset * extent[axis++] + static_cast<Index>(i)), ...);
    return data[offset];
  }
};

// `width` adjacent columns of a row-major matrix [rows, stride]: how attention sees q, k and v in one packed product.
// `data` points at the first column of row 0.
template <class T>
struct Columns {
  T* data;
  Index rows, width, stride;

  // Row n, column d of the block, not checked.
  HEDDLE_HD T& operator()(Index n, Index d) const { return data[n * stride + d]; }
};

namespace kernel {
// All columns of a matrix.
template <class T>
Columns<T> columns(View<T, 2> v) {
  return {v.data, v.extent[0], v.extent[1], v.extent[1]};
}

// What a product does with what its result held before.
enum class Into { set, add };
}  // namespace kernel

// Where a kernel runs. Overload on these tags; never branch on them inside a kernel.
struct Cpu {};
struct Cuda {};

}  // namespace heddle
