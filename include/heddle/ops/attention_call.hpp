// What attention is called with, and the checks of it.
#pragma once
#include <cmath>
#include <numeric>
#include <optional>

#include <heddle/ops/attention_dropout.hpp>
#include <heddle/random.hpp>
#include <heddle/sequences.hpp>

namespace heddle {

// Columns [first, first + width) of the rows of x. A tensor is one by itself, of all its columns.
template <class T>
struct ColumnBlock {
  using Element = T;
  Tensor<T> x;  // [N, D]
  Index first, width;

  // All columns, or some; columns() checks them.
  ColumnBlock(const Tensor<T>& rows) : x(rows), first(0), width(rows.rank() > 0 ? rows.dim(-1) : 0) {}
  ColumnBlock(const Tensor<T>& rows, Index from, Index columns) : x(rows), first(from), width(columns) {}

  Shape shape() const { return x.rank() > 0 ? x.shape().with(-1, width) : x.shape(); }
  Device device() const { return x.device(); }
  bool requires_grad() const { return x.requires_grad(); }
};

// One of the results of a packed product, as in columns(qkv, 0, D) of qkv [N, 3 * D]. Throws ShapeError.
template <class T>
ColumnBlock<T> columns(const Tensor<T>& x, Index first, Index width) {
  require_rank("columns", {"x", x, 0}, 2);
  require<ShapeError>(first >= 0 && width >= 0 && first <= x.dim(1) - width, "columns: [", first, ", ", first + width,
                      ") is not within axis 1 of ", x.shape());
  return {x, first, width};
}

// Of attention and attention_weights.
template <class T>
struct AttentionOptions {
  Index heads = 1;
  std::optional<double> scale = {};  // 1 / sqrt(K) when not given
  bool causal = false;               // query i sees keys 0 to i
  double dropout = 0;                // the share of probabilities to drop, where there is a `random`
  Random* random = nullptr;
  Tensor<bool> mask = {};           // [B or 1, H or 1, Tq or 1, Tk] true where a query may see a key
  Tensor<T> bias = {};              // the same axes; added to the scaled scores, so that -infinity masks
  const Sequences* keys = nullptr;  // those of k and v, where they are not those of q
};

namespace kernel {

// An absent tensor has no data.
template <class TensorT>
auto column_view(TensorT& x, Index first, Index width) {
  using E = std::remove_pointer_t<decltype(x.device_data())>;
  return x ? Columns<E>{x.device_data() + first, x.dim(0), width, x.dim(1)} : Columns<E>{nullptr, 0, width, 0};
}
template <class T>
Columns<const T> column_view(const ColumnBlock<T>& block) {
  return column_view(block.x, block.first, block.width);
}

template <class TensorT>
auto per_score(TensorT& x) {
  using E = std::remove_pointer_t<decltype(x.device_data())>;
  const auto stride = [&](int axis) { return x.dim(axis) == 1 ? Index{0} : x.shape().product(axis + 1, 4); };
  return x ? PerScore<E>{x.device_data(), stride(0), stride(1), stride(2)} : PerScore<E>{};
}

}  // namespace kernel

// How many rows belong to a sequence.
inline Index real_rows(const Sequences& sequences) {
  return std::accumulate(sequences.lengths().begin(), sequences.lengths().end(), Index{0});
}

// A checked call, as the backward keeps it.
template <class T>
struct AttentionCall {
  ColumnBlock<T> q, k;
  Sequences queries, keys;
  Index heads;
  double scale;
  bool causal;
  Tensor<bool> mask;
  Tensor<T> bias;
  DropoutRule dropout = {};
  Draws draws = {};
  bool tf32 = false;

  // Throws ShapeError and Error.
  AttentionCall(const char* op, const ColumnBlock<T>& q_block, const ColumnBlock<T>& k_block,
                const Sequences& sequences, const AttentionOptions<T>& options)
      : q(q_block),
        k(k_block),
        queries(sequences),
        keys(options.keys ? *options.keys : sequences),
        heads(options.heads),
        scale(options.scale.value_or(1 / std::sqrt(static_cast<double>(q.width) / static_cast<double>(heads)))),
        causal(options.causal),
        mask(options.mask),
        bias(options.bias) {
    require_heads(op, {"q", q, 1});
    require_same(op, "heads * K", {"q", q, 1}, {"k", k, 1});
    require_rows(op, {"q", q, 0}, queries);
    require_rows(op, {"k", k, 0}, keys);
    require<ShapeError>(queries.count() == keys.count(), op, ": there are ", queries.count(),
                        " sequences of queries and ", keys.count(), " of keys");
    if (mask) require_per_score(op, {"mask", mask, 0});
    if (bias) require_per_score(op, {"bias", bias, 0});
#ifdef HEDDLE_CUDA
    tf32 = cuda::tf32_is_allowed();
#endif
  }

  // Turns dropout on. What is drawn depends on the longest sequences, never on padding.
  void draw(const char* op, double p, Random* random) {
    const DropoutRule rule = dropout_rule(op, p);
    if (!random || rule.threshold == 0) return;
    dropout = rule;
    draws = random->take(static_cast<std::uint64_t>(queries.count() * heads * queries.longest() *
                                                    kernel::calls_per_score_row(keys.longest())));
  }

  // Throw ShapeError unless x is a number of heads wide; a mask or a bias of these sequences (Error where it is on
  // another device).
  void require_heads(const char* op, const Axis& x) const {
    require_rank(op, x, 2);
    require<ShapeError>(heads > 0 && x.shape[1] > 0 && x.shape[1] % heads == 0, op, ": ", x.operand, ' ', x.shape,
                        " is not ", heads, " heads wide: its axis 1 must be a multiple of that");
  }
  void require_per_score(const char* op, const Axis& x) const {
    require_rank(op, x, 4);
    require_same_device(op, {"q", q, 0}, x);
    const auto one_or = [&](int axis, Index extent) { return x.shape[axis] == 1 || x.shape[axis] == extent; };
    require<ShapeError>(one_or(0, queries.count()) && one_or(1, heads) &&
                            (x.shape[2] == 1 || x.shape[2] >= queries.longest()) && x.shape[3] >= keys.longest(),
                        op, ": ", x.operand, ' ', x.shape, " must be [1 or ", queries.count(), ", 1 or ", heads,
                        ", 1 or at least ", queries.longest(), ", at least ", keys.longest(),
                        "] for these sequences, heads, queries and keys");
  }

  kernel::AttentionPlan<T> plan() const {
    return {view<1>(queries.begin()),
            view<1>(queries.length()),
            view<1>(keys.begin()),
            view<1>(keys.length()),
            queries.longest(),
            keys.longest(),
            heads,
            static_cast<Acc<T>>(scale),
            causal,
            kernel::per_score(mask),
            kernel::per_score(bias),
            dropout,
            draws,
            tf32};
  }
};

}  // namespace heddle
