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
// A few neighbours, which stay in registers.
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

// Plain loops, which compilers make vectors of; Eigen's casts to and from bf16 make scalars of all that stands around them.
inline void widen(const Eigen::bfloat16* from, Index size, float* to) {
  const auto* const bits = reinterpret_cast<const bf16*>(from);
  for (Index i = 0; i < size; ++i) to[i] = bits[i];
}
inline void narrow(const float* from, Index size, Eigen::bfloat16* to) {
  auto* const bits = reinterpret_cast<bf16*>(to);
  for (Index i = 0; i < size; ++i) bits[i] = bf16(from[i]);
}

// A row of bf16 as floats, in memory of its own: on the stack if it is short, because rows are many.
struct WideRoom {
  static constexpr Index few = 1024;
  alignas(64) float on_stack[few];
  std::unique_ptr<float[]> on_heap;

  WideRoom() {}  // sets nothing
  float* of(Index size) {
    if (size > few) on_heap.reset(new float[static_cast<std::size_t>(size)]);
    return on_heap ? on_heap.get() : on_stack;
  }
};
// See WideRoom.
struct WideRow : private WideRoom, EigenMap<const float, RowArray<float>> {
  using Map = EigenMap<const float, RowArray<float>>;
  WideRow(const Eigen::bfloat16* from, Index size) : Map(of(size), size) {
    widen(from, size, const_cast<float*>(data()));
  }
  WideRow(const WideRow& other) : WideRoom(), Map(of(other.size()), other.size()) {
    std::copy_n(other.data(), other.size(), const_cast<float*>(data()));
  }
};

// load(row(x, n)) is in the type that T accumulates in, a copy where that is another; store(row(y, n), e) rounds once, and takes
// a row of bf16 as it is.
template <class E>
auto load(const E& e) {
  if constexpr (!std::is_same_v<typename E::Scalar, Eigen::bfloat16>) {
    return e;
  } else if constexpr (E::IsVectorAtCompileTime) {
    return WideRow(e.data(), e.size());
  } else {
    RowMatrix<float> wide(e.rows(), e.cols());
    for (Index n = 0; n < e.rows(); ++n) widen(e.data() + n * e.outerStride(), e.cols(), wide.data() + n * e.cols());
    return wide;
  }
}
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
    constexpr int few = 256;
    Eigen::Array<float, 1, Eigen::Dynamic, Eigen::RowMajor, 1, few> part;
    for (Index k = 0; k < row.size(); k += few) {
      part = e.segment(k, std::min<Index>(few, row.size() - k)).template cast<float>();
      narrow(part.data(), part.size(), row.data() + k);
    }
  } else {
    const auto wide = e.template cast<float>().eval();
    for (Index n = 0; n < row.rows(); ++n)
      narrow(wide.data() + n * row.cols(), row.cols(), row.data() + n * row.outerStride());
  }
}

// Runs f(begin, n) over [first, last): at once, or where load makes copies in stretches that stay in the first cache.
template <class T, class F>
void in_stretches(Index first, Index last, F&& f) {
  const Index most = std::is_same_v<T, bf16> ? WideRoom::few : std::max<Index>(last - first, 1);
  for (; first < last; first += most) f(first, std::min(most, last - first));
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
