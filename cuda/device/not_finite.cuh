// NaN and infinity in rows that weigh nothing: what masked rows hold must change no result, and 0 * NaN is NaN.
#pragma once
#include "row_products.cuh"

namespace heddle::cuda {

__device__ inline bool is_finite(float x) { return x - x == 0; }

// All threads of the block come, between two barriers.
template <int width, class T>
__device__ void clear_not_finite(T* tile, int rows) {
  for (int i = static_cast<int>(threadIdx.x); i < rows * width; i += static_cast<int>(blockDim.x)) {
    T& x = tile[i / width * row_stride<T, width> + i % width];
    if (!is_finite(static_cast<float>(x))) x = T(0.f);
  }
}

// What is not finite in other rows from `first` on of x reaches, times the scores, the own rows that see it: 0 * NaN is NaN, so
// that `weighted` works on rows from which clear_not_finite has taken it. Rarely done, and so with few registers: indices into
// scores and sums are known to the compiler.
template <int columns, int n, class T>
__device__ __forceinline__ void add_not_finite(const float (&scores)[n][4], unsigned seen, int reach,
                                               HeadRows<const T> x, int first, float (&sum)[columns][4]) {
  const int t = static_cast<int>(threadIdx.x) % quad;
#ifdef __CUDACC__
#pragma unroll 1
#endif
  for (int row = 0; row < reach && first + row < x.count; ++row)
#ifdef __CUDACC__
#pragma unroll 1
#endif
    for (int d = 0; d < columns && d * 8 < x.width; ++d) {
      float value[2];
      for (int e = 0; e < 2; ++e) {
        const int column = d * 8 + t * 2 + e;
        value[e] = column < x.width ? static_cast<float>(x(first + row, column)) : 0.f;
      }
      if (__all_sync(all_lanes, is_finite(value[0]) && is_finite(value[1]))) continue;
      float weight[2] = {0, 0};
      for (int m = 0; m < n; ++m)
        for (int half = 0; half < 2; ++half) {
          const float of_row = row % 2 ? scores[m][2 * half + 1] : scores[m][2 * half];
          weight[half] = m == row / 8 ? of_row : weight[half];
        }
      const unsigned sees = __shfl_sync(all_lanes, seen >> (row / 8 * 4 + row % 2), row % 8 / 2, quad);
      for (int half = 0; half < 2; ++half) {
        weight[half] = __shfl_sync(all_lanes, weight[half], row % 8 / 2, quad);
        for (int e = 0; e < 2; ++e) {
          const bool adds = !is_finite(value[e]) && (sees >> (2 * half) & 1);
          const float added = adds ? weight[half] * value[e] : 0.f;
          for (int m = 0; m < columns; ++m) sum[m][2 * half + e] += m == d ? added : 0.f;
        }
      }
    }
}

template <int columns>
__device__ bool holds_nan(const float (&sum)[columns][4]) {
  bool any = false;
  for (int d = 0; d < columns; ++d)
    for (int e = 0; e < 4; ++e) any = any || sum[d][e] != sum[d][e];
  return any;
}

}  // namespace heddle::cuda
