// The products of row_products.cuh on tensor cores, in bf16 and in TF32.
#pragma once
#include "mma.cuh"
#include "row_products.cuh"

namespace heddle::cuda {

// On tensor cores; scores are rounded to bf16 as weights.
template <>
struct Products<bf16> {
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
      const std::uint32_t a[4] = {round_pair(left[0], left[1]), round_pair(left[2], left[3]),
                                  round_pair(right[0], right[1]), round_pair(right[2], right[3])};
      for (int d = 0; d < width / 8; d += 2) {
        std::uint32_t b[4];
        load_matrices<true>(b, other + m * 8 * stride + d * 8);
        multiply(sum[d], sum[d + 1], a, b);
      }
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

}  // namespace heddle::cuda
