// Dropout of a tile of scores. kernel/attention_plan.hpp assigns the generator's calls to the keys. The backward reads
// the forward's decisions, a bit for each score, if the plan has memory for them. Otherwise it repeats the draws.
#pragma once
#include "tile.cuh"

namespace heddle::cuda {

constexpr int draw_group = static_cast<int>(kernel::keys_per_draw_group);  // keys

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
  const std::uint64_t first =
      call_number(tile.task, tile.head, tile.own_row(0), tile.other / draw_group * quad + tile.lane() % quad);
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
  constexpr int g_odd = quad, g_upper = 4 * quad;  // distances of lanes
  const int g = tile.lane() / quad, turn = g / 4 * 2 + g % 2;
  const int of_keys = tile.own / draw_group * quad + tile.slice / 2 * quad + tile.slice % 2 * 2 + g % 4 / 2;
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

// --- stored decisions ------------------------------------------------------------------------------------------------

// A unit of stored decisions has a word for each lane of the warp that owns its 16 queries. Bit 8 e + 2 m + half of it
// belongs to scores[m][2 half + e]. The word of lane 4 g + t is number 8 (g / 2) + 2 t + g % 2, so that a warp of own
// keys reads the words of two neighboring queries at once. The forward may leave units without a visible distance
// unwritten; what the backward reads there has no effect.

// Returns where word `word` of a unit is.
template <class T, bool own_keys>
__device__ std::uint16_t* kept_word(const ScoreTile<T, own_keys>& tile, int slice_of_queries, int group_of_keys,
                                    int word) {
  const std::uint32_t unit = static_cast<std::uint32_t>(slice_of_queries) * tile.task.groups_per_row +
                             static_cast<std::uint32_t>(group_of_keys);
  constexpr auto of_unit = static_cast<std::uint32_t>(kernel::words_of_kept_unit);
  return tile.task.plan.kept + (tile.head.first_word + unit * of_unit + static_cast<std::uint32_t>(word));
}
// Returns where the lane's word in the first unit of a tile is.
template <class T>
__device__ std::uint16_t* kept_words_of_queries(const ScoreTile<T, false>& tile) {
  const int g = tile.lane() / quad, t = tile.lane() % quad;
  return kept_word(tile, static_cast<int>(static_cast<unsigned>(tile.first_own()) / slice_rows),
                   tile.other / draw_group, g / 2 * (2 * quad) + t * 2 + g % 2);
}

// Draws as draw_for_queries() does and stores the decisions.
template <int n, class T, class Reach, class F>
__device__ __forceinline__ void draw_and_store(const ScoreTile<T, false>& tile, Reach reach, F f) {
  std::uint32_t bits = 0;  // bit 16 e + 2 m + half
  draw_for_queries<n>(tile, reach, [&](int m, int half, std::uint32_t kept) {
    f(m, half, kept);
    bits |= spread_signs(kept) & 0x10001u << (2 * m + half);
  });
  std::uint16_t* const words = kept_words_of_queries(tile);
  for (int j = 0; j < n / quad; ++j)
    if (j * draw_group < reach)
      words[j * kernel::words_of_kept_unit] = static_cast<std::uint16_t>(byte_of_halves(bits, j));
}

// Whether scores are dropped, and whether the forward stores which.
enum class Dropout { none, drawn, stored };

// Calls f(Constant<dropout>()) with what the task asks for.
template <class T, class F>
__device__ __forceinline__ void with_dropout(const AttentionTask<T>& task, F f) {
  if (!task.has_dropout()) return f(Constant<Dropout::none>());
  if (!task.plan.kept) return f(Constant<Dropout::drawn>());
  f(Constant<Dropout::stored>());
}

// Draws for a tile of the forward as draw_for_queries() does.
template <int n, Dropout dropout, class T, class Reach, class F>
__device__ __forceinline__ void draw(const ScoreTile<T, false>& tile, Reach reach, F f) {
  if constexpr (dropout == Dropout::drawn) draw_for_queries<n>(tile, reach, f);
  if constexpr (dropout == Dropout::stored) draw_and_store<n>(tile, reach, f);
}

// Calls f(m, e, kept) for the scores of a tile that precede `reach`, where kept is 0 if the forward has dropped
// scores[m][e], and else 1.
template <int n, class T, class Reach, class F>
__device__ __forceinline__ void read_kept(const ScoreTile<T, false>& tile, Reach reach, F f) {
  const std::uint16_t* const words = kept_words_of_queries(tile);
  for (int j = 0; j < n / quad; ++j) {
    if (j * draw_group >= reach) continue;
    const std::uint32_t word = words[j * kernel::words_of_kept_unit];
    for (int m = 0; m < quad; ++m)
      for (int e = 0; e < 4; ++e) f(quad * j + m, e, word >> (e % 2 * 8 + 2 * m + e / 2) & 1);
  }
}
template <int n, class T, class Reach, class F>
__device__ __forceinline__ void read_kept(const ScoreTile<T, true>& tile, Reach reach, F f) {
  const int g = tile.lane() / quad, t = tile.slice % 2 * 2 + g % 4 / 2;
  const int word_of_query = tile.lane() % quad * (2 * quad) + t * 2;
  const int bit = g % 2 * 8 + g / 4 * 2;  // of own row g; that of own row g + 8 is 4 higher
  for (int m = 0; m < n; m += 2) {
    if (m * 8 >= reach) continue;
    const std::uint16_t* const of_query =
        kept_word(tile, tile.other / slice_rows + m / 2, tile.own / draw_group + tile.slice / 2, word_of_query);
    const std::uint32_t words = *reinterpret_cast<const std::uint32_t*>(of_query) >> bit;
    for (int half = 0; half < 2; ++half)
      for (int e = 0; e < 4; ++e) f(m + half, e, words >> (e % 2 * 16 + e / 2 * 4 + half) & 1);
  }
}

// --- factors ---------------------------------------------------------------------------------------------------------

// The factors of a tile's scores: the dropout's scale if a score is kept, 0 if it is dropped. `other` of the tile is a
// multiple of 32; so is `own` if the own rows are keys.
template <int n>
class KeptFactors {
 public:
  // Draws for the other rows that precede `reach`.
  template <class T, bool own_keys, class Reach>
  __device__ __forceinline__ static KeptFactors drawn(const ScoreTile<T, own_keys>& tile, Reach reach) {
    const float scale = tile.task.plan.dropout.scale;
    KeptFactors factors;
    if constexpr (own_keys) {
      const unsigned bits = kept_scores_of_keys(tile, reach);
      for (int m = 0; m < n; ++m)
        for (int e = 0; e < 4; ++e) factors.at_[m][e] = bits >> (m * 4 + e) & 1 ? scale : 0.f;
    } else {
      draw_for_queries<n>(tile, reach, [&](int m, int half, std::uint32_t kept) {
        factors.at_[m][2 * half] = kept & 0x8000u ? scale : 0.f;
        factors.at_[m][2 * half + 1] = static_cast<std::int32_t>(kept) < 0 ? scale : 0.f;
      });
    }
    return factors;
  }
  // Reads what the forward has decided.
  template <class T, bool own_keys, class Reach>
  __device__ __forceinline__ static KeptFactors stored(const ScoreTile<T, own_keys>& tile, Reach reach) {
    const float scale = tile.task.plan.dropout.scale;
    KeptFactors factors;
    read_kept<n>(tile, reach, [&](int m, int e, std::uint32_t kept) { factors.at_[m][e] = kept ? scale : 0.f; });
    return factors;
  }

  __device__ float operator()(int m, int e) const { return at_[m][e]; }

 private:
  float at_[n][4] = {};
};

// The factors without dropout.
struct AllKept {
  __device__ constexpr float operator()(int, int) const { return 1; }
};

// Calls f(kept) with the factors of a tile's scores.
template <int n, class T, bool own_keys, class Reach, class F>
__device__ __forceinline__ void with_kept(const ScoreTile<T, own_keys>& tile, Reach reach, F f) {
  with_dropout(tile.task, [&]<Dropout dropout>(Constant<dropout>) {
    if constexpr (dropout == Dropout::none) f(AllKept());
    if constexpr (dropout == Dropout::drawn) f(KeptFactors<n>::drawn(tile, reach));
    if constexpr (dropout == Dropout::stored) f(KeptFactors<n>::stored(tile, reach));
  });
}

}  // namespace heddle::cuda
