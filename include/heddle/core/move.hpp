// The kernels that write, copy and add elements, on the CPU; cuda/move.cu is their twin. `add` is here, because the
// backward pass needs it for every tensor that is used twice.
#pragma once
#include <algorithm>
#include <cstring>

#include <heddle/base/number_types.hpp>
#include <heddle/base/threads.hpp>
#include <heddle/base/view.hpp>

namespace heddle::kernel {

template <class T>
void fill(Cpu, View<T, 1> y, T value) {
  parallel(y.extent[0], element_grain,
           [&](Index first, Index last) { std::fill_n(y.data + first, last - first, value); });
}

// Writes zeros.
template <class T>
void clear(Cpu, View<T, 1> y) {
  constexpr Index byte_grain = 1 << 18;  // clearing them takes about as long as starting a thread
  parallel(y.extent[0], byte_grain / static_cast<Index>(sizeof(T)), [&](Index first, Index last) {
    std::memset(y.data + first, 0, static_cast<std::size_t>(last - first) * sizeof(T));
  });
}

template <class T>
void copy(Cpu, MatrixView<const T> x, MatrixView<T> y) {
  parallel(x.rows, element_grain / std::max<Index>(x.width, 1) + 1, [&](Index first, Index last) {
    for (Index n = first; n < last; ++n) std::copy_n(x.data + n * x.stride, x.width, y.data + n * y.stride);
  });
}
template <class T>
void copy(Cpu, View<const T, 1> x, View<T, 1> y) {
  parallel(x.extent[0], element_grain,
           [&](Index first, Index last) { std::copy_n(x.data + first, last - first, y.data + first); });
}

// Writes the given rows of y, and zeros into all others.
template <class T>
void put_rows(Cpu cpu, View<const Index, 1> rows, View<const T, 2> values, View<T, 2> y) {
  fill(cpu, View<T, 1>{y.data, {y.extent[0] * y.extent[1]}}, static_cast<T>(0.f));
  parallel(rows.extent[0], row_grain(y.extent[1]), [&](Index first, Index last) {
    for (Index m = first; m < last; ++m) std::copy_n(&values(m, 0), y.extent[1], &y(rows(m), 0));
  });
}

// Computes y = a + b, rounded once.
template <class T>
void add(Cpu, View<const T, 1> a, View<const T, 1> b, View<T, 1> y) {
  parallel(y.extent[0], element_grain, [&](Index first, Index last) {
    for (Index i = first; i < last; ++i) y(i) = static_cast<T>(static_cast<Acc<T>>(a(i)) + static_cast<Acc<T>>(b(i)));
  });
}

}  // namespace heddle::kernel
