// How CPU kernels see memory: as Eigen rows, arrays and matrices. No other header names Eigen's types.
#pragma once
#include <Eigen/Core>

#include <heddle/dispatch.hpp>

namespace heddle {

// Eigen's type for T: its own bfloat16 for bf16, whose bits are the same.
template <class T>
using EigenScalar =
    std::conditional_t<std::is_same_v<std::remove_const_t<T>, bf16>, Eigen::bfloat16, std::remove_const_t<T>>;
static_assert(sizeof(Eigen::bfloat16) == sizeof(bf16) && alignof(Eigen::bfloat16) == alignof(bf16));

// An array [n] and a row-major matrix of T that own their memory.
template <class T>
using RowArray = Eigen::Array<EigenScalar<T>, 1, Eigen::Dynamic>;
// See RowArray.
template <class T>
using RowMatrix = Eigen::Matrix<EigenScalar<T>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

namespace kernel {

template <class T, class Plain, class Stride = Eigen::Stride<0, 0>>
using EigenMap = Eigen::Map<std::conditional_t<std::is_const_v<T>, const Plain, Plain>, Eigen::Unaligned, Stride>;

template <class T>
auto eigen_pointer(T* p) {
  using E = std::conditional_t<std::is_const_v<T>, const EigenScalar<T>, EigenScalar<T>>;
  return reinterpret_cast<E*>(p);
}

template <class T>
auto array(T* data, Index size) {
  return EigenMap<T, RowArray<T>>(eigen_pointer(data), size);
}
template <class T>
auto array(View<T, 1> v) {
  return array(v.data, v.extent[0]);
}
template <class T>
auto row(View<T, 2> v, Index n) {
  return array(v.data + n * v.extent[1], v.extent[1]);
}
template <class T>
auto row(Columns<T> v, Index n) {
  return array(v.data + n * v.stride, v.width);
}
template <class T>
auto matrix(View<T, 2> v) {
  return EigenMap<T, RowMatrix<T>>(eigen_pointer(v.data), v.extent[0], v.extent[1]);
}
template <class T>
auto matrix(Columns<T> v) {
  return EigenMap<T, RowMatrix<T>, Eigen::OuterStride<>>(eigen_pointer(v.data), v.rows, v.width,
                                                         Eigen::OuterStride<>(v.stride));
}

// load(row(x, n)) is in the type that T accumulates in; store(row(y, n), e) rounds once.
template <class E>
auto load(const E& e) {
  if constexpr (std::is_same_v<typename E::Scalar, Eigen::bfloat16>)
    return e.template cast<float>();
  else
    return e;
}
template <class Row, class E>
void store(Row&& row, const E& e) {
  using Scalar = typename std::remove_cvref_t<Row>::Scalar;
  if constexpr (std::is_same_v<Scalar, typename E::Scalar>)
    row = e;
  else
    row = e.template cast<Scalar>();
}

}  // namespace kernel

// A row-major Eigen matrix, array or map of the user's as a tensor [rows, columns] on the same memory; nothing is copied, and it
// must outlive every handle.
template <class Derived>
auto wrap(Eigen::PlainObjectBase<Derived>& m) {
  static_assert(Derived::IsRowMajor, "heddle::wrap: the matrix must be row-major");
  return Tensor<typename Derived::Scalar>::wrap(m.data(), {m.rows(), m.cols()});
}
template <class Plain, int Options>
auto wrap(Eigen::Map<Plain, Options, Eigen::Stride<0, 0>>& m) {
  static_assert(Plain::IsRowMajor, "heddle::wrap: the map must be row-major");
  return Tensor<typename Plain::Scalar>::wrap(m.data(), {m.rows(), m.cols()});
}

// A tensor on the host as an Eigen matrix on the same memory, leading axes folded; writable for a non-const tensor.
template <class TensorT>
auto eigen(TensorT& x) {
  x.data();  // throws for a tensor on the GPU
  return kernel::matrix(view<2>(x));
}

}  // namespace heddle
