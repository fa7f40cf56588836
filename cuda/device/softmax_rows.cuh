// The softmax of a warp's 16 own rows, whose scores come tile by tile (Milakov and Gimelshein, 2018).
#pragma once
#include "score_tile.cuh"

namespace heddle::cuda {

// Of the two rows that a lane shares with its quad.
template <class T>
struct SoftmaxRows {
  static constexpr float lowest = std::numeric_limits<float>::lowest() / 2;  // times log2_e it is still finite
  float top[2] = {lowest, lowest};                                           // the greatest score so far
  float sum[2] = {0, 0};     // of exponentials; until `finish` only those of the lane
  float shrink[2] = {1, 1};  // what the last tile has to multiply sums by that were made before

  // Makes exp(score - top) of the scores; zeros of pairs that are not seen.
  template <class Tile, int n>
  __device__ __forceinline__ void add(const Tile& tile, unsigned seen, int reach, float (&scores)[n][4]) {
    const float scale = tile.add_bias(seen, scores);
    float greatest[2] = {-infinity, -infinity};
    for (int m = 0; m < n; ++m) {
      if (m * 8 >= reach) continue;
      for (int e = 0; e < 4; ++e) {
        if (!(seen >> (m * 4 + e) & 1)) scores[m][e] = -infinity;
        greatest[e / 2] = fmaxf(greatest[e / 2], scores[m][e]);
      }
    }
    for (int half = 0; half < 2; ++half) {
      const float before = top[half];
      top[half] = fmaxf(before, quad_max(greatest[half]) * scale);
      shrink[half] = exp_of_difference<T>(before - top[half]);
      sum[half] *= shrink[half];
    }
    for (int m = 0; m < n; ++m) {
      if (m * 8 >= reach) continue;
      for (int e = 0; e < 4; ++e) {
        scores[m][e] = exp_of<T>(scores[m][e], scale, top[e / 2]);
        sum[e / 2] += scores[m][e];
      }
    }
  }

  template <int columns>
  __device__ __forceinline__ void shrink_sums(float (&sums)[columns][4]) const {
    if (!__any_sync(all_lanes, shrink[0] != 1 || shrink[1] != 1)) return;
    for (int d = 0; d < columns; ++d)
      for (int e = 0; e < 4; ++e) sums[d][e] *= shrink[e / 2];
  }

  // No more tiles come. Then the rest is the same in the whole quad.
  __device__ void finish() {
    for (float& part : sum)
      for (int distance = quad / 2; distance > 0; distance /= 2) part += __shfl_xor_sync(all_lanes, part, distance);
  }
  // A row that sees no key has weights 0, and so that they come out again, an infinite log_sum.
  __device__ float inverse(int half) const { return sum[half] == 0 ? 0.f : 1 / sum[half]; }
  __device__ float log_sum(int half) const { return sum[half] == 0 ? infinity : top[half] + logf(sum[half]); }
  // Makes weights of the scores of a tile that was taken in before; likewise.
  template <class Tile, int n>
  __device__ __forceinline__ void weights(const Tile& tile, unsigned seen, int reach, float (&scores)[n][4]) const {
    const float scale = tile.add_bias(seen, scores);
    for (int m = 0; m < n; ++m) {
      if (m * 8 >= reach) continue;
      for (int e = 0; e < 4; ++e) {
        const bool sees = seen >> (m * 4 + e) & 1;
        scores[m][e] = (sees ? exp_of<T>(scores[m][e], scale, top[e / 2]) : 0.f) * inverse(e / 2);
      }
    }
  }

 private:
  __device__ static float quad_max(float value) {
    for (int distance = quad / 2; distance > 0; distance /= 2)
      value = fmaxf(value, __shfl_xor_sync(all_lanes, value, distance));
    return value;
  }
};

}  // namespace heddle::cuda
