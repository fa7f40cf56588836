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

// What a product does with what its result held before.
enum class Into { set, add };

template <class A, class B, class C>
void product(const A& a, const B& b, C&& c, Into into) {
  if constexpr (std::is_same_v<typename A::Scalar, Eigen::bfloat16>) {
    RowMatrix<float> sum = a.template cast<float>() * b.template cast<float>();
    if (into == Into::add) sum += c.template cast<float>();
    c = sum.template cast<Eigen::bfloat16>();
  } else if (into == Into::add) {
    c.noalias() += a * b;
  } else {
    c.noalias() = a * b;
  }
}

// Splits c by rows or by columns, whichever there are more of.
template <class A, class B, class C>
void parallel_product(const A& a, const B& b, C c, Into into) {
  constexpr Index eigen_alone = 100000;  // multiplications, below which Eigen starts no threads
  constexpr Index worth_a_thread = 2000000;
  const Index longer = std::max(c.rows(), c.cols()), work = c.rows() * c.cols() * a.cols();
  if (work < eigen_alone) return product(a, b, c, into);
  const Index least = std::max<Index>(1, longer * worth_a_thread / work);
  constexpr Index kernel_rows = 16;  // of Eigen's innermost loop: blocks of whole ones
  const Index half = (longer + 1) / 2, grain = std::min(half, (least + kernel_rows - 1) / kernel_rows * kernel_rows);
  parallel(longer, grain, [&](Index first, Index last) {
    if (c.rows() == longer)
      product(a.middleRows(first, last - first), b, c.middleRows(first, last - first), into);
    else
      product(a, b.middleCols(first, last - first), c.middleCols(first, last - first), into);
  });
}

// c [M, N] = a [M, K] b [K, N]
template <class T>
void gemm_nn(Cpu, Columns<const T> a, Columns<const T> b, Columns<T> c, Into into = Into::set) {
  parallel_product(matrix(a), matrix(b), matrix(c), into);
}
// c [M, N] = a [M, K] b^T, b [N, K]
template <class T>
void gemm_nt(Cpu, Columns<const T> a, Columns<const T> b, Columns<T> c, Into into = Into::set) {
  parallel_product(matrix(a), matrix(b).transpose(), matrix(c), into);
}
// c [M, N] = a^T b [K, N], a [K, M]
template <class T>
void gemm_tn(Cpu, Columns<const T> a, Columns<const T> b, Columns<T> c, Into into = Into::set) {
  parallel_product(matrix(a).transpose(), matrix(b), matrix(c), into);
}

}  // namespace heddle::kernel
