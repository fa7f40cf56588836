// One tile of attention's scores: which pairs of rows it has and which of them are masked, its softmax, and its
// gradients.
//
// A tile is a block's own rows times some other rows: own queries and other keys, or own keys and other queries for the
// gradients of k and v. products.cuh assigns the scores to the lanes.
//
// Most tiles are whole: all their pairs exist and are visible. Functions of a tile take `reach`, how many other rows a
// warp has to process, and `visible`, a bit for each pair. In a whole tile both are constants, whose type holds the
// value, and the compiler drops the tests.
#pragma once
#include "../device/block.cuh"
#include "../device/fast_math.cuh"
#include "../device/vector.cuh"
#include "products.cuh"

namespace heddle::cuda {

// --- the pairs of a tile ---------------------------------------------------------------------------------------------

using AllBits = Constant<~0u>;

// The scores of a slice of 16 own rows with a tile of other rows, as one lane sees them. `own` is the block's first own
// row, `other` the tile's first row. In a word of bits, bit 4 n + e belongs to scores[n][e].
template <class T, bool own_keys>
struct ScoreTile {
  const AttentionTask<T>& task;
  const SequenceHead<T>& head;
  int own, other;
  int slice = warp_index();  // of the block

  __device__ static int lane() { return lane_index(); }
  __device__ int own_row(int e) const {
    return own + own_row_offset<own_keys>(slice * slice_rows + lane() / quad + e / 2 * 8);
  }
  __device__ int other_row(int m, int e) const { return other + m * 8 + lane() % quad * 2 + e % 2; }
  __device__ int query(int m, int e) const { return own_keys ? other_row(m, e) : own_row(e); }
  __device__ int key(int m, int e) const { return own_keys ? own_row(e) : other_row(m, e); }
  __device__ int own_count() const { return own_keys ? head.keys : head.queries; }
  __device__ int other_count() const { return own_keys ? head.queries : head.keys; }
  __device__ int first_own() const { return own + own_row_offset<own_keys>(slice * slice_rows); }
  __device__ int last_own() const { return own + own_row_offset<own_keys>(slice * slice_rows + slice_rows - 1); }

  __device__ bool has_own_rows() const { return first_own() < own_count(); }

  // Returns how many of the tile's other rows the warp has to process: rows from that number on form no visible pair
  // with a row of the slice. The number is rounded up to whole steps, and is the same in all lanes.
  __device__ int reach(int tile_rows) const {
    if (!has_own_rows()) return 0;
    const RowRange seen = rows_seen_by_any<own_keys>(task, other_count(), first_own(), last_own());
    if (other + tile_rows <= seen.begin || seen.end <= seen.begin) return 0;
    return rows_in_tile(seen.end - other, tile_rows);
  }

  // A tile is whole if its pairs with `slices` slices are all visible and the scores need no more than a positive
  // factor. Own queries after the sequence's last do not matter, because nothing is stored for them. This returns a
  // bound, the same in all lanes: the tile that begins at row `from` and its successors are whole if they begin before
  // the bound.
  template <int tile_rows>
  __device__ int whole_bound(int from, int slices = 1) const {
    if (task.plan.mask.data || task.plan.bias.data || !(task.plan.scale > 0)) return 0;
    if ((own_keys ? last_own() : first_own()) >= own_count()) return 0;
    const int last = last_own() + (slices - 1) * slice_rows;
    const RowRange seen = rows_seen_by_all<own_keys>(task, other_count(), first_own(), last);
    return from < seen.begin ? 0 : seen.end - tile_rows + 1;
  }

  // Returns which pairs exist and are not masked, among the first `reach` other rows.
  template <int n>
  __device__ unsigned visible(int reach) const {
    static_assert(n * 4 <= 32, "a word has a bit for each of a lane's scores");
    const kernel::AttentionPlan<T>& plan = task.plan;
    const RowRange seen = rows_seen_by_all<own_keys>(task, other_count(), first_own(), last_own());
    const bool all = seen.begin <= other && other + 8 * n <= seen.end && last_own() < own_count();
    unsigned bits = all ? ~0u : in_reach();
    if (!plan.mask.data && !plan.bias.data) return bits;
#ifdef __CUDACC__
#pragma unroll 1
#endif
    for (int m = 0; m * 8 < reach; ++m)
      for (int e = 0; e < 4; ++e) {
        const unsigned bit = 1u << (m * 4 + e);
        if ((bits & bit) && plan.is_masked(head.b, head.h, query(m, e), key(m, e))) bits &= ~bit;
      }
    return bits;
  }

