// Attention's forward on the CPU. Scores are computed tile by tile and never stored: each query keeps a running maximum
// and sum (Milakov and Gimelshein 2018; Dao et al. 2022). The log-sum-exp of each query's scores is saved for the
// backward.
#pragma once
#include <heddle/ops/attention/dropout.hpp>

namespace heddle::kernel {

// Returns how many heads of the longest sequence to give to a thread. Each visible score costs `width` multiplications.
template <class T>
Index head_grain(const AttentionPlan<T>& plan, Index width) {
  constexpr Index multiplications = 1000000;  // a few tens of microseconds
  const Index keys = std::min(plan.longest_k, plan.past + 1 + std::min(plan.future, plan.longest_k));
  return multiplications / (plan.longest_q * keys * width + 1) + 1;
}

template <class T>
struct ForwardTiles {
  using A = Acc<T>;
  TransposedRows<T> k;  // of the head
  TileBuffer<A> v;      // of the head
  TileBuffer<A> q, s, factors, o;
  TileBuffer<A> pairs;  // of weights, if they are multiplied as such
  Tensor<A> top, sum;

  ForwardTiles(const AttentionPlan<T>& p, Index K, Index V)
      : k(p.longest_k, K),
        v(p.longest_k, V),
        q(tile_queries(p), K),
        s(tile_queries(p), tile_keys(p)),
        factors(tile_queries(p), tile_keys(p)),
        o(tile_queries(p), V),
        pairs(multiplies_pairs<T> ? tile_queries(p) : 0, tile_keys(p)),
        top({tile_queries(p)}),
        sum({tile_queries(p)}) {}
};

// Computes the rows of y for queries [at.i, at.i + y.rows) of one head, and the log-sum-exp of their scores. v are the
// head's values; its keys are in `tiles`.
template <class T>
void attend(const AttentionPlan<T>& plan, TileOrigin at, MatrixView<const T> q, const ProductRows<T>& v,
            MatrixView<T> y, Acc<T>* lse, ForwardTiles<T>& tiles) {
  using A = Acc<T>;
  const auto q_tile = left_queries(plan, q, tiles.q);  // [rows, K]
  const auto o = tiles.o(y.rows, y.width);             // [rows, V]
  A* const top = tiles.top.data();                     // [rows]
  A* const sum = tiles.sum.data();                     // [rows]
  for (Index r = 0; r < o.rows; ++r) std::fill_n(&o(r, 0), o.width, A(0));
  std::fill_n(top, y.rows, std::numeric_limits<A>::lowest());
  std::fill_n(sum, y.rows, A(0));

  const KeyRange keys = keys_of_tiles(plan, v.rows.rows, at.i, at.i + y.rows);
  for (at.j = keys.begin; at.j < keys.end; at.j += tile_keys(plan)) {
    const Index last = std::min(keys.end, at.j + tile_keys(plan));
    const auto v_tile = v.range(at.j, last);      // [keys, V]
    const auto s = tiles.s(y.rows, last - at.j);  // [rows, keys] scores, then exp(score - top)
    compute_scores(plan, at, q_tile, tiles.k, s);
    for (Index r = 0; r < s.rows; ++r) {
      const A shrink = online_softmax_step(s, r, top[r], sum[r]);
      if (at.j > keys.begin && shrink != 1) scale_row(&o(r, 0), &o(r, 0), o.width, shrink);
    }
    if (plan.dropout.is_active()) {
      const auto factors = tiles.factors(s.rows, s.width);
      draw_tile_factors(plan, at, factors);
      for (Index r = 0; r < s.rows; ++r)
        for_each_chunk<A>(whole_vectors<A>(s.width), [to = &s(r, 0), factor = &factors(r, 0)](Chunk<A> chunk) {
          chunk.store(to, chunk.load(to) * chunk.load(factor));
        });
    }
    const bool isolate_nan = may_be_masked(plan, at, s) && !all_finite(v_tile.rows);
    add_weighted(AddTo::queries, plan, at, isolate_nan, s, v_tile, o, tiles.pairs);
  }
  for (Index r = 0; r < y.rows; ++r) scale_row(&y(r, 0), &o(r, 0), y.width, sum[r] == 0 ? A(0) : 1 / sum[r]);
  for_each_chunk<A>(y.rows, [&](Chunk<A> chunk) {
    const Vector<A> sums = chunk.load(sum), infinite(std::numeric_limits<A>::infinity());
    chunk.store(lse, select(sums == Vector<A>(0), infinite, chunk.load(top) + log(sums)));
  });
}

// Computes y and lse. lse [H, Nq] is infinite for a query that sees no key, so that its weights exp(score -
// lse) are zero.
template <class T>
void attention(Cpu, const AttentionPlan<T>& plan, MatrixView<const T> q, MatrixView<const T> k, MatrixView<const T> v,
               MatrixView<T> y, View<Acc<T>, 2> lse) {
  const Index H = plan.heads;
  parallel(plan.count() * H, head_grain(plan, q.width / H + v.width / H), [&](Index first, Index last) {
    ForwardTiles<T> tiles(plan, q.width / H, v.width / H);
    for (Index pair = first; pair < last; ++pair) {
      const Index b = pair / H, h = pair % H, queries = plan.q_length(b);
      const auto q_head = head_of(q, plan.q_begin(b), queries, h, H);
      tiles.k.set(head_of(k, plan.k_begin(b), plan.k_length(b), h, H));
      const auto v_head = product_rows(head_of(v, plan.k_begin(b), plan.k_length(b), h, H), tiles.v);
      const auto y_head = head_of(y, plan.q_begin(b), queries, h, H);
      for (Index i = 0; i < queries; i += tile_queries(plan)) {
        const Index end = std::min(queries, i + tile_queries(plan));
        attend<T>(plan, {b, h, i, 0}, row_range(q_head, i, end), v_head, row_range(y_head, i, end),
                  &lse(h, plan.q_begin(b) + i), tiles);
      }
    }
  });
}

// Computes the attention weights [B, H, Tq, Tk]; they are zero where a sequence has no query or key.
template <class T>
void attention_weights(Cpu, const AttentionPlan<T>& plan, MatrixView<const T> q, MatrixView<const T> k, View<T, 4> y) {
  using A = Acc<T>;
  const Index H = plan.heads;
  parallel(plan.count() * H, head_grain(plan, q.width / H), [&](Index first, Index last) {
    TileBuffer<A> q_buffer(tile_queries(plan), q.width / H), s_buffer(tile_queries(plan), plan.longest_k);
    TransposedRows<T> keys(plan.longest_k, q.width / H);
    for (Index pair = first; pair < last; ++pair) {
      const Index b = pair / H, h = pair % H, queries = plan.q_length(b);
      const auto q_head = head_of(q, plan.q_begin(b), queries, h, H);
      const auto k_head = head_of(k, plan.k_begin(b), plan.k_length(b), h, H);
      keys.set(k_head);
      std::fill_n(y.data + pair * y.extent[2] * y.extent[3], y.extent[2] * y.extent[3], static_cast<T>(0.f));
      for (Index i = 0; i < queries; i += tile_queries(plan)) {
        const Index end = std::min(queries, i + tile_queries(plan));
        const KeyRange seen = keys_of_tiles(plan, k_head.rows, i, end);
        if (seen.begin == seen.end) continue;
        const auto q_tile = left_queries(plan, row_range(q_head, i, end), q_buffer);
        const auto s = s_buffer(q_tile.rows, seen.end - seen.begin);
        compute_scores(plan, {b, h, i, seen.begin}, q_tile, keys, s);
        for (Index r = 0; r < s.rows; ++r) {
          A top = std::numeric_limits<A>::lowest(), sum = 0;
          online_softmax_step(s, r, top, sum);
          scale_row(&y(b, h, i + r, seen.begin), &s(r, 0), s.width, sum == 0 ? A(0) : 1 / sum);
        }
      }
    }
  });
}

}  // namespace heddle::kernel
