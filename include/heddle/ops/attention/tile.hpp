// One tile of attention's scores on the CPU: its size, its mask, its scores, its softmax, and its products
// with k, v and q.
#pragma once
#include <heddle/base/threads.hpp>
#include <heddle/cpu/tile_product.hpp>
#include <heddle/cpu/vector.hpp>
#include <heddle/kernel/attention_plan.hpp>
#include <heddle/ops/softmax.hpp>

namespace heddle::kernel {

// Return the numbers of queries and keys of a tile, which has at most 64 x 128 scores: 32 KiB in float, about a core's
// first-level cache.
template <class T>
Index tile_queries(const AttentionPlan<T>& plan) {
  return std::min<Index>(plan.longest_q, 64);
}
template <class T>
Index tile_keys(const AttentionPlan<T>& plan) {
  return std::min<Index>(plan.longest_k, 128);
}

// The first score of a tile: sequence, head, query and key.
struct TileOrigin {
  Index b, h, i, j;
};

// A range of keys.
struct KeyRange {
  Index begin, end;
};
// Returns the keys that query i sees, if no mask hides them, among the `keys` keys of its sequence.
template <class T>
KeyRange keys_in_reach(const AttentionPlan<T>& plan, Index keys, Index i) {
  const Index end = std::clamp<Index>(i + plan.future + 1, 0, keys);
  return {std::clamp<Index>(i - plan.past, 0, end), end};
}
// Keys are transposed in panels of this many.
inline constexpr Index panel_keys = 64;
static_assert(panel_keys % keys_per_draw_group == 0,
              "a tile begins with a panel and a call of the dropout's generator");

// Returns the keys of the tiles that queries [first, end) need. They begin with a panel, and do not end inside a pair
// of bf16: the other key of that pair would be multiplied without the care for NaN behind a mask.
template <class T>
KeyRange keys_of_tiles(const AttentionPlan<T>& plan, Index keys, Index first, Index end) {
  const KeyRange seen{keys_in_reach(plan, keys, first).begin, keys_in_reach(plan, keys, end - 1).end};
  const Index stop = multiplies_pairs<T> ? std::min(keys, 2 * pairs(seen.end)) : seen.end;
  return {seen.begin < seen.end ? seen.begin / panel_keys * panel_keys : stop, stop};
}

// Returns whether some of a tile's scores s may be masked.
template <class T>
bool may_be_masked(const AttentionPlan<T>& plan, TileOrigin at, MatrixView<Acc<T>> s) {
  const Index last_query = at.i + s.rows - 1, last_key = at.j + s.width - 1;
  return plan.mask.data || plan.bias.data || last_query - at.j > plan.past || last_key - at.i > plan.future;
}
// Calls f(r, c) for the masked scores of a tile.
template <class T, class F>
void for_each_masked(const AttentionPlan<T>& plan, TileOrigin at, MatrixView<Acc<T>> s, F f) {
  for (Index r = 0; r < s.rows; ++r)
    for (Index c = 0; c < s.width; ++c)
      if (plan.is_masked(at.b, at.h, at.i + r, at.j + c)) f(r, c);
}
// Calls f(r, c) for the scores of a tile that are not masked.
template <class T, class F>
void for_each_visible(const AttentionPlan<T>& plan, TileOrigin at, MatrixView<Acc<T>> s, F f) {
  for (Index r = 0; r < s.rows; ++r)
    for (Index c = 0; c < s.width; ++c)
      if (!plan.is_masked(at.b, at.h, at.i + r, at.j + c)) f(r, c);
}

// Memory for a matrix, reused by every head or tile of a piece. Rows are padded to an odd number of cache lines, so
// that vectors are full, and the elements of a column spread over all sets of the cache.
template <class A>
class TileBuffer {
 public:
  TileBuffer(Index rows, Index width) : memory_({rows, stride(width)}) {}
  // Returns the first `rows` rows as a matrix of `width` columns.
  MatrixView<A> operator()(Index rows, Index width) { return {memory_.data(), rows, width, stride(width)}; }

