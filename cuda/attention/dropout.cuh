// Dropout of a tile of scores. gpu/attention_plan.hpp assigns the generator's calls to the keys; every kernel repeats the same draws, and
// no mask is stored.
#pragma once
#include "tile.cuh"

namespace heddle::cuda {

// Returns the random words of generator call `call` for the scores of query i.
template <class T>
__device__ kernel::PhiloxWords draw(const AttentionTask<T>& task, const SequenceHead<T>& head, int i, int call) {
  const Index row = head.pair * task.plan.longest_q + i;
  return task.plan.draws(static_cast<std::uint64_t>(row * task.calls_per_row + call));
}

// Returns the bits of kept scores of a tile whose own rows are queries. One generator call decides eight of the lane's scores: those of
// one own row for four neighboring n (scores[n][e] in products.cuh).
template <class T>
__device__ unsigned kept_scores_of_queries(const ScoreTile<T, false>& tile, int reach) {
  constexpr int group = static_cast<int>(kernel::keys_per_draw_group);
  unsigned bits = 0;
#ifdef __CUDACC__
#pragma unroll 1
#endif
  for (int m = 0; m * 8 < reach; m += quad)
    for (int half = 0; half < 2; ++half) {
      const kernel::PhiloxWords words =
          draw(tile.task, tile.head, tile.own_row(2 * half), (tile.other + m * 8) / group * quad + tile.lane() % quad);
      for (int e = 0; e < 8; ++e)
        bits |= static_cast<unsigned>(tile.task.plan.dropout.keeps(draw16(words, e)))
                << ((m + e / 2) * 4 + half * 2 + e % 2);
    }
  return bits;
}

// Returns the bits of kept scores of a tile whose own rows are keys. One generator call decides eight keys of one query. Four lanes hold
// these keys, two each: the lanes 4 g + t that have the same t and the same g % 4 / 2. Each of the four lanes makes the call for one of
// four queries. Then they exchange the results: a word with 8 bits for each of the 4 queries.
template <class T>
__device__ unsigned kept_scores_of_keys(const ScoreTile<T, true>& tile, int reach) {
  constexpr int group = static_cast<int>(kernel::keys_per_draw_group);
  constexpr int g_odd = quad, g_upper = 4 * quad;  // distances of lanes
  const int g = tile.lane() / quad, turn = g / 4 * 2 + g % 2;
  const int call = tile.own / group * quad + tile.warp() / 2 * quad + tile.warp() % 2 * 2 + g % 4 / 2;
  unsigned bits = 0;
#ifdef __CUDACC__
#pragma unroll 1
#endif
  for (int m = 0; m * 8 < reach; m += 2) {
    const kernel::PhiloxWords words = draw(tile.task, tile.head, tile.other_row(m + turn / 2, turn % 2), call);
    unsigned all = 0;
    for (int e = 0; e < 8; ++e)
      all |= static_cast<unsigned>(tile.task.plan.dropout.keeps(draw16(words, e))) << (turn * 8 + e);
    all |= __shfl_xor_sync(all_lanes, all, g_odd);
    all |= __shfl_xor_sync(all_lanes, all, g_upper);
    for (int of = 0; of < 4; ++of)
      for (int half = 0; half < 2; ++half) {
        const int drawn = of * 8 + (half * 2 + g / 4) * 2 + g % 2;
        bits |= (all >> drawn & 1) << ((m + of / 2) * 4 + half * 2 + of % 2);
      }
  }
  return bits;
}

// Returns which pairs the dropout keeps, as bits of the tile. `other` is a multiple of 32; so is `own` if the own rows are keys.
template <class T, bool own_keys>
__device__ unsigned kept_scores(const ScoreTile<T, own_keys>& tile, int reach) {
  if (!tile.task.has_dropout()) return ~0u;
  if constexpr (own_keys)
    return kept_scores_of_keys(tile, reach);
  else
    return kept_scores_of_queries(tile, reach);
}

// Multiplies the dropped scores by zero; a NaN stays NaN. The caller multiplies the kept ones by the dropout's scale.
template <class T, bool own_keys, int n>
__device__ __forceinline__ void drop(const ScoreTile<T, own_keys>& tile, unsigned kept, float (&scores)[n][4]) {
  if (!tile.task.has_dropout()) return;
  for (int m = 0; m < n; ++m)
    for (int e = 0; e < 4; ++e) scores[m][e] *= kept >> (m * 4 + e) & 1 ? 1.f : 0.f;
}

}  // namespace heddle::cuda