  // Adds the bias to products of queries and keys. Returns the positive factor by which the caller still has to
  // multiply the scores: the scale, or 1 if this function has applied it.
  template <int n>
  __device__ __forceinline__ float add_bias(AllBits, float (&)[n][4]) const {
    return task.plan.scale;
  }
  template <int n>
  __device__ __forceinline__ float add_bias(unsigned visible, float (&scores)[n][4]) const {
    const float scale = task.plan.scale;
    if (!task.plan.bias.data && scale > 0) return scale;
    for (int m = 0; m < n; ++m) {
      __syncwarp();  // keeps the loads apart: registers are scarce
      for (int e = 0; e < 4; ++e) {
        const T* const row = task.plan.bias.row(head.b, head.h, query(m, e));
        const float bias = row && (visible >> (m * 4 + e) & 1) ? static_cast<float>(row[key(m, e)]) : 0.f;
        scores[m][e] = scores[m][e] * scale + bias;
      }
    }
    return 1;
  }

 private:
  // Returns which pairs exist and have a visible distance: a range of the other rows for each own row.
  __device__ unsigned in_reach() const {
    unsigned bits = 0;
    for (int e = 0; e < 4; ++e) {
      const int row = own_row(e);
      const RowRange seen = rows_seen_by_any<own_keys>(task, other_count(), row, row);
      constexpr unsigned every = 0x11111111;  // bit 0 of each n; shifted by e, bit e of each n
      if (row < own_count()) bits |= before(seen.end - other, e) & ~before(seen.begin - other, e) & every << e;
    }
    return bits;
  }
  // Returns the bits of all n for which scores[n][e] belongs to one of the tile's first `rows` other rows: four bits
  // for each n.
  __device__ unsigned before(int rows, int e) const {
    const int left = rows - (other_row(0, e) - other);  // 8 rows for each n
    return left <= 0 ? 0u : left > 8 * 7 ? ~0u : (1u << (left + 7) / 8 * 4) - 1;
  }
};

// Calls f(reach, visible, is_careful) for a tile, with constants if it is whole. `bound` is the whole_bound() of the
// first tile, or 0 if the block is careful; this moves it on.
template <int tile_rows, class T, bool own_keys, class F>
__device__ __forceinline__ void with_pairs(const ScoreTile<T, own_keys>& tile, int& bound, bool is_careful, F f) {
  if (tile.other < bound) return f(Constant<tile_rows>(), AllBits(), Constant<false>());
  const int reach = tile.reach(tile_rows);
  if (!is_careful) bound = tile.template whole_bound<tile_rows>(tile.other + tile_rows);
  f(reach, tile.template visible<tile_rows / 8>(reach), is_careful);
}

// --- exponentials ----------------------------------------------------------------------------------------------------

constexpr float log2_e = 1.44269504f;

// Returns exp(x): as accurate as on the CPU for float, the hardware's approximation for bf16.
template <class T>
__device__ float exp_for(float x) {
  if constexpr (std::is_same_v<T, float>)
    return expf(x);
  else
    return fast_exp2(x * log2_e);
}
// Returns exp(score * scale - shift) with the same accuracy. For bf16 this saves one instruction. The kernels that
// recompute a score must get the same bits, so the compiler has no choice of the product that it fuses with the sum.
template <class T>
__device__ float exp_of_score(float score, float scale, float shift) {
  if constexpr (std::is_same_v<T, float>)
    return exp_for<T>(fmaf(score, scale, -shift));
  else
    return fast_exp2(fmaf(score, scale * log2_e, -(shift * log2_e)));
}

// --- softmax ---------------------------------------------------------------------------------------------------------

// The softmax of a warp's 16 own queries, whose scores arrive tile by tile (Milakov and Gimelshein, 2018). A lane keeps
// the state of the two rows that it shares with its quad.
template <class T>
struct SoftmaxRows {
  static constexpr float lowest = std::numeric_limits<float>::lowest() / 2;  // times log2_e it is still finite
  float top[2] = {lowest, lowest};                                           // the greatest score so far
  float sum[2] = {0, 0};     // of exp(score - top); only of the lane's own scores until finish()
  float shrink[2] = {1, 1};  // the last tile's factor for the sums accumulated before it

