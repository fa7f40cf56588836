// Dropout of a tile of scores. kernel/attention_plan.hpp assigns the generator's calls to the keys; every kernel
// repeats the same draws, and no mask is stored.
#pragma once
#include "tile.cuh"

namespace heddle::cuda {

// Decides 16-bit draws as DropoutRule::keeps does, eight at once.
class KeptDraws {
 public:
  __device__ explicit KeptDraws(const kernel::DropoutRule& rule)
      : low_threshold_((rule.threshold & 0x7fffu) * 0x10001u), top_suffices_(rule.threshold < 0x8000u ? ~0u : 0u) {}

  // Returns the decisions on the eight draws of a call. The one on half `half` of word j is bit j * step + half *
  // half_step<step>.
  template <int step>
  __device__ unsigned decide(const kernel::PhiloxWords& words) const {
    constexpr std::uint32_t first = 0x10001u;
    std::uint32_t bits = 0;  // those of the upper halves from bit 16 on
    for (int j = 0; j < 4; ++j) bits |= in_halves(words.w[j]) >> (15 - j * step) & first << (j * step);
    return (bits & 0xffffu) | bits >> (16 - half_step<step>);
  }
  // The distance of the two decisions on a word.
  template <int step>
  static constexpr int half_step = step == 1 ? 4 : 1;

 private:
  // Returns the decisions on both halves of a word, in bits 15 and 31. The lower 15 bits of a half decide where its top
  // bit equals that of the threshold.
  __device__ std::uint32_t in_halves(std::uint32_t word) const {
    const std::uint32_t low = (word | 0x80008000u) - low_threshold_;  // no half borrows from the other
    return (word & low) | ((word | low) & top_suffices_);
  }

  std::uint32_t low_threshold_;  // the lower 15 bits of the threshold, in both halves
  std::uint32_t top_suffices_;
};

// Returns the number of the generator call `call` for the scores of query i.
template <class T>
__device__ std::uint64_t call_number(const AttentionTask<T>& task, const SequenceHead<T>& head, int i, int call) {
  const Index row = head.pair * task.plan.longest_q + i;
  return static_cast<std::uint64_t>(row * task.calls_per_row + call);
}

// Returns the bits of kept scores of a tile whose own rows are queries. One generator call decides eight of the lane's
// scores: those of one own row for four neighboring n (scores[n][e] in products.cuh).
template <class T>
__device__ unsigned kept_scores_of_queries(const ScoreTile<T, false>& tile, int reach) {
  constexpr int group = static_cast<int>(kernel::keys_per_draw_group);
  const KeptDraws kept(tile.task.plan.dropout);
  unsigned bits = 0;
  for (int half = 0; half < 2; ++half) {
    std::uint64_t call =
        call_number(tile.task, tile.head, tile.own_row(2 * half), tile.other / group * quad + tile.lane() % quad);
#ifdef __CUDACC__
#pragma unroll 1
#endif
    for (int m = 0; m * 8 < reach; m += quad) {
      bits |= kept.decide<4>(tile.task.plan.draws(call, tile.task.keys)) << (m * 4 + half * 2);
      call += quad;
    }
  }
  return bits;
}

// Returns the bits of kept scores of a tile whose own rows are keys. One generator call decides eight keys of one
// query. Four lanes hold these keys, two each: the lanes 4 g + t that have the same t and the same g % 4 / 2. Each of
// the four lanes makes the call for one of four queries. Then they exchange the results: a word with 8 bits for each of
// the 4 queries.
template <class T>
__device__ unsigned kept_scores_of_keys(const ScoreTile<T, true>& tile, int reach) {
  constexpr int group = static_cast<int>(kernel::keys_per_draw_group);
  constexpr int g_odd = quad, g_upper = 4 * quad;  // distances of lanes
  const KeptDraws kept(tile.task.plan.dropout);
  const int g = tile.lane() / quad, turn = g / 4 * 2 + g % 2;
  const int of_keys = tile.own / group * quad + tile.warp() / 2 * quad + tile.warp() % 2 * 2 + g % 4 / 2;
  std::uint64_t call = call_number(tile.task, tile.head, tile.other_row(turn / 2, turn % 2), of_keys);
  unsigned bits = 0;
#ifdef __CUDACC__
#pragma unroll 1
#endif
  for (int m = 0; m * 8 < reach; m += 2) {
    unsigned all = kept.decide<1>(tile.task.plan.draws(call, tile.task.keys)) << (turn * 8);
    call += static_cast<std::uint64_t>(2 * 8 * tile.task.calls_per_row);
    all |= __shfl_xor_sync(all_lanes, all, g_odd);
    all |= __shfl_xor_sync(all_lanes, all, g_upper);
    // Bits 0 and 2 of each byte: the lane's two keys.
    const unsigned own = all >> (g % 2 * 4 + g / 4);
    bits |= ((own & 0x5u) | (own >> 7 & 0xau) | (own >> 12 & 0x50u) | (own >> 19 & 0xa0u)) << (m * 4);
  }
  return bits;
}

// Returns which pairs the dropout keeps, as bits of the tile. `other` is a multiple of 32; so is `own` if the own rows
// are keys.
template <class T, bool own_keys>
__device__ unsigned kept_scores(const ScoreTile<T, own_keys>& tile, int reach) {
  if (!tile.task.has_dropout()) return ~0u;
  if constexpr (own_keys)
    return kept_scores_of_keys(tile, reach);
  else
    return kept_scores_of_queries(tile, reach);
}

}  // namespace heddle::cuda
