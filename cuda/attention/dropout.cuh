// Dropout of a tile of scores. kernel/attention_plan.hpp assigns the generator's calls to the keys; every kernel
// repeats the same draws, and no mask is stored.
#pragma once
#include "tile.cuh"

namespace heddle::cuda {

// Returns the number of the generator call `call` for the scores of query i.
template <class T>
__device__ std::uint64_t call_number(const AttentionTask<T>& task, const SequenceHead<T>& head, int i, int call) {
  return head.first_call + std::uint64_t{static_cast<std::uint32_t>(i)} * task.calls_per_row +
         static_cast<std::uint32_t>(call);
}

// Calls f(m, half, kept) for the scores of a tile whose own rows are queries: bits 15 and 31 of kept decide on
// scores[m][2 half] and scores[m][2 half + 1] (products.cuh), m < n. One generator call decides eight of the lane's
// scores: those of one own row for four neighboring m. Leaves out other rows from `reach` on.
template <int n, class T, class Reach, class F>
__device__ __forceinline__ void draw_for_queries(const ScoreTile<T, false>& tile, Reach reach, F f) {
  constexpr int group = static_cast<int>(kernel::keys_per_draw_group);
  const std::uint64_t first =
      call_number(tile.task, tile.head, tile.own_row(0), tile.other / group * quad + tile.lane() % quad);
  for (int half = 0; half < 2; ++half) {
    std::uint64_t call = first + static_cast<unsigned>(half * 8) * std::uint64_t{tile.task.calls_per_row};
    for (int m = 0; m < n; m += quad) {
      if (m * 8 >= reach) continue;
      const kernel::PhiloxWords words = tile.task.plan.draws(call, tile.task.keys);
      for (int j = 0; j < quad; ++j) f(m + j, half, tile.task.kept.in_halves(words.w[j]));
      call += quad;
    }
  }
}

// Returns the bits of kept scores of a tile whose own rows are keys. One generator call decides eight keys of one
// query. Four lanes hold these keys, two each: the lanes 4 g + t that have the same t and the same g % 4 / 2. Each of
// the four lanes makes the call for one of four queries. Then they exchange the results: a word with 8 bits for each of
// the 4 queries.
template <class T>
__device__ unsigned kept_scores_of_keys(const ScoreTile<T, true>& tile, int reach) {
  constexpr int group = static_cast<int>(kernel::keys_per_draw_group);
  constexpr int g_odd = quad, g_upper = 4 * quad;  // distances of lanes
  const int g = tile.lane() / quad, turn = g / 4 * 2 + g % 2;
  const int of_keys = tile.own / group * quad + tile.slice / 2 * quad + tile.slice % 2 * 2 + g % 4 / 2;
  std::uint64_t call = call_number(tile.task, tile.head, tile.other_row(turn / 2, turn % 2), of_keys);
  unsigned bits = 0;
#ifdef __CUDACC__
#pragma unroll 1
#endif
  for (int m = 0; m * 8 < reach; m += 2) {
    unsigned all = tile.task.kept.of_call(tile.task.plan.draws(call, tile.task.keys)) << (turn * 8);
    call += std::uint64_t{2 * 8} * tile.task.calls_per_row;
    all |= __shfl_xor_sync(all_lanes, all, g_odd);
    all |= __shfl_xor_sync(all_lanes, all, g_upper);
    // Bits 0 and 2 of each byte: the lane's two keys.
    const unsigned own = all >> (g % 2 * 4 + g / 4);
    bits |= ((own & 0x5u) | (own >> 7 & 0xau) | (own >> 12 & 0x50u) | (own >> 19 & 0xa0u)) << (m * 4);
  }
  return bits;
}

// The factors of a tile's scores: the dropout's scale if a score is kept, 0 if it is dropped.
template <int n>
class KeptFactors {
 public:
  // Draws for the other rows that precede `reach`. `other` of the tile is a multiple of 32; so is `own` if the own rows
  // are keys.
  template <class T, bool own_keys, class Reach>
  __device__ __forceinline__ KeptFactors(const ScoreTile<T, own_keys>& tile, Reach reach) {
    const float scale = tile.task.plan.dropout.scale;
    if constexpr (own_keys) {
      const unsigned bits = kept_scores_of_keys(tile, reach);
      for (int m = 0; m < n; ++m)
        for (int e = 0; e < 4; ++e) factors_[m][e] = bits >> (m * 4 + e) & 1 ? scale : 0.f;
    } else {
      draw_for_queries<n>(tile, reach, [&](int m, int half, std::uint32_t kept) {
        factors_[m][2 * half] = kept & 0x8000u ? scale : 0.f;
        factors_[m][2 * half + 1] = static_cast<std::int32_t>(kept) < 0 ? scale : 0.f;
      });
    }
  }
  __device__ float operator()(int m, int e) const { return factors_[m][e]; }

 private:
  float factors_[n][4] = {};
};

// The factors without dropout.
struct AllKept {
  __device__ constexpr float operator()(int, int) const { return 1; }
};

// Calls f(kept) with the factors of a tile's scores.
template <int n, class T, bool own_keys, class Reach, class F>
__device__ __forceinline__ void with_kept(const ScoreTile<T, own_keys>& tile, Reach reach, F f) {
  if (tile.task.has_dropout()) return f(KeptFactors<n>(tile, reach));
  f(AllKept());
}

}  // namespace heddle::cuda