  // Adds a tile: replaces its scores with exp(score - top), or zero for invisible pairs, and updates top, sum and
  // shrink.
  template <class Tile, class Visible, class Reach, int n>
  __device__ __forceinline__ void online_softmax_step(const Tile& tile, Visible visible, Reach reach,
                                                      float (&scores)[n][4]) {
    const float scale = tile.add_bias(visible, scores);
    float greatest[2] = {-infinity, -infinity};
    for (int m = 0; m < n; ++m) {
      if (m * 8 >= reach) continue;
      for (int e = 0; e < 4; ++e) {
        if (!(visible >> (m * 4 + e) & 1)) scores[m][e] = kernel::masked_score<float>;
        greatest[e / 2] = fmaxf(greatest[e / 2], scores[m][e]);
      }
    }
    for (int half = 0; half < 2; ++half) {
      const float before = top[half];
      top[half] = fmaxf(before, quad_max(greatest[half]) * scale);
      shrink[half] = exp_for<T>(before - top[half]);
      sum[half] *= shrink[half];
    }
    for (int m = 0; m < n; ++m) {
      if (m * 8 >= reach) continue;
      for (int e = 0; e < 4; ++e) {
        scores[m][e] = exp_of_score<T>(scores[m][e], scale, top[e / 2]);
        sum[e / 2] += scores[m][e];
      }
    }
  }

  // Multiplies the sums accumulated before the last tile by its `shrink`.
  template <int columns>
  __device__ __forceinline__ void shrink_sums(float (&sums)[columns][4]) const {
    if (!__any_sync(all_lanes, shrink[0] != 1 || shrink[1] != 1)) return;
    for (int d = 0; d < columns; ++d)
      for (int e = 0; e < 4; ++e) sums[d][e] *= shrink[e / 2];
  }