 private:
  static constexpr Index line = 64 / sizeof(A);  // elements
  static Index stride(Index width) { return ((width + line - 1) / line | 1) * line; }
  Tensor<A> memory_;
};

// Returns the rows and columns of x that belong to one head of one sequence. An x without data (a gradient that is not
// required) stays without data.
template <class T>
MatrixView<T> head_of(MatrixView<T> x, Index begin, Index length, Index h, Index heads) {
  const Index width = x.width / heads;
  return {x.data ? x.data + begin * x.stride + h * width : nullptr, length, width, x.stride};
}
// Returns rows [first, last) of x.
template <class T>
MatrixView<T> row_range(MatrixView<T> x, Index first, Index last) {
  return {x.data ? x.data + first * x.stride : nullptr, last - first, x.width, x.stride};
}

// Returns a copy of x in the type that T accumulates in, multiplied by `factor`.
template <class T>
MatrixView<const Acc<T>> copied(MatrixView<const T> x, TileBuffer<Acc<T>>& buffer, Acc<T> factor = 1) {
  const auto rows = buffer(x.rows, x.width);
  for (Index n = 0; n < x.rows; ++n) {
    scale_row(&rows(n, 0), &x(n, 0), x.width, factor);
    std::fill(&rows(n, 0) + x.width, &rows(n, 0) + rows.stride, Acc<T>(0));
  }
  return as_const(rows);
}

// Returns whether all elements are finite. NaN and infinity times zero are NaN, and so is a sum with them.
template <class T, class A = Acc<T>>
bool all_finite(MatrixView<const T> x) {
  A sum = 0;
  for (Index n = 0; n < x.rows; ++n)
    sum += sum_of<A>(x.width, [row = &x(n, 0)](Chunk<A> at) { return at.load(row) * A(0); });
  return sum == 0;
}

// Returns n, rounded up to whole vectors.
template <class A>
constexpr Index whole_vectors(Index n) {
  return (n + Vector<A>::width - 1) / Vector<A>::width * Vector<A>::width;
}

// Products of tiles multiply floats, or pairs of bf16 if multiplies_pairs<T>. Pairs are not scaled, because that would
// round them once more: the scale of the scores is a factor of q or of the products.
template <class T>
Acc<T> scale_of_queries(const AttentionPlan<T>& plan) {
  return multiplies_pairs<T> ? Acc<T>(1) : plan.scale;
}
template <class T>
Acc<T> scale_of_products(const AttentionPlan<T>& plan) {
  return multiplies_pairs<T> ? plan.scale : Acc<T>(1);
}

// Rows on the right of a product with weights, and on the left of one with transposed rows.
template <class T>
struct ProductRows {
  using Source = std::conditional_t<multiplies_pairs<T>, T, Acc<T>>;

  MatrixView<const Source> rows;   // [rows, width]
  MatrixView<const Acc<T>> right;  // the rows, or pairs of neighbors in a column

  // Returns rows [first, last). `first` is even.
  ProductRows range(Index first, Index last) const {
    return {row_range(rows, first, last),
            multiplies_pairs<T> ? row_range(right, first / 2, pairs(last)) : row_range(right, first, last)};
  }
  // Returns the rows on the left: themselves, or pairs of neighbors in a row, in `buffer`.
  MatrixView<const Acc<T>> left([[maybe_unused]] TileBuffer<Acc<T>>& buffer) const {
    if constexpr (multiplies_pairs<T>) {
      const auto to = buffer(rows.rows, pairs(rows.width));
      pair_columns(rows, to);
      return as_const(to);
    } else {
      return rows;
    }
  }
};

// Returns x, multiplied by `factor` unless its elements are pairs. `buffer` holds x.rows rows.
template <class T>
ProductRows<T> product_rows(MatrixView<const T> x, TileBuffer<Acc<T>>& buffer, Acc<T> factor = 1) {
  if constexpr (multiplies_pairs<T>) {
    const auto right = buffer(pairs(x.rows), x.width);
    pair_rows(x, right);
    return {x, as_const(right)};
  } else {
    const auto rows = copied(x, buffer, factor);
    return {rows, rows};
  }
}

// Returns queries on the left of the product with the keys, in `buffer`.
template <class T>
MatrixView<const Acc<T>> left_queries(const AttentionPlan<T>& plan, MatrixView<const T> q, TileBuffer<Acc<T>>& buffer) {
  if constexpr (multiplies_pairs<T>)
    return ProductRows<T>{q, {}}.left(buffer);
  else
    return copied(q, buffer, plan.scale);
}

// The transposed rows of a head's keys or values in panels [width, panel_keys], for the products q k^T and dy v^T.
template <class T>
class TransposedRows {
  using A = Acc<T>;

