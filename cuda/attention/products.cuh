// Products of a warp's 16 own rows with other rows: in full fp32 on CUDA cores, in bf16 or TF32 on tensor cores. All
// three keep scores and sums in the layout of a tensor core's accumulator (device/mma.cuh):
//
//   scores[n][e] of lane l = 4 g + t is the score of own row g (e = 0, 1) or g + 8 (e = 2, 3) and of other row
//   8 n + 2 t + e % 2. sum[n][e] is the same with columns in place of other rows.
#pragma once
#include "../device/mma.cuh"
#include "plan.cuh"

namespace heddle::cuda {

// A slice of own rows in shared memory, `width` wide.
template <class T, int width>
struct SharedRows {
  const T* rows;

  __device__ void read(const T* from) { rows = from; }
};

// Products in the arithmetic that the type names: float, bf16, or Tf32 for rows of float. A warp has `slices` of 16 own
// rows, and reads the other rows once for all of them.
//   add_scores         scores [slices, 16, 8 n] += own other^T, for rows of shared memory that are `width` wide
//   Weights<n>         scores [16, 8 n], rounded to the type that the products take
//   add_weighted_rows  sum [slices, 16, width] += weights other
// Other rows from `reach` on, a multiple of 16, are left out; a constant is passed as its type. All lanes of the warp
// call these.
template <class T>
struct Products;

template <int slices, int columns>
__device__ __forceinline__ void set_zero(float (&sum)[slices][columns][4]) {
  for (auto& of_slice : sum)
    for (auto& part : of_slice) part[0] = part[1] = part[2] = part[3] = 0;
}

// Replaces the dropped ones of scores[m][2 half] and scores[m][2 half + 1] by zero: those whose bit 15 or 31 of `kept`
// is not set. Weights have a function of the same meaning.
template <int n>
__device__ __forceinline__ void drop_scores(float (&scores)[n][4], int m, int half, std::uint32_t kept) {
  scores[m][2 * half] = kept & 0x8000u ? scores[m][2 * half] : 0.f;
  scores[m][2 * half + 1] = static_cast<std::int32_t>(kept) < 0 ? scores[m][2 * half + 1] : 0.f;
}

// Scores as an operand of products that take floats.
template <int n>
struct FloatWeights {
  float at[n][4];

  __device__ __forceinline__ void set(const float (&scores)[n][4]) {
    for (int m = 0; m < n; ++m)
      for (int e = 0; e < 4; ++e) at[m][e] = scores[m][e];
  }
  __device__ __forceinline__ void drop(int m, int half, std::uint32_t kept) { drop_scores(at, m, half, kept); }
};

// --- full fp32 on CUDA cores -----------------------------------------------------------------------------------------

template <>
struct Products<float> {
  template <int n>
  using Weights = FloatWeights<n>;

  template <int width, int slices, class Reach, int n>
  __device__ __forceinline__ static void add_scores(const SharedRows<float, width>* own, const float* other,
                                                    Reach reach, float (*scores)[n][4]) {
    constexpr int stride = row_stride<float, width>;
    const int lane = lane_index();
    other += lane % quad * 2 * stride;
    for (int s = 0; s < slices; ++s) {
      const float* const rows = own[s].rows + lane / quad * stride;
      for (int d = 0; d < width; d += per_access<float>) {
        const auto a0 = load_vector<per_access<float>>(rows + d),
                   a8 = load_vector<per_access<float>>(rows + 8 * stride + d);
        for (int m = 0; m < n; ++m) {
          if (m * 8 >= reach) continue;
          const auto b0 = load_vector<per_access<float>>(other + m * 8 * stride + d);
          const auto b1 = load_vector<per_access<float>>(other + (m * 8 + 1) * stride + d);
          for (int i = 0; i < per_access<float>; ++i) {
            scores[s][m][0] += a0.at[i] * b0.at[i];
            scores[s][m][1] += a0.at[i] * b1.at[i];
            scores[s][m][2] += a8.at[i] * b0.at[i];
            scores[s][m][3] += a8.at[i] * b1.at[i];
          }
        }
      }
    }
  }

  // Adds the weighted rows. Passes each score to the other lanes of its quad, which hold the other columns.
  template <int width, int slices, class Reach, int n>
  __device__ __forceinline__ static void add_weighted_rows(const Weights<n>* weights, const float* other, Reach reach,
                                                           float (*sum)[width / 8][4]) {
    constexpr int stride = row_stride<float, width>;
    const int lane = lane_index();
    other += lane % quad * 2;
    for (int s = 0; s < slices; ++s) {
      const auto& w = weights[s].at;
#ifdef __CUDACC__
#pragma unroll
#endif
      for (int m = 0; m < n; ++m) {
        if (m * 8 >= reach) continue;
        for (int t = 0; t < quad; ++t) {
          const float* const row = other + (m * 8 + t * 2) * stride;
          add_row<width>(__shfl_sync(all_lanes, w[m][0], t, quad), __shfl_sync(all_lanes, w[m][2], t, quad), row,
                         sum[s]);
          add_row<width>(__shfl_sync(all_lanes, w[m][1], t, quad), __shfl_sync(all_lanes, w[m][3], t, quad),
                         row + stride, sum[s]);
        }
      }
    }
  }