  // Adds up the sums of the quad after the last tile. The functions below require it.
  __device__ void finish() {
    for (float& part : sum)
      for (int distance = quad / 2; distance > 0; distance /= 2) part += __shfl_xor_sync(all_lanes, part, distance);
  }
  // Return the factor that normalizes a query's sums, and its log-sum-exp. For a query that sees no key, the factor is
  // 0 and the log-sum-exp is infinite, so that the backward computes zeros, too.
  __device__ float inverse_sum(int half) const { return sum[half] == 0 ? 0.f : 1 / sum[half]; }
  __device__ float log_sum_exp(int half) const { return sum[half] == 0 ? infinity : top[half] + logf(sum[half]); }
  // Replaces the scores of a previously added tile with their probabilities, which are zeros for invisible pairs.
  template <class Tile, int n>
  __device__ __forceinline__ void compute_probabilities(const Tile& tile, unsigned visible, int reach,
                                                        float (&scores)[n][4]) const {
    const float scale = tile.add_bias(visible, scores);
    for (int m = 0; m < n; ++m) {
      if (m * 8 >= reach) continue;
      for (int e = 0; e < 4; ++e) {
        const bool sees = visible >> (m * 4 + e) & 1;
        scores[m][e] = (sees ? exp_of_score<T>(scores[m][e], scale, top[e / 2]) : 0.f) * inverse_sum(e / 2);
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

// --- gradients -------------------------------------------------------------------------------------------------------

constexpr int delta_lanes = 8;  // lanes that share a query

// Returns delta of a query: the sum of y dy over the `width` columns of a head. All lanes of the warp call this, eight
// neighboring ones for the same query. `vectors`: accesses of 16 bytes are aligned.
template <class T>
__device__ __forceinline__ float sum_delta(const T* y, const T* dy, int width, bool vectors) {
  constexpr int each = per_access<T>;
  const int lane = lane_index() % delta_lanes;
  float sum = 0;
  if (vectors) {
    for (int d = lane * each; d < width; d += delta_lanes * each) {
      float a[each], b[each];
      load_floats(y + d, a);
      load_floats(dy + d, b);
      for (int e = 0; e < each; ++e) sum = fmaf(a[e], b[e], sum);
    }
  } else {
    for (int d = lane; d < width; d += delta_lanes)
      sum = fmaf(static_cast<float>(y[d]), static_cast<float>(dy[d]), sum);
  }
  for (int distance = delta_lanes / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(all_lanes, sum, distance);
  return sum;
}

// The log-sum-exp and delta of the two own queries of a lane.
struct QueryStatistics {
  float lse[2], delta[2];  // lse is infinite if there is no such query

  template <class T>
  __device__ QueryStatistics(const ScoreTile<T, false>& tile, View<const float, 2> all_lse,
                             View<const float, 2> all_delta) {
    const SequenceHead<T>& head = tile.head;
    for (int half = 0; half < 2; ++half) {
      const int i = tile.own_row(2 * half);
      const bool inside = i < head.queries;
      lse[half] = inside ? all_lse(head.h, head.q_begin + i) : infinity;
      delta[half] = inside && all_delta.data ? all_delta(head.h, head.q_begin + i) : 0.f;
    }
  }
  // Computes delta, and writes it to `all_delta`. All lanes of the warp call this.
  template <class T>
  __device__ QueryStatistics(const ScoreTile<T, false>& tile, View<const float, 2> all_lse, const HeadRows<const T>& y,
                             const HeadRows<const T>& dy, View<float, 2> all_delta)
      : QueryStatistics(tile, all_lse, {}) {
    constexpr int together = warp_size / delta_lanes;  // queries whose delta the warp computes at a time
    const SequenceHead<T>& head = tile.head;
    const int lane = lane_index();
#ifdef __CUDACC__
#pragma unroll(sizeof(T) == 2 ? 4 : 1)  // in float, registers are scarce
#endif
    for (int step = 0; step < slice_rows / together; ++step) {
      const int i = tile.first_own() + step * together + lane / delta_lanes;
      const bool inside = i < head.queries;
      const float sum = sum_delta(&y(i, 0), &dy(i, 0), inside ? dy.width : 0, y.vectors && dy.vectors);
      if (inside && lane % delta_lanes == 0) all_delta(head.h, head.q_begin + i) = sum;
      // The lane's queries stand in the rows lane / 4 and lane / 4 + 8 of the slice.
      const float of_lane = __shfl_sync(all_lanes, sum, lane / quad % together * delta_lanes);
      for (int half = 0; half < 2; ++half)
        if ((lane / quad + half * 8) / together == step) delta[half] = of_lane;
    }
  }
};

// Computes the gradients of a tile's scores (formulas: ops/attention/backward.hpp). `scores` holds q k^T and becomes p
// d; `dp` holds dy v^T and becomes ds = p (dp d - delta). lse(m, e) and delta(m, e) return the statistics of the query
// of scores[m][e], and kept_scale(m, e) returns d.
template <class T, bool own_keys, class Visible, class Reach, int n, class Lse, class Delta, class KeptScale>
__device__ __forceinline__ void compute_score_gradients(const ScoreTile<T, own_keys>& tile, Visible visible,
                                                        Reach reach, Lse lse, Delta delta, KeptScale kept_scale,
                                                        float (&scores)[n][4], float (&dp)[n][4]) {
  const float scale = tile.add_bias(visible, scores);
  for (int m = 0; m < n; ++m) {
    if (m * 8 >= reach) continue;
    for (int e = 0; e < 4; ++e) {
      const bool sees = visible >> (m * 4 + e) & 1;
      scores[m][e] = sees ? exp_of_score<T>(scores[m][e], scale, lse(m, e)) : 0.f;
    }
  }
  for (int m = 0; m < n; ++m) {
    if (m * 8 >= reach) continue;
    for (int e = 0; e < 4; ++e) {
      const bool sees = visible >> (m * 4 + e) & 1;
      dp[m][e] = sees ? scores[m][e] * fmaf(dp[m][e], kept_scale(m, e), -delta(m, e)) : 0.f;
      scores[m][e] *= kept_scale(m, e);  // a NaN stays
    }
  }
}

}  // namespace heddle::cuda