 public:
  TransposedRows(Index rows, Index width)
      : depth_(multiplies_pairs<T> ? pairs(width) : width),
        memory_({(rows + panel_keys - 1) / panel_keys, depth_ * panel_keys}),
        panel_(panel_keys, width) {}

  // Takes the rows of another head.
  template <class U>
  void set(MatrixView<const U> x) {
    for (Index j = 0; j < x.rows; j += panel_keys) {
      const auto rows = row_range(x, j, std::min(x.rows, j + panel_keys));
      A* const to = memory_.data() + j * depth_;
      if constexpr (multiplies_pairs<U>) {
        const auto paired = panel_(rows.rows, depth_);
        pair_columns(rows, paired);
        transpose_rows(as_const(paired), panel_keys, to);
      } else if constexpr (std::is_same_v<U, A>) {
        transpose_rows(rows, panel_keys, to);
      } else {
        transpose_rows(copied(rows, panel_), panel_keys, to);
      }
    }
  }

  // Computes y = factor left x^T for the rows from j on, the first of a panel.
  void multiply(MatrixView<const A> left, Index j, A factor, MatrixView<A> y) const {
    for (Index c = 0; c < y.width; c += panel_keys)
      TileProduct<A, multiplies_pairs<T>>::run(left, panel(j + c), panel_keys,
                                               {&y(0, c), y.rows, std::min(panel_keys, y.width - c), y.stride},
                                               Into::set, factor);
  }

