// What attention's forward and backward share: which scores there are, and how one tile of them is made.
#pragma once
#include <heddle/gemm.hpp>
#include <heddle/ops/attention_plan.hpp>
#include <heddle/ops/softmax.hpp>
#include <heddle/parallel.hpp>

namespace heddle::kernel {

// Memory for a matrix, used again by every tile of a piece. Rows are filled up to whole vectors.
template <class A>
struct Tile {
  static constexpr Index vector = 16;  // floats in the widest register
  Tensor<A> memory;

  static constexpr Index filled(Index width) { return (width + vector - 1) / vector * vector; }
  Tile(Index rows, Index width) : memory({rows, filled(width)}) {}
  Columns<A> operator()(Index rows, Index width) { return {memory.data(), rows, width, filled(width)}; }
};

// Row r with what fills it up.
template <class A>
auto filled_row(Columns<A> x, Index r) {
  return array(x.data + r * x.stride, x.stride);
}

// x in the type that T accumulates in: itself, or a copy in `room`.
template <class T>
Columns<const Acc<T>> widen(Columns<const T> x, Tile<Acc<T>>& room) {
  if constexpr (std::is_same_v<T, Acc<T>>) {
    return x;
  } else {
    const auto wide = room(x.rows, x.width);
    for (Index n = 0; n < x.rows; ++n) store(row(wide, n), row(x, n));
    return read(wide);
  }
}

// NaN and infinity times zero are NaN, and stay it in the sum.
template <class A>
bool finite(Columns<const A> x) {
  A sum = 0;
  for (Index n = 0; n < x.rows; ++n) sum += (row(x, n) * A(0)).sum();
  return sum == 0;
}

// x with zeros for what is not finite.
template <class A>
Tensor<A> finite_part(Columns<const A> x) {
  Tensor<A> part({x.rows, x.width});
  const auto values = view<2>(part);
  for (Index n = 0; n < x.rows; ++n)
    for (Index d = 0; d < x.width; ++d) values(n, d) = std::isfinite(x(n, d)) ? x(n, d) : A(0);
  return part;
}

// to += w x for w [queries, keys], x [keys, D]. With `apart`, what is not finite in x reaches only the queries that see
// its key: a masked pair has w = 0, and 0 * NaN is NaN.
template <class T, class A = Acc<T>>
void add_to_queries(const AttentionPlan<T>& plan, Place at, bool apart, Columns<A> w, Columns<const A> x,
                    Columns<A> to) {
  if (!apart) return product<false, false>(read(w), x, to, Into::add);
  const Tensor<A> part = finite_part(x);
  const auto x_finite = columns(view<2>(part));
  product<false, false>(read(w), x_finite, to, Into::add);
  plan.each_seen(at, w, [&](Index r, Index c) { row(to, r) += w(r, c) * (row(x, c) - row(x_finite, c)); });
}
// to += w^T x for x [queries, D].
template <class T, class A = Acc<T>>
void add_to_keys(const AttentionPlan<T>& plan, Place at, bool apart, Columns<A> w, Columns<const A> x, Columns<A> to) {
  if (!apart) return product<true, false>(read(w), x, to, Into::add);
  const Tensor<A> part = finite_part(x);
  const auto x_finite = columns(view<2>(part));
  product<true, false>(read(w), x_finite, to, Into::add);
  plan.each_seen(at, w, [&](Index r, Index c) { row(to, c) += w(r, c) * (row(x, r) - row(x_finite, r)); });
}

// s = scale * q k^T + bias; -infinity where masked, whatever q and k hold there, and in what fills the rows up.
template <class T>
void scores(const AttentionPlan<T>& plan, Place at, Columns<const Acc<T>> q, Columns<const Acc<T>> k,
            Columns<Acc<T>> s) {
  product<false, true>(q, k, s, Into::set);
  for (Index r = 0; r < s.rows; ++r) {
    row(s, r) *= plan.scale;
    if (const T* const bias = plan.bias.row(at.b, at.h, at.i + r)) row(s, r) += load(array(bias + at.j, s.width));
    filled_row(s, r).tail(s.stride - s.width) = never<Acc<T>>;
  }
  if (plan.may_mask(at, s)) plan.each_masked(at, s, [&](Index r, Index c) { s(r, c) = never<Acc<T>>; });
}

// Takes one more tile of row r's scores into its softmax: exp(score - top) takes the score's place. Returns the factor
// by which what was summed before shrinks, as `top`, the greatest score so far, grows.
template <class A>
A soften(Columns<A> s, Index r, A& top, A& sum) {
  auto scores = filled_row(s, r);
  const A before = std::exchange(top, std::max(top, scores.maxCoeff()));
  const A shrink = before == std::numeric_limits<A>::lowest() ? A(0) : std::exp(before - top);  // underflow is slow
  scores = exp_or_zero(scores - top);
  sum = sum * shrink + scores.sum();
  return shrink;
}

}  // namespace heddle::kernel
