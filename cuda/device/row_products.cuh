// Products of a warp's 16 own rows with other rows, on tensor cores in bf16 or TF32, or in exact fp32. Their results, and what weighs rows, lie in
// registers as the tensor cores leave and take them:
//
//   lane l = 4 g + t holds of scores[n][e] own row g (e = 0, 1) or g + 8 (e = 2, 3), and other row 8 n + 2 t + e % 2;
//   sums of rows likewise, with columns for other rows.
#pragma once
#include "head_rows.cuh"
#include "mma.cuh"

namespace heddle::cuda {

// Of a warp's 16 own rows. `rows` adds own other^T to [16, 8 n] scores, for two tiles of shared memory that are `width` wide;
// `weighted` adds scores times other rows to [16, width]. Other rows from `reach` on, a multiple of 16, are left out.
// The type names the arithmetic: that of the rows, or Tf32 for rows of float.
template <class T>
struct Products;

// On tensor cores; scores are rounded to bf16 as weights.
template <>
struct Products<bf16> {
  __device__ static std::uint32_t pair(float low, float high) {
#ifdef __CUDACC__
    std::uint32_t word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
#else
    return bf16(low).bits | static_cast<std::uint32_t>(bf16(high).bits) << 16;
#endif
  }
  __device__ __forceinline__ static void multiply(float (&left)[4], float (&right)[4], const std::uint32_t (&a)[4],
                                                  const std::uint32_t (&b)[4]) {
    mma_bf16(left, a, {b[0], b[1]});
    mma_bf16(right, a, {b[2], b[3]});
  }

  template <int width, int n>
  __device__ __forceinline__ static void rows(const bf16* own, const bf16* other, int reach, float (&scores)[n][4]) {
    if (reach == 8 * n)
      some_rows<width, true>(own, other, reach, scores);
    else
      some_rows<width, false>(own, other, reach, scores);
  }
  template <int width, bool all, int n>
  __device__ __forceinline__ static void some_rows(const bf16* own, const bf16* other, int reach,
                                                   float (&scores)[n][4]) {
    constexpr int stride = row_stride<bf16, width>;
    const int lane = static_cast<int>(threadIdx.x) % warp_size;
    own += lane % 16 * stride + lane / 16 * 8;
    other += (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8;
    for (int d = 0; d < width; d += 16) {
      std::uint32_t a[4];
      load_matrices(a, own + d);
      for (int m = 0; m < n; m += 2) {
        if (!all && m * 8 >= reach) continue;
        std::uint32_t b[4];
        load_matrices(b, other + m * 8 * stride + d);
        multiply(scores[m], scores[m + 1], a, b);
      }
    }
  }

  template <int width, int n>
  __device__ __forceinline__ static void weighted(const float (&scores)[n][4], const bf16* other, int reach,
                                                  float (&sum)[width / 8][4]) {
    constexpr int stride = row_stride<bf16, width>;
    const int lane = static_cast<int>(threadIdx.x) % warp_size;
    other += lane % 16 * stride + lane / 16 * 8;
    for (int m = 0; m < n; m += 2) {
      if (m * 8 >= reach) continue;
      const float(&left)[4] = scores[m], (&right)[4] = scores[m + 1];
      const std::uint32_t a[4] = {pair(left[0], left[1]), pair(left[2], left[3]), pair(right[0], right[1]),
                                  pair(right[2], right[3])};
      for (int d = 0; d < width / 8; d += 2) {
        std::uint32_t b[4];
        load_matrices<true>(b, other + m * 8 * stride + d * 8);
        multiply(sum[d], sum[d + 1], a, b);
      }
    }
  }
};

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

// fp32 on tensor cores, which take 11 significant bits: operands are rounded to them.
struct Tf32 {};
template <>
struct Products<Tf32> {
  __device__ static std::uint32_t word(float x) {
#ifdef __CUDACC__
    std::uint32_t rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(x));
    return rounded;
#else
    constexpr std::uint32_t half = 1u << 12, kept = ~(2 * half - 1);
    const auto bits = std::bit_cast<std::uint32_t>(x);
    return x - x == 0 ? (bits + half) & kept : x == x ? bits : ~0u;
#endif
  }

  template <int width, int n>
  __device__ __forceinline__ static void rows(const float* own, const float* other, int reach, float (&scores)[n][4]) {
    constexpr int stride = row_stride<float, width>;
    const int lane = static_cast<int>(threadIdx.x) % warp_size;
    own += lane / quad * stride + lane % quad;
    other += lane / quad * stride + lane % quad;
    for (int d = 0; d < width; d += 8) {
      const std::uint32_t a[4] = {word(own[d]), word(own[8 * stride + d]), word(own[d + quad]),
                                  word(own[8 * stride + d + quad])};
      for (int m = 0; m < n; ++m) {
        if (m * 8 >= reach) continue;
        const float* const row = other + m * 8 * stride + d;
        mma_tf32(scores[m], a, {word(row[0]), word(row[quad])});
      }
    }
  }

  // The products' rows t and t + 4 are other rows 2 t and 2 t + 1, whose scores the lane has.
  template <int width, int n>
  __device__ __forceinline__ static void weighted(const float (&scores)[n][4], const float* other, int reach,
                                                  float (&sum)[width / 8][4]) {
    constexpr int stride = row_stride<float, width>;
    const int lane = static_cast<int>(threadIdx.x) % warp_size;
    other += lane % quad * 2 * stride + lane / quad;
    for (int m = 0; m < n; ++m) {
      if (m * 8 >= reach) continue;
      const float(&s)[4] = scores[m];
      const std::uint32_t a[4] = {word(s[0]), word(s[2]), word(s[1]), word(s[3])};
      for (int d = 0; d < width / 8; ++d) {
        const float* const row = other + m * 8 * stride + d * 8;
        mma_tf32(sum[d], a, {word(row[0]), word(row[stride])});
      }
    }
  }
};

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
