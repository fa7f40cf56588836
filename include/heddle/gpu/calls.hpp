// The GPU's overloads that only wrap functions of gpu/kernels.hpp and gpu/runtime.hpp: moves of elements of any type
// call those for words of the same size, products call multiply().
#pragma once
#include <heddle/gpu/kernels.hpp>

namespace heddle::kernel {

// --- moves: elements are copied as unsigned integers of the same size ---

template <class T>
auto words(T* data) {
  using W = Word<sizeof(T)>;
  return reinterpret_cast<std::conditional_t<std::is_const_v<T>, const W*, W*>>(data);
}
template <class T, int rank>
auto words(View<T, rank> v) {
  View<std::remove_pointer_t<decltype(words(v.data))>, rank> w{words(v.data), {}};
  for (int axis = 0; axis < rank; ++axis) w.extent[axis] = v.extent[axis];
  return w;
}

template <class T>
void clear(Cuda, View<T, 1> x) {
  cuda::clear(x.data, static_cast<std::size_t>(x.extent[0]) * sizeof(T));
}
template <class T>
void copy(Cuda, View<const T, 1> from, View<T, 1> to) {
  cuda::on_device(to.data, from.data, static_cast<std::size_t>(from.extent[0]) * sizeof(T));
}
template <class T>
void copy(Cuda, MatrixView<const T> x, MatrixView<T> y) {
  const auto bytes = [](Index count) { return static_cast<std::size_t>(count) * sizeof(T); };
  cuda::copy_rows(y.data, bytes(y.stride), x.data, bytes(x.stride), bytes(x.width), static_cast<std::size_t>(x.rows));
}
template <class T>
void fill(Cuda, View<T, 1> y, T value) {
  fill_words(words(y.data), y.extent[0], __builtin_bit_cast(Word<sizeof(T)>, value));
}
template <class T>
void permute(Cuda, const Permutation& p, const T* x, View<T, 1> y) {
  permute_words(p, words(x), words(y));
}
template <class T>
void where(Cuda, const BroadcastPlan<3>& plan, const bool* condition, const T* a, const T* b, T* y) {
  where_words(plan, condition, words(a), words(b), words(y));
}
template <Label Id, class T>
void take_rows(Cuda, View<const Id, 1> ids, View<const T, 2> x, View<T, 2> y) {
  take_rows_words(ids, words(x), words(y));
}
template <class T>
void copy_row_ranges(Cuda, View<const int, 1> from, View<const int, 1> to, View<const int, 1> count, View<const T, 2> x,
                     View<T, 2> y) {
  copy_row_ranges_words(from, to, count, words(x), words(y));
}
template <class T>
void end_rows(Cuda, bool last, View<const int, 1> begin, View<const int, 1> length, View<const T, 2> x, View<T, 2> y) {
  end_rows_words(last, begin, length, words(x), words(y));
}
template <class T>
void end_rows_backward(Cuda, bool last, View<const int, 1> begin, View<const int, 1> length, View<const T, 2> dy,
                       View<T, 2> dx) {
  end_rows_backward_words(last, begin, length, words(dy), words(dx));
}

// --- products ---

template <OnGpu T>
void gemm_nn(Cuda, MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> c, Into into = Into::set) {
  multiply(Product<T>{a, b, false, false, c, into});
}
template <OnGpu T, OnGpu E>
void gemm_tn(Cuda, MatrixView<const T> a, MatrixView<const T> b, MatrixView<E> c, Into into = Into::set) {
  multiply(Product<T, E>{a, b, true, false, c, into});
}
template <OnGpu T>
void gemm_nt_bias(Cuda, MatrixView<const T> a, MatrixView<const T> b, View<const T, 1> bias, MatrixView<T> c) {
  multiply(Product<T>{a, b, false, true, c, Into::set, bias.data});
}
// Calls multiply() once for each row of `batch`. A row is batch.extent[0] matrices, a constant stride apart.
template <OnGpu T>
void matmul(Cuda, const BroadcastPlan<2>& batch, View<const T, 3> a, bool transpose_a, View<const T, 3> b,
            bool transpose_b, View<T, 3> c) {
  const auto matrix_at = [](auto v, Index n) {
    return MatrixView<std::remove_pointer_t<decltype(v.data)>>{v.data + n * v.extent[1] * v.extent[2], v.extent[1],
                                                               v.extent[2], v.extent[2]};
  };
  const auto elements = [](auto v) { return v.extent[1] * v.extent[2]; };
  const Index together = batch.extent[0];
  for (Index row = 0; row * together < batch.size; ++row)
    multiply(Product<T>{matrix_at(a, batch.offset(0, row)), matrix_at(b, batch.offset(1, row)), transpose_a,
                        transpose_b, matrix_at(c, row * together), Into::set, nullptr, together,
                        batch.stride[0][0] * elements(a), batch.stride[1][0] * elements(b), elements(c)});
}

// The product adds the bias, so the GELU is the only other pass over the elements.
template <OnGpu T>
void linear_gelu(Cuda device, View<const T, 2> x, View<const T, 2> weight, View<const T, 1> bias, View<T, 2> z,
                 View<T, 2> y) {
  gemm_nt_bias(device, matrix_view(x), matrix_view(weight), bias, matrix_view(z));
  const Index size = z.extent[0] * z.extent[1];
  map(device, Gelu{}, View<const T, 1>{z.data, {size}}, View<T, 1>{y.data, {size}});
}
template <OnGpu T, OnGpu E>
void column_sums(Cuda device, View<const T, 2> dy, View<E, 1> dbias) {
  const auto [N, D] = dy.extent;
  sum(device, View<const T, 3>{dy.data, {1, N, D}}, 1.f, View<E, 2>{dbias.data, {1, D}});
}
template <OnGpu T, OnGpu E>
void gemm_tn_and_column_sums(Cuda device, View<const T, 2> dy, View<const T, 2> x, View<E, 2> dweight,
                             View<E, 1> dbias) {
  Product<T, E> product{matrix_view(dy), matrix_view(x), true, false, matrix_view(dweight)};
  const bool multiplies = x.extent[0] > 0 && x.extent[1] > 0;
  if (multiplies) product.row_sums = dbias.data;
  multiply(product);
  if (!multiplies) column_sums(device, dy, dbias);
}

}  // namespace heddle::kernel