 private:
  template <int width>
  __device__ __forceinline__ static void add_row(float w, float w8, const float* row, float (&sum)[width / 8][4]) {
    for (int d = 0; d < width / 8; ++d) {
      const auto x = load_vector<2>(row + d * 8);
      sum[d][0] += w * x.at[0];
      sum[d][1] += w * x.at[1];
      sum[d][2] += w8 * x.at[0];
      sum[d][3] += w8 * x.at[1];
    }
  }
};

// --- bf16 on tensor cores --------------------------------------------------------------------------------------------

// Returns where a lane reads its row of four 8 x 8 matrices, which cover 16 rows and 16 columns. The second matrix lies
// below the first one.
template <int width>
__device__ int matrix_row() {
  return lane_index() % 16 * row_stride<bf16, width> + lane_index() / 16 * 8;
}

// A slice of own rows in registers, as fragments of a tensor core's operand.
template <int width>
struct OwnFragments {
  std::uint32_t words[width / 16][4];

  __device__ __forceinline__ void read(const bf16* rows) {
    for (int d = 0; d < width / 16; ++d) load_matrices(words[d], rows + matrix_row<width>() + d * 16);
  }
};

template <>
struct Products<bf16> {
  // pair[m][half]: scores[m][2 half] and scores[m][2 half + 1].
  template <int n>
  struct Weights {
    std::uint32_t pair[n][2];

    __device__ __forceinline__ void set(const float (&scores)[n][4]) {
      for (int m = 0; m < n; ++m)
        for (int half = 0; half < 2; ++half) pair[m][half] = round_pair(scores[m][2 * half], scores[m][2 * half + 1]);
    }
    __device__ __forceinline__ void drop(int m, int half, std::uint32_t kept) { pair[m][half] &= spread_signs(kept); }
  };

  // `own` are SharedRows<bf16, width> or OwnFragments<width>.
  template <int width, int slices, class Own, class Reach, int n>
  __device__ __forceinline__ static void add_scores(const Own* own, const bf16* other, Reach reach,
                                                    float (*scores)[n][4]) {
    // The second of the four matrices lies to the right of the first one.
    other += (lane_index() % 8 + lane_index() / 16 * 8) * row_stride<bf16, width> + lane_index() / 8 % 2 * 8;
    for (int d = 0; d < width / 16; ++d) {
      std::uint32_t a[slices][4];
      for (int s = 0; s < slices; ++s) load_fragment(own[s], d, a[s]);
      for (int m = 0; m < n; m += 2) {
        if (m * 8 >= reach) continue;
        std::uint32_t b[4];
        load_matrices(b, other + m * 8 * row_stride<bf16, width> + d * 16);
        for (int s = 0; s < slices; ++s) {
          mma_bf16(scores[s][m], a[s], {b[0], b[1]});
          mma_bf16(scores[s][m + 1], a[s], {b[2], b[3]});
        }
      }
    }
  }

  template <int width, int slices, class Reach, int n>
  __device__ __forceinline__ static void add_weighted_rows(const Weights<n>* weights, const bf16* other, Reach reach,
                                                           float (*sum)[width / 8][4]) {
    other += matrix_row<width>();
    for (int m = 0; m < n; m += 2) {
      if (m * 8 >= reach) continue;
      for (int d = 0; d < width / 8; d += 2) {
        std::uint32_t b[4];
        load_matrices<true>(b, other + m * 8 * row_stride<bf16, width> + d * 8);
        for (int s = 0; s < slices; ++s) {
          const auto& pair = weights[s].pair;
          const std::uint32_t a[4] = {pair[m][0], pair[m][1], pair[m + 1][0], pair[m + 1][1]};
          mma_bf16(sum[s][d], a, {b[0], b[1]});
          mma_bf16(sum[s][d + 1], a, {b[2], b[3]});
        }
      }
    }
  }

 private:
  template <int width>
  __device__ __forceinline__ static void load_fragment(const SharedRows<bf16, width>& own, int d,
                                                       std::uint32_t (&words)[4]) {
    load_matrices(words, own.rows + matrix_row<width>() + d * 16);
  }
  template <int width>
  __device__ __forceinline__ static void load_fragment(const OwnFragments<width>& own, int d,
                                                       std::uint32_t (&words)[4]) {
    for (int i = 0; i < 4; ++i) words[i] = own.words[d][i];
  }
};

// --- TF32 on tensor cores --------------------------------------------------------------------------------------------

template <>
struct Products<Tf32> {
  template <int n>
  using Weights = FloatWeights<n>;

