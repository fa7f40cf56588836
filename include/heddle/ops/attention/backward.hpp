// Attention's backward on the CPU. Let p be the attention weights, d the dropout factors, dp = dy v^T and delta the row
// sums of dy * y, where * multiplies elements. Then
//   dv = (p * d)^T dy    ds = p * (dp * d - delta)    dbias = ds    dq = scale ds k    dk = scale ds^T q
#pragma once
#include <heddle/ops/attention/forward.hpp>

namespace heddle::kernel {

// The operands of one head of one sequence. A gradient that is not required has no data.
template <class T>
struct HeadOperands {
  MatrixView<const T> q, k, v, dy;
  const Acc<T>*lse, *delta;  // [queries]
  MatrixView<T> dq, dk, dv;
};
// The operands of a tile, and the sums of the gradients. dq, and dk if q is not scaled, are without the scale.
template <class T>
struct TileOperands {
  ProductRows<T> q, k, dy;
  MatrixView<const Acc<T>> q_left, dy_left;
  const Acc<T>*lse, *delta;  // [queries]
  MatrixView<Acc<T>> dq, dk, dv;
};

template <class T>
struct BackwardTiles {
  using A = Acc<T>;
  TransposedRows<T> k_transposed, v_transposed;  // of the head
  TileBuffer<A> k, dk, dv;                       // of the head
  TileBuffer<A> q, dy, p, ds, factors, dq;
  TileBuffer<A> q_left, dy_left, pairs;  // if elements are multiplied as pairs

