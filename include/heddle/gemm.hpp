// gemm: the library's one matrix product, and the only caller of Eigen's. Suffixes as in BLAS, one letter an operand: n as
// stored, t transposed. The result is cut into fixed blocks for the threads; inside one Eigen runs alone, because its own threads wait
// for each other by spinning, which on a busy machine costs more than they gain.
#pragma once
#include <heddle/eigen.hpp>
#include <heddle/parallel.hpp>

namespace heddle::kernel {

// A matrix whose columns are all of its row.
template <class T>
Columns<T> columns(View<T, 2> v) {
  return {v.data, v.extent[0], v.extent[1], v.extent[1]};
}

template <class M>
Columns<typename M::Scalar> columns(Eigen::PlainObjectBase<M>& m) {
  return {m.data(), m.rows(), m.cols(), m.cols()};
}

// To read only.
template <class T>
Columns<const T> read(Columns<T> x) {
  return {x.data, x.rows, x.width, x.stride};
}

// What a product does with what its result held before.
enum class Into { set, add };

// Rows [first, last) of x, or of its transpose.
template <bool transposed, class T>
Columns<T> some_rows(Columns<T> x, Index first, Index last) {
  if constexpr (transposed) return {x.data + first, x.rows, last - first, x.stride};
  return {x.data + first * x.stride, last - first, x.width, x.stride};
}

// c = a b, or c += a b, on this thread alone: called as Eigen's own BLAS calls it, below its expressions, which would instantiate
// products of vectors and of small blocks for each pair of operands, seconds of compilation for whoever includes this.
template <bool transpose_a, bool transpose_b, class T>
void product(Columns<const T> a, Columns<const T> b, Columns<T> c, Into into) {
  if constexpr (std::is_same_v<T, Acc<T>>) {
    using Eigen::ColMajor, Eigen::Dynamic, Eigen::RowMajor;
    constexpr int order_a = transpose_a ? ColMajor : RowMajor, order_b = transpose_b ? ColMajor : RowMajor;
    const Index depth = transpose_a ? a.rows : a.width;
    if (into == Into::set) matrix(c).setZero();
    if (c.rows == 0 || c.width == 0 || depth == 0) return;
    Eigen::internal::gemm_blocking_space<RowMajor, T, T, Dynamic, Dynamic, Dynamic> blocking(c.rows, c.width, depth, 1,
                                                                                             true);
    Eigen::internal::general_matrix_matrix_product<Index, T, order_a, false, T, order_b, false, RowMajor, 1>::run(
        c.rows, c.width, depth, a.data, a.stride, b.data, b.stride, c.data, 1, c.stride, T(1), blocking, nullptr);
  } else {
    RowMatrix<Acc<T>> a_wide = load(matrix(a)), b_wide = load(matrix(b)), sum(c.rows, c.width);
    if (into == Into::add) sum = load(matrix(c));
    product<transpose_a, transpose_b>(read(columns(a_wide)), read(columns(b_wide)), columns(sum), into);
    store(matrix(c), sum);
  }
}

// Splits c by rows or by columns, whichever there are more of.
template <bool transpose_a, bool transpose_b, class T>
void parallel_product(Columns<const T> a, Columns<const T> b, Columns<T> c, Into into) {
  constexpr Index worth_a_thread = 2000000;  // multiplications
  constexpr Index kernel_rows = 16;          // of Eigen's innermost loop: blocks of whole ones
  const Index longer = std::max(c.rows, c.width), work = c.rows * c.width * (transpose_a ? a.rows : a.width);
  const Index least = longer * worth_a_thread / std::max<Index>(work, 1);
  const Index half = (longer + 1) / 2, grain = std::min(half, (least + kernel_rows - 1) / kernel_rows * kernel_rows);
  if (work < worth_a_thread / 20) return product<transpose_a, transpose_b>(a, b, c, into);
  parallel(longer, grain, [&](Index first, Index last) {
    if (c.rows == longer)
      product<transpose_a, transpose_b>(some_rows<transpose_a>(a, first, last), b, some_rows<false>(c, first, last),
                                        into);
    else
      product<transpose_a, transpose_b>(a, some_rows<!transpose_b>(b, first, last), some_rows<true>(c, first, last),
                                        into);
  });
}

// c [M, N] = a [M, K] b [K, N]
template <class T>
void gemm_nn(Cpu, Columns<const T> a, Columns<const T> b, Columns<T> c, Into into = Into::set) {
  parallel_product<false, false>(a, b, c, into);
}
// c [M, N] = a [M, K] b^T, b [N, K]
template <class T>
void gemm_nt(Cpu, Columns<const T> a, Columns<const T> b, Columns<T> c, Into into = Into::set) {
  parallel_product<false, true>(a, b, c, into);
}
// c [M, N] = a^T b [K, N], a [K, M]
template <class T>
void gemm_tn(Cpu, Columns<const T> a, Columns<const T> b, Columns<T> c, Into into = Into::set) {
  parallel_product<true, false>(a, b, c, into);
}

}  // namespace heddle::kernel
