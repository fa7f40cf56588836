// Views memory as Eigen's rows, arrays and matrices, for CPU kernels.
#pragma once
// g++ 12's header of AVX-512 intrinsics initializes vectors with themselves to leave them undefined. g++ warns about this in every program
// that inlines the intrinsics through Eigen, even with -isystem. It also warns of a use after free for an Eigen array that is resized in a
// loop.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#if __GNUC__ >= 12
#pragma GCC diagnostic ignored "-Wuse-after-free"
#endif
#endif
#include <Eigen/Core>
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

// An array [n] of T that owns its memory.
template <class T>
using RowArray = Eigen::Array<EigenScalar<T>, 1, Eigen::Dynamic>;
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
auto array(T* data, Index size) {
  return EigenMap<T, RowArray<T>>(eigen_pointer(data), size);
}
template <class T>
auto array(View<T, 1> v) {
  return array(v.data, v.extent[0]);
}
// Sixteen adjacent elements, which stay in registers.
template <class T>
using Lanes = Eigen::Array<T, 1, 16>;
template <class T>
auto lanes(T* data) {
  return EigenMap<T, Lanes<std::remove_const_t<T>>>(data);
}
template <class T>
auto row(View<T, 2> v, Index n) {
  return array(v.data + n * v.extent[1], v.extent[1]);
}
template <class T>
auto row(MatrixView<T> v, Index n) {
  return array(v.data + n * v.stride, v.width);
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

// Plain loops, which vectorize; Eigen's casts to and from bf16 turn the expression around them into scalar code.
inline void widen(const Eigen::bfloat16* from, Index size, float* to) {
  const auto* const bits = reinterpret_cast<const bf16*>(from);
  for (Index i = 0; i < size; ++i) to[i] = bits[i];
}
inline void narrow(const float* from, Index size, Eigen::bfloat16* to) {
  auto* const bits = reinterpret_cast<bf16*>(to);
  for (Index i = 0; i < size; ++i) bits[i] = bf16(from[i]);
}

inline constexpr int short_size = 1024;
// Returns a part of a row as an array. For bf16 it has at most `short_size` elements, so that load() copies it to the stack.
template <class T>
auto part(T* data, Index size) {
  constexpr int most = std::is_same_v<std::remove_const_t<T>, bf16> ? short_size : Eigen::Dynamic;
  return EigenMap<T, Eigen::Array<EigenScalar<T>, 1, Eigen::Dynamic, Eigen::RowMajor, 1, most>>(eigen_pointer(data),
                                                                                                size);
}

// Returns e in the type that its elements accumulate in: e itself, or a copy if it holds bf16.
template <class E>
auto load(const E& e) {
  if constexpr (!std::is_same_v<typename E::Scalar, Eigen::bfloat16>) {
    return e;
  } else if constexpr (E::IsVectorAtCompileTime) {
    Eigen::Array<float, 1, Eigen::Dynamic, Eigen::RowMajor, 1, E::MaxColsAtCompileTime> wide(e.size());
    widen(e.data(), e.size(), wide.data());
    return wide;
  } else {
    RowMatrix<float> wide(e.rows(), e.cols());
    for (Index n = 0; n < e.rows(); ++n) widen(e.data() + n * e.outerStride(), e.cols(), wide.data() + n * e.cols());
    return wide;
  }
}

// Reads rows of a matrix in the type that T accumulates in. A row of bf16 is widened into the reader's memory, which the
// next row overwrites, so that rows cost no heap memory.
template <class T>
class RowReader {
 public:
  explicit RowReader([[maybe_unused]] Index width) {
    if constexpr (is_wide) wide_.resize(width);
  }
  template <class Matrix>  // a View or a MatrixView
  auto operator()(Matrix x, Index n) {
    if constexpr (is_wide) {
      const auto xn = row(x, n);
      widen(xn.data(), xn.size(), wide_.data());
      return array(static_cast<const float*>(wide_.data()), xn.size());
    } else {
      return row(x, n);
    }
  }

 private:
  static constexpr bool is_wide = std::is_same_v<std::remove_const_t<T>, bf16>;
  RowArray<float> wide_;
};

// Stores e into a row or matrix, rounded; a double is rounded to float first if the row holds bf16. If e is itself a row of bf16, it is
// copied, or widened for a row of float.
template <class Row, class E>
void store(Row&& row, const E& e) {
  using Scalar = typename std::remove_cvref_t<Row>::Scalar;
  if constexpr (std::is_same_v<Scalar, typename E::Scalar>) {
    row = e;
  } else if constexpr (std::is_same_v<typename E::Scalar, Eigen::bfloat16>) {
    widen(e.data(), row.size(), row.data());
  } else if constexpr (!std::is_same_v<Scalar, Eigen::bfloat16>) {
    row = e.template cast<Scalar>();
  } else if constexpr (std::remove_cvref_t<Row>::IsVectorAtCompileTime) {
    constexpr int part_size = 256;
    Eigen::Array<float, 1, Eigen::Dynamic, Eigen::RowMajor, 1, part_size> part;
    for (Index k = 0; k < row.size(); k += part_size) {
      part = e.segment(k, std::min<Index>(part_size, row.size() - k)).template cast<float>();
      narrow(part.data(), part.size(), row.data() + k);
    }
  } else {
    const auto wide = e.template cast<float>().eval();
    for (Index n = 0; n < row.rows(); ++n)
      narrow(wide.data() + n * row.cols(), row.cols(), row.data() + n * row.outerStride());
  }
}

// Calls f(begin, n) for the range [first, last): once, or in parts of at most `short_size` if one of the types T is bf16, so
// that widened copies stay in the first-level cache.
template <class... T, class F>
void in_short_parts(Index first, Index last, F&& f) {
  const Index most = (std::is_same_v<T, bf16> || ...) ? short_size : std::max<Index>(last - first, 1);
  for (; first < last; first += most) f(first, std::min(most, last - first));
}

}  // namespace heddle::kernel

namespace heddle {

/// Wraps a row-major Eigen matrix or array as a tensor [rows, columns] on the same memory. Nothing is copied; the matrix
/// must outlive every handle.
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

/// Returns a tensor on the host as an Eigen matrix on the same memory, leading axes folded; writable for a non-const tensor.
/// @throws Error for a tensor on the GPU.
template <class TensorT>
auto eigen(TensorT& x) {
  x.data();  // throws for a tensor on the GPU
  return kernel::matrix(view<2>(x));
}

}  // namespace heddle
