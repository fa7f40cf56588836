// attention's backward on the CPU. With p the probabilities, d the dropout factors, dp = dy v^T and delta the row sums of
// dy y:  dv = (p d)^T dy    ds = p (dp d - delta)    dbias = ds    dq = scale ds k    dk = scale ds^T q
#pragma once
#include <heddle/ops/attention_kernel.hpp>

namespace heddle::kernel {

// One head of one sequence, or one tile of it. A gradient that is not wanted has no data.
template <class T, class Gradient>
struct AttentionOperands {
  Columns<const T> q, k, v, dy;
  const Acc<T>*lse, *delta;  // [queries]
  Columns<Gradient> dq, dk, dv;
};

template <class T>
struct BackwardTiles {
  using A = Acc<T>;
  Tile<A> q, k, v, dy, p, ds, keep, dq, dk, dv;

  BackwardTiles(const AttentionPlan<T>& plan, Index K, Index V)
      : q(plan.tile_q(), K),
        k(plan.tile_k(), K),
        v(plan.tile_k(), V),
        dy(plan.tile_q(), V),
        p(plan.tile_q(), plan.tile_k()),
        ds(plan.tile_q(), plan.tile_k()),
        keep(plan.tile_q(), plan.tile_k()),
        dq(plan.tile_q(), K),
        dk(plan.longest_k, K),
        dv(plan.longest_k, V) {}
};

// Adds one tile's share to dq and dk (without the scale), dv and dbias.
template <class T>
void add_gradients(const AttentionPlan<T>& plan, Place at, const AttentionOperands<Acc<T>, Acc<T>>& x,
                   PerScore<Acc<T>> dbias, BackwardTiles<T>& tiles) {
  const auto p = tiles.p(x.q.rows, x.k.rows);    // [queries, keys] scores, then probabilities
  const auto ds = tiles.ds(x.q.rows, x.k.rows);  // [queries, keys] dp, then ds
  const bool dropped = plan.drops();
  const auto pd = dropped ? tiles.keep(x.q.rows, x.k.rows) : p;  // [queries, keys] d, then p d
  scores(plan, at, x.q, x.k, p);
  product<false, true>(x.dy, x.v, ds, Into::set);
  if (dropped) draw_dropout(plan, at, pd);
  for (Index r = 0; r < p.rows; ++r) {
    filled_row(p, r) = exp_or_zero(filled_row(p, r) - x.lse[r]);
    if (dropped) {
      row(ds, r) *= row(pd, r);
      row(pd, r) *= row(p, r);
    }
    row(ds, r) = row(p, r) * (row(ds, r) - x.delta[r]);
  }

  // delta is not finite where the forward's results are not.
  const bool apart = plan.may_mask(at, p) && !(finite(x.q) && finite(x.k) && finite(x.v) && finite(x.dy) &&
                                               finite<Acc<T>>({x.delta, 1, p.rows, p.rows}));
  if (apart) plan.each_masked(at, p, [&](Index r, Index c) { pd(r, c) = ds(r, c) = 0; });
  for (Index r = 0; dbias.data && r < ds.rows; ++r)
    array(dbias.row(at.b, at.h, at.i + r) + at.j, ds.width) += row(ds, r);
  if (x.dq.data) add_to_queries(plan, at, apart, ds, x.k, x.dq);
  if (x.dk.data) add_to_keys(plan, at, apart, ds, x.q, x.dk);
  if (x.dv.data) add_to_keys(plan, at, apart, pd, x.dy, x.dv);
}

// Memory for a wanted gradient, zeroed; without data otherwise.
template <class A, class T>
Columns<A> accumulator(Tile<A>& room, Columns<T> wanted) {
  if (!wanted.data) return {nullptr, wanted.rows, wanted.width, 0};
  const auto sum = room(wanted.rows, wanted.width);
  matrix(sum).setZero();
  return sum;
}
template <class T>
void store_scaled(Columns<T> to, Columns<Acc<T>> sum, Acc<T> scale) {
  for (Index n = 0; to.data && n < to.rows; ++n) store(row(to, n), row(sum, n) * scale);
}

template <class T>
void attend_backward(const AttentionPlan<T>& plan, Index b, Index h, const AttentionOperands<T, T>& x,
                     PerScore<Acc<T>> dbias, BackwardTiles<T>& tiles) {
  const auto dk = accumulator(tiles.dk, x.dk);  // [keys, K]
  const auto dv = accumulator(tiles.dv, x.dv);  // [keys, V]
  for (Index i = 0; i < x.q.rows; i += plan.tile_q()) {
    const Index end = std::min(x.q.rows, i + plan.tile_q());
    const auto dq_rows = rows_of(x.dq, i, end);
    const auto dq = accumulator(tiles.dq, dq_rows);  // [queries, K]
    const auto q = widen(rows_of(x.q, i, end), tiles.q);
    const auto dy = widen(rows_of(x.dy, i, end), tiles.dy);
    const Index keys = plan.keys_seen(x.k.rows, end);
    for (Index j = 0; j < keys; j += plan.tile_k()) {
      const Index last = std::min(keys, j + plan.tile_k());
      const auto k = widen(rows_of(x.k, j, last), tiles.k);
      const auto v = widen(rows_of(x.v, j, last), tiles.v);
      add_gradients<T>(plan, {b, h, i, j},
                       {q, k, v, dy, x.lse + i, x.delta + i, dq, rows_of(dk, j, last), rows_of(dv, j, last)}, dbias,
                       tiles);
    }
    store_scaled(dq_rows, dq, plan.scale);
  }
  store_scaled(x.dk, dk, plan.scale);
  store_scaled(x.dv, dv, Acc<T>(1));
}

// Heads that share a gradient of the bias are summed by one piece, in order. delta [H, Nq] is filled here; dbias holds
// zeros.
template <class T>
void attention_backward(Cpu, const AttentionPlan<T>& plan, Columns<const T> q, Columns<const T> k, Columns<const T> v,
                        Columns<const T> y, View<const Acc<T>, 2> lse, Columns<const T> dy, View<Acc<T>, 2> delta,
                        Columns<T> dq, Columns<T> dk, Columns<T> dv, PerScore<Acc<T>> dbias) {
  const Index B = plan.count(), H = plan.heads;
  const Index own_b = dbias.data && !dbias.sequence_stride ? 1 : B, own_h = dbias.data && !dbias.head_stride ? 1 : H;
  parallel(own_b * own_h, heads_per_piece(plan, (q.width + v.width) / H), [&](Index first, Index last) {
    BackwardTiles<T> tiles(plan, q.width / H, v.width / H);
    for (Index own = first; own < last; ++own)
      for (Index b = own / own_h; b < B; b += own_b)
        for (Index h = own % own_h; h < H; h += own_h) {
          const auto queries = [&](auto x) { return head_of(x, plan.q_begin(b), plan.q_length(b), h, H); };
          const auto keys = [&](auto x) { return head_of(x, plan.k_begin(b), plan.k_length(b), h, H); };
          const Index at = h * lse.extent[1] + plan.q_begin(b);
          const AttentionOperands<T, T> x{queries(q),      keys(k),     keys(v),  queries(dy), lse.data + at,
                                          delta.data + at, queries(dq), keys(dk), keys(dv)};
          for (Index r = 0; r < x.q.rows; ++r)
            delta.data[at + r] = (load(row(x.dy, r)) * load(row(queries(y), r))).sum();
          attend_backward(plan, b, h, x, dbias, tiles);
        }
  });
}

}  // namespace heddle::kernel
