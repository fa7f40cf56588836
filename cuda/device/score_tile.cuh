// Tiles of attention's scores: a block's own rows times some rows of the other side. Own queries and other keys, or own keys and
// other queries where the gradients of keys and values are made. Which lane holds which score: row_products.cuh.
#pragma once
#include "block.cuh"
#include "tensor_core_products.cuh"

namespace heddle::cuda {

constexpr int other_step = 16;  // other rows are worked on in steps: the depth of a tensor core's product
constexpr float log2_e = 1.44269504f;

__device__ inline float exp2_of(float x) {
#ifdef __CUDACC__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}
// For float as exactly as on the CPU.
template <class T>
__device__ float exp_of_difference(float x) {
  if constexpr (std::is_same_v<T, float>)
    return expf(x);
  else
    return exp2_of(x * log2_e);
}
// exp(score * scale - shift) likewise, in one instruction less for bf16.
template <class T>
__device__ float exp_of(float score, float scale, float shift) {
  if constexpr (std::is_same_v<T, float>)
    return exp_of_difference<T>(score * scale - shift);
  else
    return exp2_of(score * (scale * log2_e) - shift * log2_e);
}

HEDDLE_HD inline int tiles_for(Index count, int each) { return static_cast<int>((count + each - 1) / each); }
// Of `left` rows, those in a tile, in whole steps.
__device__ inline int rows_in_tile(int left, int tile_rows) {
  if (left <= 0) return 0;
  return left < tile_rows ? (left + other_step - 1) / other_step * other_step : tile_rows;
}

// A plan, and what of it is computed on the host: the calls of the dropout's draws for a query.
template <class T>
struct AttentionTask {
  kernel::AttentionPlan<T> plan;
  Index calls = kernel::calls_per_score_row(plan.longest_k);

  HEDDLE_HD bool drops() const { return plan.dropout.threshold > 0; }
  // Whether pairs within a sequence may be masked.
  HEDDLE_HD bool masks() const { return plan.causal || plan.mask.data || plan.bias.data; }
};

// The tile of scores from own row `own` of the block and other row `other` on, as a lane sees it: bit 4 n + e of a word is of
// scores[n][e].
template <class T, bool own_keys>
struct ScoreTile {
  const AttentionTask<T>& task;
  const SequenceHead<T>& head;
  int own, other;

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % warp_size; }
  __device__ static int warp() { return static_cast<int>(threadIdx.x) / warp_size; }
  __device__ int own_row(int e) const {
    return own + own_place<own_keys>(warp() * own_rows + lane() / quad + e / 2 * 8);
  }
  __device__ int other_row(int m, int e) const { return other + m * 8 + lane() % quad * 2 + e % 2; }
  __device__ int query(int m, int e) const { return own_keys ? other_row(m, e) : own_row(e); }
  __device__ int key(int m, int e) const { return own_keys ? own_row(e) : other_row(m, e); }
  __device__ int own_count() const { return own_keys ? head.keys : head.queries; }
  __device__ int other_count() const { return own_keys ? head.queries : head.keys; }
  __device__ int first_own() const { return own + own_place<own_keys>(warp() * own_rows); }
  __device__ int last_own() const { return own + own_place<own_keys>(warp() * own_rows + own_rows - 1); }

  // How many of the tile's other rows any of the warp's may see, in whole steps; the same for the whole warp.
  __device__ int reach(int tile_rows) const {
    if (first_own() >= own_count()) return 0;
    int rows = other_count() - other;
    if (task.plan.causal && own_keys && other_count() <= first_own()) return 0;
    if (task.plan.causal && !own_keys) rows = rows < last_own() + 1 - other ? rows : last_own() + 1 - other;
    return rows_in_tile(rows, tile_rows);
  }

  // Which pairs of the tile's first `reach` rows there are and are not masked.
  template <int n>
  __device__ unsigned seen(int reach) const {
    static_assert(n * 4 <= 32, "a word has a bit for each of a lane's scores");
    const kernel::AttentionPlan<T>& plan = task.plan;
    const bool all_causal = !plan.causal || (own_keys ? last_own() <= other : other + 8 * n - 1 <= first_own());
    const bool all_inside = all_causal && last_own() < own_count() && other + 8 * n <= other_count();
    unsigned bits = all_inside ? ~0u : inside();
    if (!plan.mask.data && !plan.bias.data) return bits;
#ifdef __CUDACC__
#pragma unroll 1
#endif
    for (int m = 0; m * 8 < reach; ++m)
      for (int e = 0; e < 4; ++e) {
        const unsigned bit = 1u << (m * 4 + e);
        if ((bits & bit) && plan.masked(head.b, head.h, query(m, e), key(m, e))) bits &= ~bit;
      }
    return bits;
  }

  // Adds the bias to products of queries and keys. Returns what they are still to be multiplied by, a positive number.
  template <int n>
  __device__ __forceinline__ float add_bias(unsigned seen, float (&scores)[n][4]) const {
    const float scale = task.plan.scale;
    if (!task.plan.bias.data && scale > 0) return scale;
    for (int m = 0; m < n; ++m) {
      __syncwarp();  // no load may come earlier: registers are scarce
      for (int e = 0; e < 4; ++e) {
        const T* const row = task.plan.bias.row(head.b, head.h, query(m, e));
        const float bias = row && (seen >> (m * 4 + e) & 1) ? static_cast<float>(row[key(m, e)]) : 0.f;
        scores[m][e] = scores[m][e] * scale + bias;
      }
    }
    return 1;
  }

  // Which pairs the dropout keeps. `other` is a multiple of 32, and so is `own` where keys are the block's own.
  __device__ unsigned kept(int reach) const {
    if (!task.drops()) return ~0u;
    if constexpr (own_keys)
      return kept_of_keys(reach);
    else
      return kept_of_queries(reach);
  }

 private:
  // Which pairs there are, and are not masked as causal: of each own row those with a stretch of the other rows.
  __device__ unsigned inside() const {
    unsigned bits = 0;
    for (int e = 0; e < 4; ++e) {
      const int row = own_row(e);
      int begin = 0, end = row < own_count() ? other_count() - other : 0;
      if (task.plan.causal && own_keys) begin = row - other;
      if (task.plan.causal && !own_keys) end = end < row + 1 - other ? end : row + 1 - other;
      constexpr unsigned every = 0x11111111;  // bit e of each n
      bits |= (before(end, e) & ~before(begin, e)) & every << e;
    }
    return bits;
  }
  // All bits of those n of which scores[n][e] is of one of the tile's first `rows` rows.
  __device__ unsigned before(int rows, int e) const {
    const int left = rows - (other_row(0, e) - other);  // 8 rows for each n
    return left <= 0 ? 0u : left > 8 * 7 ? ~0u : (1u << (left + 7) / 8 * 4) - 1;
  }

  __device__ kernel::PhiloxWords draw(int i, int call) const {
    const Index row = head.pair * task.plan.longest_q + i;
    return task.plan.draws(static_cast<std::uint64_t>(row * task.calls + call));
  }
  __device__ bool keeps(const kernel::PhiloxWords& words, int e) const {
    return task.plan.dropout.keeps(draw16(words, e));
  }

  // Four neighbouring n are of one call.
  __device__ unsigned kept_of_queries(int reach) const {
    constexpr int together = static_cast<int>(kernel::keys_per_draw_group);
    unsigned bits = 0;
#ifdef __CUDACC__
#pragma unroll 1
#endif
    for (int m = 0; m * 8 < reach; m += quad)
      for (int half = 0; half < 2; ++half) {
        const kernel::PhiloxWords words = draw(own_row(2 * half), (other + m * 8) / together * quad + lane() % quad);
        for (int e = 0; e < 8; ++e)
          bits |= static_cast<unsigned>(keeps(words, e)) << ((m + e / 2) * 4 + half * 2 + e % 2);
      }
    return bits;
  }

  // A call decides eight keys of one query: two for each of the four lanes that have the same t and g % 4 / 2. Each of
  // these draws for one of their four queries out of 16, eight bits, and gets the other ones from the others.
  __device__ unsigned kept_of_keys(int reach) const {
    constexpr int together = static_cast<int>(kernel::keys_per_draw_group);
    constexpr int g_odd = quad, g_upper = 4 * quad;  // distances of lanes
    const int g = lane() / quad, turn = g / 4 * 2 + g % 2;
    const int call = own / together * quad + warp() / 2 * quad + warp() % 2 * 2 + g % 4 / 2;
    unsigned bits = 0;
#ifdef __CUDACC__
#pragma unroll 1
#endif
    for (int m = 0; m * 8 < reach; m += 2) {
      const kernel::PhiloxWords words = draw(other_row(m + turn / 2, turn % 2), call);
      unsigned all = 0;
      for (int e = 0; e < 8; ++e) all |= static_cast<unsigned>(keeps(words, e)) << (turn * 8 + e);
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
};

// Zeros what the dropout does not keep; the rest is still to be multiplied by the rule's scale.
template <class T, bool own_keys, int n>
__device__ __forceinline__ void drop(const ScoreTile<T, own_keys>& tile, unsigned kept, float (&scores)[n][4]) {
  if (!tile.task.drops()) return;
  for (int m = 0; m < n; ++m)
    for (int e = 0; e < 4; ++e) scores[m][e] *= kept >> (m * 4 + e) & 1 ? 1.f : 0.f;  // a NaN stays
}

}  // namespace heddle::cuda
