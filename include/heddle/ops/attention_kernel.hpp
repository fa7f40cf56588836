// attention's CPU kernels. Scores are made tile by tile and never stored: the forward keeps a running maximum and sum
// for each row (Milakov and Gimelshein 2018; Dao et al. 2022), the backward makes the probabilities again from the
// row's log-sum-exp.
#pragma once
#include <heddle/ops/attention_dropout.hpp>

namespace heddle::kernel {

// The rows and columns of x that one head of one sequence has. An absent x (a gradient that nobody wants) stays absent.
template <class T>
Columns<T> head_of(Columns<T> x, Index begin, Index length, Index h, Index heads) {
  const Index width = x.width / heads;
  return {x.data ? x.data + begin * x.stride + h * width : nullptr, length, width, x.stride};
}

template <class T>
Columns<T> rows_of(Columns<T> x, Index first, Index last) {
  return {x.data ? x.data + first * x.stride : nullptr, last - first, x.width, x.stride};
}

// How many heads of the longest sequence are worth a thread; `width` elements of each are multiplied with each score.
template <class T>
Index heads_per_piece(const AttentionPlan<T>& plan, Index width) {
  constexpr Index multiplications = 1000000;  // a few tens of microseconds
  return multiplications / (plan.longest_q * plan.longest_k * width + 1) + 1;
}

template <class T>
struct ForwardTiles {
  using A = Acc<T>;
  Tile<A> q, k, v, s, keep, o;
  Tensor<A> top, sum;

  ForwardTiles(const AttentionPlan<T>& p, Index K, Index V)
      : q(p.tile_q(), K),
        k(p.tile_k(), K),
        v(p.tile_k(), V),
        s(p.tile_q(), p.tile_k()),
        keep(p.tile_q(), p.tile_k()),
        o(p.tile_q(), V),
        top({p.tile_q()}),
        sum({p.tile_q()}) {}
};

// Queries [at.i, at.i + y.rows) of one head: their rows of y, and the logarithm of the sum of exponentials of each.
template <class T>
void attend(const AttentionPlan<T>& plan, Place at, Columns<const T> q, Columns<const T> k, Columns<const T> v,
            Columns<T> y, Acc<T>* lse, ForwardTiles<T>& tiles) {
  using A = Acc<T>;
  const auto q_tile = widen(q, tiles.q);    // [rows, K]
  const auto o = tiles.o(y.rows, y.width);  // [rows, V]
  A* const top = tiles.top.data();          // [rows]
  A* const sum = tiles.sum.data();          // [rows]
  matrix(o).setZero();
  std::fill_n(top, y.rows, std::numeric_limits<A>::lowest());
  std::fill_n(sum, y.rows, A(0));

  const Index keys = plan.keys_seen(k.rows, at.i + y.rows);
  for (at.j = 0; at.j < keys; at.j += plan.tile_k()) {
    const Index last = std::min(keys, at.j + plan.tile_k());
    const auto k_tile = widen(rows_of(k, at.j, last), tiles.k);  // [keys, K]
    const auto v_tile = widen(rows_of(v, at.j, last), tiles.v);  // [keys, V]
    const auto s = tiles.s(y.rows, last - at.j);  // [rows, keys] scores, then probabilities times the sum
    scores(plan, at, q_tile, k_tile, s);
    for (Index r = 0; r < s.rows; ++r) {
      const A shrink = soften(s, r, top[r], sum[r]);
      if (at.j > 0 && shrink != 1) row(o, r) *= shrink;
    }
    if (plan.drops()) {
      const auto keep = tiles.keep(s.rows, s.width);
      draw_dropout(plan, at, keep);
      for (Index r = 0; r < s.rows; ++r) row(s, r) *= row(keep, r);
    }
    add_to_queries(plan, at, plan.may_mask(at, s) && !finite(v_tile), s, v_tile, o);
  }
  for (Index r = 0; r < y.rows; ++r) {
    store(row(y, r), row(o, r) * (sum[r] == 0 ? A(0) : 1 / sum[r]));
    lse[r] = sum[r] == 0 ? std::numeric_limits<A>::infinity() : top[r] + std::log(sum[r]);
  }
}

// lse [H, Nq] is infinite for a query that sees no key, so that its probabilities come out as zeros: exp(score - lse).
template <class T>
void attention(Cpu, const AttentionPlan<T>& plan, Columns<const T> q, Columns<const T> k, Columns<const T> v,
               Columns<T> y, View<Acc<T>, 2> lse) {
  const Index H = plan.heads;
  parallel(plan.count() * H, heads_per_piece(plan, q.width / H + v.width / H), [&](Index first, Index last) {
    ForwardTiles<T> tiles(plan, q.width / H, v.width / H);
    for (Index pair = first; pair < last; ++pair) {
      const Index b = pair / H, h = pair % H, queries = plan.q_length(b);
      const auto q_head = head_of(q, plan.q_begin(b), queries, h, H);
      const auto k_head = head_of(k, plan.k_begin(b), plan.k_length(b), h, H);
      const auto v_head = head_of(v, plan.k_begin(b), plan.k_length(b), h, H);
      const auto y_head = head_of(y, plan.q_begin(b), queries, h, H);
      for (Index i = 0; i < queries; i += plan.tile_q()) {
        const Index end = std::min(queries, i + plan.tile_q());
        attend<T>(plan, {b, h, i, 0}, rows_of(q_head, i, end), k_head, v_head, rows_of(y_head, i, end),
                  &lse(h, plan.q_begin(b) + i), tiles);
      }
    }
  });
}

// The probabilities themselves, [B, H, Tq, Tk]; zeros where there is no query or key.
template <class T>
void attention_weights(Cpu, const AttentionPlan<T>& plan, Columns<const T> q, Columns<const T> k, View<T, 4> y) {
  using A = Acc<T>;
  const Index H = plan.heads;
  parallel(plan.count() * H, heads_per_piece(plan, q.width / H), [&](Index first, Index last) {
    Tile<A> q_room(plan.tile_q(), q.width / H), k_room(plan.longest_k, q.width / H),
        s_room(plan.tile_q(), plan.longest_k);
    for (Index pair = first; pair < last; ++pair) {
      const Index b = pair / H, h = pair % H, queries = plan.q_length(b);
      const auto q_head = head_of(q, plan.q_begin(b), queries, h, H);
      const auto k_head = widen(head_of(k, plan.k_begin(b), plan.k_length(b), h, H), k_room);
      std::fill_n(y.data + pair * y.extent[2] * y.extent[3], y.extent[2] * y.extent[3], static_cast<T>(0.f));
      for (Index i = 0; i < queries && k_head.rows > 0; i += plan.tile_q()) {
        const auto q_tile = widen(rows_of(q_head, i, std::min(queries, i + plan.tile_q())), q_room);
        const auto s = s_room(q_tile.rows, k_head.rows);
        scores(plan, {b, h, i, 0}, q_tile, k_head, s);
        for (Index r = 0; r < s.rows; ++r) {
          A top = std::numeric_limits<A>::lowest(), sum = 0;
          soften(s, r, top, sum);
          store(array(&y(b, h, i + r, 0), s.width), row(s, r) * (sum == 0 ? A(0) : 1 / sum));
        }
      }
    }
  });
}

}  // namespace heddle::kernel
