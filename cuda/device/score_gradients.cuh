// The gradients of scores, made of what the forward saved. Formulas: include/heddle/ops/attention_backward.hpp.
#pragma once
#include "score_tile.cuh"

namespace heddle::cuda {

// What the gradient of a query's scores needs of the forward, for the two own queries of a lane.
struct QueryNumbers {
  float lse[2], delta[2];  // lse is infinite where there is no such query

  template <class T>
  __device__ QueryNumbers(const ScoreTile<T, false>& tile, View<const float, 2> all_lse,
                          View<const float, 2> all_delta) {
    for (int half = 0; half < 2; ++half) {
      const int i = tile.own_row(2 * half), n = tile.head.q_begin + i;
      const bool inside = i < tile.head.queries;
      lse[half] = inside ? all_lse(tile.head.h, n) : infinity;
      delta[half] = inside ? all_delta(tile.head.h, n) : 0.f;
    }
  }
};

// Of products of queries and keys, `scores`, and of dy and values, `dp`: scores become p d without the dropout's scale, and dp
// becomes ds = p (dp d - delta). The functions give the log-sum-exp of scores[m][e]'s query, and its delta.
template <class T, bool own_keys, int n, class Lse, class Delta>
__device__ __forceinline__ void make_gradients(const ScoreTile<T, own_keys>& tile, unsigned seen, unsigned kept,
                                               int reach, Lse lse, Delta delta, float (&scores)[n][4],
                                               float (&dp)[n][4]) {
  const float scale = tile.add_bias(seen, scores);
  const bool drops = tile.task.drops();
  const float keep_scale = tile.task.plan.dropout.scale;
  for (int m = 0; m < n; ++m) {
    if (m * 8 >= reach) continue;
    for (int e = 0; e < 4; ++e) {
      const bool sees = seen >> (m * 4 + e) & 1;
      const float p = sees ? exp_of<T>(scores[m][e], scale, lse(m, e)) : 0.f;
      const bool keeps = !drops || (kept >> (m * 4 + e) & 1);
      scores[m][e] = p * (keeps ? 1.f : 0.f);  // a NaN stays
      dp[m][e] = sees ? p * (dp[m][e] * (keeps ? keep_scale : 0.f) - delta(m, e)) : 0.f;
    }
  }
}

}  // namespace heddle::cuda