 private:
  const A* panel(Index j) const { return std::as_const(memory_).data() + j * depth_; }
  Index depth_;
  Tensor<A> memory_;
  TileBuffer<A> panel_;  // the rows of a panel, if their type is not A
};

// Returns x with zeros in place of NaN and infinity.
template <class T>
MatrixView<const Acc<T>> finite_part(MatrixView<const T> x, TileBuffer<Acc<T>>& buffer) {
  const auto part = buffer(x.rows, x.width);
  for (Index n = 0; n < x.rows; ++n)
    for (Index d = 0; d < part.stride; ++d)
      part(n, d) = d < x.width && std::isfinite(Acc<T>(x(n, d))) ? Acc<T>(x(n, d)) : Acc<T>(0);
  return as_const(part);
}

// The rows that a product of a tile's weights w [queries, keys] is added to: w x for queries, w^T x for keys.
enum class AddTo { queries, keys };
// Computes to += w x or to += w^T x for ProductRows::right of x. `buffer` holds a tile of scores.
template <class T, class A = Acc<T>>
void add_product(AddTo side, MatrixView<const A> w, MatrixView<const A> right, MatrixView<A> to,
                 [[maybe_unused]] TileBuffer<A>& buffer) {
  const bool to_keys = side == AddTo::keys;
  if constexpr (multiplies_pairs<T>) {
    const auto paired = to_keys ? buffer(pairs(w.rows), w.width) : buffer(w.rows, pairs(w.width));
    to_keys ? pair_rows(w, paired) : pair_columns(w, paired);
    w = as_const(paired);
  }
  const LeftTile<A> left = to_keys ? LeftTile<A>::transposed(w) : LeftTile<A>(w);
  TileProduct<A, multiplies_pairs<T>>::run(left, right.data, right.stride, to, Into::add);
}

// Computes to += w x for x [keys, D], or to += w^T x for x [queries, D]. If `isolate_nan`, NaN and infinity in x reach
// only the rows of visible pairs: a masked pair has w = 0, but 0 * NaN is NaN. `buffer` holds a tile of scores.
template <class T, class A = Acc<T>>
void add_weighted(AddTo side, const AttentionPlan<T>& plan, TileOrigin at, bool isolate_nan, MatrixView<A> w,
                  const ProductRows<T>& x, MatrixView<A> to, TileBuffer<A>& buffer) {
  if (!isolate_nan) return add_product<T>(side, as_const(w), x.right, to, buffer);
  TileBuffer<A> finite(x.rows.rows, x.rows.width);
  const auto x_finite = finite_part(x.rows, finite);
  if constexpr (multiplies_pairs<T>) {
    TileBuffer<A> right(pairs(x_finite.rows), x_finite.width);
    const auto paired = right(pairs(x_finite.rows), x_finite.width);
    pair_rows(x_finite, paired);
    add_product<T>(side, as_const(w), as_const(paired), to, buffer);
  } else {
    add_product<T>(side, as_const(w), x_finite, to, buffer);
  }
  for_each_visible(plan, at, w, [&](Index r, Index c) {
    const bool to_keys = side == AddTo::keys;
    const Index n = to_keys ? c : r, of_x = to_keys ? r : c;
    for (Index d = 0; d < x.rows.width; ++d) to(n, d) += w(r, c) * (A(x.rows(of_x, d)) - x_finite(of_x, d));
  });
}

// Computes s = scale q k^T + bias, where q may be scaled already. Masked scores and the padding of rows become
// -infinity, for any content of q and k.
template <class T>
void compute_scores(const AttentionPlan<T>& plan, TileOrigin at, MatrixView<const Acc<T>> q, const TransposedRows<T>& k,
                    MatrixView<Acc<T>> s) {
  k.multiply(q, at.j, scale_of_products(plan), s);
  for (Index r = 0; r < s.rows; ++r) {
    Acc<T>* const scores = &s(r, 0);
    if (const T* const bias = plan.bias.row(at.b, at.h, at.i + r)) add_row(scores, bias + at.j, s.width);
    const KeyRange seen = keys_in_reach(plan, at.j + s.width, at.i + r);
    const auto of_tile = [&](Index key) { return std::max<Index>(key - at.j, 0); };
    std::fill(scores, scores + std::min(of_tile(seen.begin), s.width), masked_score<Acc<T>>);
    std::fill(scores + of_tile(seen.end), scores + whole_vectors<Acc<T>>(s.width), masked_score<Acc<T>>);
  }
  if (plan.mask.data || plan.bias.data)
    for_each_masked(plan, at, s, [&](Index r, Index c) { s(r, c) = masked_score<Acc<T>>; });
}

// Adds one more tile of scores to the softmax of row r: replaces each score by exp(score - top), and updates `top`, the
// greatest score so far, and `sum`, the sum of the exponentials so far. Returns the factor by which the caller must
// multiply its own sums over earlier tiles.
template <class A>
A online_softmax_step(MatrixView<A> s, Index r, A& top, A& sum) {
  A* const scores = &s(r, 0);
  const Index padded = whole_vectors<A>(s.width);
  const A before = top, greatest = std::max(top, max_of<A>(padded, [&](Chunk<A> chunk) { return chunk.load(scores); }));
  // Without an earlier score, exp() would underflow, which is slow.
  const A shrink = before == std::numeric_limits<A>::lowest() ? A(0) : std::exp(before - greatest);
  top = greatest;
  sum = sum * shrink + sum_of<A>(padded, [&](Chunk<A> chunk) {
          const Vector<A> e = exp_or_zero(chunk.load(scores) - greatest);
          chunk.store(scores, e);
          return e;
        });
  return shrink;
}

}  // namespace heddle::kernel
