// gemm: the library's one matrix product, and the only caller of Eigen's. Suffixes as in BLAS, one letter an operand: n as
// stored, t transposed.
#pragma once
#include <heddle/eigen.hpp>

namespace heddle::kernel {

// A matrix whose columns are all of its row.
template <class T>
Columns<T> columns(View<T, 2> v) {
  return {v.data, v.extent[0], v.extent[1], v.extent[1]};
}

// What a product does with what its result held before.
enum class Into { set, add };

template <class T, class A, class B>
void product(const A& a, const B& b, Columns<T> c, Into into) {
  if constexpr (std::is_same_v<T, bf16>) {
    RowMatrix<float> sum = a.template cast<float>() * b.template cast<float>();
    if (into == Into::add) sum += matrix(c).template cast<float>();
    matrix(c) = sum.template cast<EigenScalar<bf16>>();
  } else if (into == Into::add) {
    matrix(c).noalias() += a * b;
  } else {
    matrix(c).noalias() = a * b;
  }
}

// c [M, N] = a [M, K] b [K, N]
template <class T>
void gemm_nn(Cpu, Columns<const T> a, Columns<const T> b, Columns<T> c, Into into = Into::set) {
  product(matrix(a), matrix(b), c, into);
}
// c [M, N] = a [M, K] b^T, b [N, K]
template <class T>
void gemm_nt(Cpu, Columns<const T> a, Columns<const T> b, Columns<T> c, Into into = Into::set) {
  product(matrix(a), matrix(b).transpose(), c, into);
}
// c [M, N] = a^T b [K, N], a [K, M]
template <class T>
void gemm_tn(Cpu, Columns<const T> a, Columns<const T> b, Columns<T> c, Into into = Into::set) {
  product(matrix(a).transpose(), matrix(b), c, into);
}

}  // namespace heddle::kernel
