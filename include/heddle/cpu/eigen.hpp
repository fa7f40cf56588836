// Views memory as Eigen's matrices.
#pragma once
// g++ 12's header of AVX-512 intrinsics initializes vectors with themselves to leave them undefined. g++ warns about
// this in every program that inlines the intrinsics through Eigen, even with -isystem. It also warns of a use after
// free for an Eigen array that is resized in a loop.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#if __GNUC__ >= 12
#pragma GCC diagnostic ignored "-Wuse-after-free"
#endif
#endif
// heddle calls Eigen on the host only. In a .cu file Eigen would turn its vector instructions off, so that inline
// functions would differ from those of .cpp files, and declare functions of the device, of which nvcc warns.
#ifdef __CUDACC__
#ifdef EIGEN_GPUCC
#error \
    "heddle: include heddle before Eigen in a .cu file, or define EIGEN_NO_CUDA; put kernels that use Eigen into another file"
#endif
#define EIGEN_NO_CUDA
#endif
#include <Eigen/Core>
#include <unsupported/Eigen/SpecialFunctions>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#include <heddle/core/dispatch.hpp>

namespace heddle::kernel {

// Eigen's scalar type for T: for bf16 its own bfloat16, which has the same bits.
template <class T>
using EigenScalar =
    std::conditional_t<std::is_same_v<std::remove_const_t<T>, bf16>, Eigen::bfloat16, std::remove_const_t<T>>;
static_assert(sizeof(Eigen::bfloat16) == sizeof(bf16) && alignof(Eigen::bfloat16) == alignof(bf16));

// A row-major matrix of T that owns its memory.
template <class T>
using RowMatrix = Eigen::Matrix<EigenScalar<T>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class T, class Plain, class Stride = Eigen::Stride<0, 0>>
using EigenMap = Eigen::Map<std::conditional_t<std::is_const_v<T>, const Plain, Plain>, Eigen::Unaligned, Stride>;

template <class T>
auto eigen_pointer(T* p) {
  using E = std::conditional_t<std::is_const_v<T>, const EigenScalar<T>, EigenScalar<T>>;
  return reinterpret_cast<E*>(p);
}

template <class T>
auto matrix(View<T, 2> v) {
  return EigenMap<T, RowMatrix<T>>(eigen_pointer(v.data), v.extent[0], v.extent[1]);
}
template <class T>
auto matrix(MatrixView<T> v) {
  return EigenMap<T, RowMatrix<T>, Eigen::OuterStride<>>(eigen_pointer(v.data), v.rows, v.width,
                                                         Eigen::OuterStride<>(v.stride));
}

}  // namespace heddle::kernel

namespace heddle {

/// Wraps a row-major Eigen matrix or array as a tensor [rows, columns] on the same memory. Nothing is copied; the
/// matrix must outlive every handle.
template <class Derived>
auto wrap(Eigen::PlainObjectBase<Derived>& m) {
  static_assert(Derived::IsRowMajor, "heddle::wrap: the matrix must be row-major");
  return Tensor<typename Derived::Scalar>::wrap(m.data(), {m.rows(), m.cols()});
}
/// Wraps an Eigen map in the same way.
template <class Plain, int Options>
auto wrap(Eigen::Map<Plain, Options, Eigen::Stride<0, 0>>& m) {
  static_assert(Plain::IsRowMajor, "heddle::wrap: the map must be row-major");
  return Tensor<typename Plain::Scalar>::wrap(m.data(), {m.rows(), m.cols()});
}

/// Returns a tensor on the host as an Eigen matrix on the same memory, leading axes folded; writable for a non-const
/// tensor. @throws Error for a tensor on the GPU.
template <class TensorT>
auto eigen(TensorT& x) {
  x.data();  // throws for a tensor on the GPU
  return kernel::matrix(view<2>(x));
}

}  // namespace heddle