  // Returns x rounded to TF32, as the word that mma_tf32 takes.
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

  template <int width, int slices, class Reach, int n>
  __device__ __forceinline__ static void add_scores(const SharedRows<float, width>* own, const float* other,
                                                    Reach reach, float (*scores)[n][4]) {
    constexpr int stride = row_stride<float, width>;
    const int lane = lane_index(), at = lane / quad * stride + lane % quad;
    other += at;
    for (int d = 0; d < width; d += 8)
      for (int s = 0; s < slices; ++s) {
        const float* const rows = own[s].rows + at + d;
        const std::uint32_t a[4] = {word(rows[0]), word(rows[8 * stride]), word(rows[quad]),
                                    word(rows[8 * stride + quad])};
        for (int m = 0; m < n; ++m) {
          if (m * 8 >= reach) continue;
          const float* const row = other + m * 8 * stride + d;
          mma_tf32(scores[s][m], a, {word(row[0]), word(row[quad])});
        }
      }
  }

  // Adds the weighted rows. Rows t and t + 4 of operand b are other rows 2 t and 2 t + 1 of each eight, because this
  // lane holds the scores of those two.
  template <int width, int slices, class Reach, int n>
  __device__ __forceinline__ static void add_weighted_rows(const Weights<n>* weights, const float* other, Reach reach,
                                                           float (*sum)[width / 8][4]) {
    constexpr int stride = row_stride<float, width>;
    const int lane = lane_index();
    other += lane % quad * 2 * stride + lane / quad;
    for (int m = 0; m < n; ++m) {
      if (m * 8 >= reach) continue;
      for (int s = 0; s < slices; ++s) {
        const float(&w)[4] = weights[s].at[m];
        const std::uint32_t a[4] = {word(w[0]), word(w[2]), word(w[1]), word(w[3])};
        for (int d = 0; d < width / 8; ++d) {
          const float* const row = other + m * 8 * stride + d * 8;
          mma_tf32(sum[s][d], a, {word(row[0]), word(row[stride])});
        }
      }
    }
  }
};

// --- NaN and infinity ------------------------------------------------------------------------------------------------

// A masked pair has weight 0, but 0 * NaN is NaN. A kernel whose sums hold NaN repeats its work carefully: with NaN and
// infinity removed from the rows in shared memory. It adds their products only to the own rows that see them.

// Calls add_tiles(false), and then, if pairs may be masked and holds_nan() is true in any thread, add_tiles(true). All
// threads of the block call this.
template <class T, class AddTiles, class HoldsNan>
__device__ __forceinline__ void add_tiles_carefully(const AttentionTask<T>& task, AddTiles add_tiles,
                                                    HoldsNan holds_nan) {
  bool is_careful = false;
  do add_tiles(is_careful);
  while (!is_careful && task.may_mask && (is_careful = __syncthreads_or(holds_nan())));
}

template <int slices, int columns>
__device__ bool holds_nan(const float (&sum)[slices][columns][4]) {
  bool any = false;
  for (const auto& of_slice : sum)
    for (const auto& part : of_slice)
      for (const float x : part) any = any || x != x;
  return any;
}

__device__ inline bool is_finite(float x) { return x - x == 0; }

// Replaces NaN and infinity in the rows of a tile by zeros. All threads of the block call this, between two barriers.
template <int width, class T>
__device__ void clear_not_finite(T* tile, int rows) {
  for (int i = static_cast<int>(threadIdx.x); i < rows * width; i += static_cast<int>(blockDim.x)) {
    T& x = tile[i / width * row_stride<T, width> + i % width];
    if (!is_finite(static_cast<float>(x))) x = T(0.f);
  }
}

// Completes `sum` after clear_not_finite(): adds each NaN or infinite element of the other rows, times its score, to
// the sums of the own rows that see it. The other rows are those of x from `first` on; `visible` has the bits of
// ScoreTile. This path is rare and is written to use few registers: every index into scores and sums is known at
// compile time.
template <int columns, int n, class T>
__device__ __forceinline__ void add_not_finite(const float (&scores)[n][4], unsigned visible, int reach,
                                               HeadRows<const T> x, int first, float (&sum)[columns][4]) {
  const int t = lane_index() % quad;
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
      const unsigned sees = __shfl_sync(all_lanes, visible >> (row / 8 * 4 + row % 2), row % 8 / 2, quad);
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

}  // namespace heddle::cuda