  BackwardTiles(const AttentionPlan<T>& plan, Index K, Index V)
      : k_transposed(plan.longest_k, K),
        v_transposed(plan.longest_k, V),
        k(plan.longest_k, K),
        dk(plan.longest_k, K),
        dv(plan.longest_k, V),
        q(tile_queries(plan), K),
        dy(tile_queries(plan), V),
        p(tile_queries(plan), tile_keys(plan)),
        ds(tile_queries(plan), tile_keys(plan)),
        factors(tile_queries(plan), tile_keys(plan)),
        dq(tile_queries(plan), K),
        q_left(multiplies_pairs<T> ? tile_queries(plan) : 0, K),
        dy_left(multiplies_pairs<T> ? tile_queries(plan) : 0, V),
        pairs(multiplies_pairs<T> ? tile_queries(plan) : 0, tile_keys(plan)) {}
};

// Adds one tile's contribution to dq, dk, dv and dbias.
template <class T>
void add_gradients(const AttentionPlan<T>& plan, TileOrigin at, const TileOperands<T>& x, PerScore<Acc<T>> dbias,
                   BackwardTiles<T>& tiles) {
  using A = Acc<T>;
  const Index queries = x.q.rows.rows, keys = x.k.rows.rows;
  const auto p = tiles.p(queries, keys);    // [queries, keys] scores, then weights
  const auto ds = tiles.ds(queries, keys);  // [queries, keys] dp, then ds
  const bool dropped = plan.dropout.is_active();
  const auto pd = dropped ? tiles.factors(queries, keys) : p;  // [queries, keys] d, then p d
  compute_scores(plan, at, x.q_left, tiles.k_transposed, p);
  tiles.v_transposed.multiply(x.dy_left, at.j, A(1), ds);
  // dp is not finite if v or dy is not, or if their product overflows; delta is not if the forward's result is not.
  const bool isolate_nan =
      may_be_masked(plan, at, p) && !(all_finite(x.q.rows) && all_finite(x.k.rows) && all_finite(as_const(ds)) &&
                                      all_finite<A>({x.delta, 1, p.rows, p.rows}));
  if (dropped) draw_tile_factors(plan, at, pd);
  for (Index r = 0; r < p.rows; ++r) {
    A *const pr = &p(r, 0), *const dsr = &ds(r, 0), *const pdr = &pd(r, 0);
    const A lse = x.lse[r], delta = x.delta[r];
    for_each_chunk<A>(whole_vectors<A>(p.width), [&](Chunk<A> chunk) {  // with the padding, so that all chunks are full
      const Vector<A> weight = exp_or_zero(chunk.load(pr) - lse);
      Vector<A> dweight = chunk.load(dsr);
      if (dropped) {
        const Vector<A> factor = chunk.load(pdr);
        dweight = dweight * factor;
        chunk.store(pdr, factor * weight);
      } else {
        chunk.store(pr, weight);
      }
      chunk.store(dsr, weight * (dweight - delta));
    });
  }

  if constexpr (multiplies_pairs<T>)  // the last pair of an odd number of keys has an element of the padding
    for (Index r = 0; keys % 2 != 0 && r < queries; ++r) ds(r, keys) = pd(r, keys) = 0;
  if (isolate_nan) for_each_masked(plan, at, p, [&](Index r, Index c) { pd(r, c) = ds(r, c) = 0; });
  for (Index r = 0; dbias.data && r < ds.rows; ++r)
    add_row(dbias.row(at.b, at.h, at.i + r) + at.j, &ds(r, 0), ds.width);
  if (x.dq.data) add_weighted(AddTo::queries, plan, at, isolate_nan, ds, x.k, x.dq, tiles.pairs);
  if (x.dk.data) add_weighted(AddTo::keys, plan, at, isolate_nan, ds, x.q, x.dk, tiles.pairs);
  if (x.dv.data) add_weighted(AddTo::keys, plan, at, isolate_nan, pd, x.dy, x.dv, tiles.pairs);
}

// Returns a zeroed matrix to accumulate a gradient in, or one without data if the gradient is not required.
template <class A, class T>
MatrixView<A> accumulator(TileBuffer<A>& buffer, MatrixView<T> required) {
  if (!required.data) return {nullptr, required.rows, required.width, 0};
  const auto sum = buffer(required.rows, required.width);
  for (Index r = 0; r < sum.rows; ++r) std::fill_n(&sum(r, 0), sum.width, A(0));
  return sum;
}
template <class T>
void store_scaled(MatrixView<T> to, MatrixView<Acc<T>> sum, Acc<T> scale) {
  for (Index n = 0; to.data && n < to.rows; ++n) scale_row(&to(n, 0), &sum(n, 0), to.width, scale);
}

template <class T>
void attend_backward(const AttentionPlan<T>& plan, Index b, Index h, const HeadOperands<T>& x, PerScore<Acc<T>> dbias,
                     BackwardTiles<T>& tiles) {
  const auto dk = accumulator(tiles.dk, x.dk);     // [keys, K]
  const auto dv = accumulator(tiles.dv, x.dv);     // [keys, V]
  const auto k_head = product_rows(x.k, tiles.k);  // [keys, K]
  tiles.k_transposed.set(k_head.rows);
  tiles.v_transposed.set(x.v);
  for (Index i = 0; i < x.q.rows; i += tile_queries(plan)) {
    const Index end = std::min(x.q.rows, i + tile_queries(plan));
    const auto dq_rows = row_range(x.dq, i, end);
    const auto dq = accumulator(tiles.dq, dq_rows);  // [queries, K]
    const auto q = product_rows(row_range(x.q, i, end), tiles.q, scale_of_queries(plan));
    const auto dy = product_rows(row_range(x.dy, i, end), tiles.dy);
    const auto q_left = q.left(tiles.q_left), dy_left = dy.left(tiles.dy_left);
    const KeyRange keys = keys_of_tiles(plan, x.k.rows, i, end);
    for (Index j = keys.begin; j < keys.end; j += tile_keys(plan)) {
      const Index last = std::min(keys.end, j + tile_keys(plan));
      add_gradients<T>(plan, {b, h, i, j},
                       {q, k_head.range(j, last), dy, q_left, dy_left, x.lse + i, x.delta + i, dq,
                        row_range(dk, j, last), row_range(dv, j, last)},
                       dbias, tiles);
    }
    store_scaled(dq_rows, dq, plan.scale);
  }
  store_scaled(x.dk, dk, scale_of_products(plan));
  store_scaled(x.dv, dv, Acc<T>(1));
}

// Computes all gradients, and delta [H, Nq]. dbias must be zero on entry. Heads that share a bias gradient are handled
// in order by one thread, so that its sum is deterministic.
template <class T>
void attention_backward(Cpu, const AttentionPlan<T>& plan, MatrixView<const T> q, MatrixView<const T> k,
                        MatrixView<const T> v, MatrixView<const T> y, View<const Acc<T>, 2> lse, MatrixView<const T> dy,
                        View<Acc<T>, 2> delta, MatrixView<T> dq, MatrixView<T> dk, MatrixView<T> dv,
                        PerScore<Acc<T>> dbias) {
  using A = Acc<T>;
  const Index B = plan.count(), H = plan.heads;
  const Index pieces_b = dbias.data && !dbias.sequence_stride ? 1 : B,
              pieces_h = dbias.data && !dbias.head_stride ? 1 : H;
  parallel(pieces_b * pieces_h, head_grain(plan, (q.width + v.width) / H), [&](Index first, Index last) {
    BackwardTiles<T> tiles(plan, q.width / H, v.width / H);
    for (Index piece = first; piece < last; ++piece)
      for (Index b = piece / pieces_h; b < B; b += pieces_b)
        for (Index h = piece % pieces_h; h < H; h += pieces_h) {
          const auto queries = [&](auto x) { return head_of(x, plan.q_begin(b), plan.q_length(b), h, H); };
          const auto keys = [&](auto x) { return head_of(x, plan.k_begin(b), plan.k_length(b), h, H); };
          const Index at = h * lse.extent[1] + plan.q_begin(b);
          const HeadOperands<T> x{queries(q),      keys(k),     keys(v),  queries(dy), lse.data + at,
                                  delta.data + at, queries(dq), keys(dk), keys(dv)};
          const MatrixView<const T> y_head = queries(y);
          for (Index r = 0; r < x.q.rows; ++r)
            delta.data[at + r] = sum_of<A>(y_head.width, [dyr = &x.dy(r, 0), yr = &y_head(r, 0)](Chunk<A> chunk) {
              return chunk.load(dyr) * chunk.load(yr);
            });
          attend_backward(plan, b, h, x, dbias, tiles);
        }
  });
}

}  // namespace heddle::kernel
