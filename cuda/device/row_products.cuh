// Products of a warp's 16 own rows with other rows, on tensor cores or in exact fp32. Their results, and what weighs rows, lie in
// registers as the tensor cores leave and take them:
//
//   lane l = 4 g + t holds of scores[n][e] own row g (e = 0, 1) or g + 8 (e = 2, 3), and other row 8 n + 2 t + e % 2;
//   sums of rows likewise, with columns for other rows.
#pragma once
#include "head_rows.cuh"

namespace heddle::cuda {

// Of a warp's 16 own rows. `rows` adds own other^T to [16, 8 n] scores, for two tiles of shared memory that are `width` wide;
// `weighted` adds scores times other rows to [16, width]. Other rows from `reach` on, a multiple of 16, are left out.
// The type names the arithmetic: that of the rows, or Tf32 for rows of float.
template <class T>
struct Products;

// Exact fp32. A score of the quad goes from lane to lane where it weighs a row.
template <>
struct Products<float> {
  template <int width, int n>
  __device__ __forceinline__ static void rows(const float* own, const float* other, int reach, float (&scores)[n][4]) {
    if (reach == 8 * n)
      some_rows<width, true>(own, other, reach, scores);
    else
      some_rows<width, false>(own, other, reach, scores);
  }
  template <int width, bool all, int n>
  __device__ __forceinline__ static void some_rows(const float* own, const float* other, int reach,
                                                   float (&scores)[n][4]) {
    constexpr int stride = row_stride<float, width>;
    const int lane = static_cast<int>(threadIdx.x) % warp_size;
    own += lane / quad * stride;
    other += lane % quad * 2 * stride;
    for (int d = 0; d < width; d += per_access<float>) {
      const auto a0 = load_vector<per_access<float>>(own + d),
                 a8 = load_vector<per_access<float>>(own + 8 * stride + d);
      for (int m = 0; m < n; ++m) {
        if (!all && m * 8 >= reach) continue;
        const auto b0 = load_vector<per_access<float>>(other + m * 8 * stride + d);
        const auto b1 = load_vector<per_access<float>>(other + (m * 8 + 1) * stride + d);
        for (int i = 0; i < per_access<float>; ++i) {
          scores[m][0] += a0.at[i] * b0.at[i];
          scores[m][1] += a0.at[i] * b1.at[i];
          scores[m][2] += a8.at[i] * b0.at[i];
          scores[m][3] += a8.at[i] * b1.at[i];
        }
      }
    }
  }

  template <int width, int n>
  __device__ __forceinline__ static void weighted(const float (&scores)[n][4], const float* other, int reach,
                                                  float (&sum)[width / 8][4]) {
    constexpr int stride = row_stride<float, width>;
    const int lane = static_cast<int>(threadIdx.x) % warp_size;
    other += lane % quad * 2;
#ifdef __CUDACC__
#pragma unroll
#endif
    for (int m = 0; m < n; ++m) {
      if (m * 8 >= reach) continue;
      for (int t = 0; t < quad; ++t) {
        const float* const row = other + (m * 8 + t * 2) * stride;
        add_weighted<width>(__shfl_sync(all_lanes, scores[m][0], t, quad),
                            __shfl_sync(all_lanes, scores[m][2], t, quad), row, sum);
        add_weighted<width>(__shfl_sync(all_lanes, scores[m][1], t, quad),
                            __shfl_sync(all_lanes, scores[m][3], t, quad), row + stride, sum);
      }
    }
  }
  template <int width>
  __device__ __forceinline__ static void add_weighted(float w, float w8, const float* row, float (&sum)[width / 8][4]) {
    for (int d = 0; d < width / 8; ++d) {
      const auto x = load_vector<2>(row + d * 8);
      sum[d][0] += w * x.at[0];
      sum[d][1] += w * x.at[1];
      sum[d][2] += w8 * x.at[0];
      sum[d][3] += w8 * x.at[1];
    }
  }
};

}  // namespace heddle::cuda
