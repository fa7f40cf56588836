// The checked arguments of a call of attention, which its backward keeps.
#pragma once
#include <cmath>
#include <numeric>

#include <heddle/autograd/run_log.hpp>
#include <heddle/core/dispatch.hpp>
#include <heddle/gpu/runtime.hpp>
#include <heddle/kernel/attention_plan.hpp>
#include <heddle/ops/attention/columns.hpp>
#include <heddle/ops/attention/dropout.hpp>
#include <heddle/ops/attention/options.hpp>
#include <heddle/ops/padded.hpp>

namespace heddle {

namespace kernel {

template <class TensorT>
auto per_score(TensorT& x) {
  using E = std::remove_pointer_t<decltype(x.device_data())>;
  const auto stride = [&](int axis) { return x.dim(axis) == 1 ? Index{0} : x.shape().product(axis + 1, 4); };
  return x.has_data() ? PerScore<E>{x.device_data(), stride(0), stride(1), stride(2)} : PerScore<E>{};
}

}  // namespace kernel

namespace detail {

// The checked arguments of a call of attention.
template <class T>
struct AttentionCall {
  ColumnSlice<T> q, k;
  Sequences queries, keys;
  Index heads;
  double scale;
  Index past, future;  // the greatest distances of visible keys
  Tensor<bool> mask;
  Tensor<T> bias;
  kernel::DropoutRule dropout = {};
  kernel::Draws draws = {};
  Index calls_per_query = 0, calls_per_head = 0;  // of the generator
  Tensor<int> kept;  // on the GPU, if the forward stores dropout's decisions: memory for them
  bool tf32 = false;

  // Takes rows, or padded batches [B, T, ...]. Throws ShapeError and Error.
  AttentionCall(const char* op, const ColumnSlice<T>& q_slice, const ColumnSlice<T>& k_slice,
                const Sequences& sequences, const AttentionOptions<T>& options)
      : q(as_rows(q_slice, sequences)),
        k(as_rows(k_slice, options.keys ? *options.keys : sequences)),
        queries(sequences),
        keys(options.keys ? *options.keys : sequences),
        heads(options.heads),
        scale(options.scale.value_or(1 / std::sqrt(static_cast<double>(q.width) / static_cast<double>(heads)))),
        past(std::min(options.window, kernel::any_distance)),
        future(options.causal ? 0 : past),
        mask(options.mask),
        bias(options.bias) {
    require_rows(op, {"q", q}, queries);
    require_rows(op, {"k", k}, keys);
    require_heads(op, {"q", q, 1});
    require(std::isfinite(scale), op, ": scale must be finite, got ", scale);
    require(past >= 0, op, ": window must not be negative, got ", past);
    require_same(op, "heads * K", {"q", q, 1}, {"k", k, 1});
    require<ShapeError>(queries.count() == keys.count(), op, ": there are ", queries.count(),
                        " sequences of queries and ", keys.count(), " of keys; both must have the same number");
    if (mask.has_data()) require_per_score(op, {"mask", mask});
    if (bias) require_per_score(op, {"bias", bias});
    if constexpr (has_cuda) tf32 = cuda::tf32_is_allowed();
  }

  // Returns the rows of a padded batch, and any other slice unchanged.
  static ColumnSlice<T> as_rows(const ColumnSlice<T>& slice, const Sequences& sequences) {
    return {rows_of_batch(slice.x, sequences), slice.first, slice.width};
  }

  // Activates dropout if `random` is given and p is not 0. The draws depend on the lengths of the longest sequences,
  // rounded up, and not on padding; for a part of a batch, on those of the whole batch. Throws Error.
  void draw(const char* op, double p, Random* random) {
    const kernel::DropoutRule rule(op, p);
    if (!random || !rule.is_active()) return;
    dropout = rule;
    const std::optional<BatchPart>& part = random->part();
    const bool has_place = part && part->sequences == queries.count();
    // The longest of the part, or, if it has the batch's rows, that of the whole batch. Queries may be other rows, such
    // as one for each text.
    const auto longest = [&](const Sequences& rows) {
      return has_place && rows.rows() == part->rows ? std::max(part->longest, rows.longest()) : rows.longest();
    };
    calls_per_query = kernel::calls_per_score_row(kernel::drawn_rows(longest(keys)));
    calls_per_head = kernel::drawn_rows(longest(queries)) * calls_per_query;
    const auto calls = [&](Index sequences) { return static_cast<std::uint64_t>(sequences * heads * calls_per_head); };
    draws = random->take_for_operation(calls(queries.count()),
                                       has_place ? std::optional(calls(part->first_sequence)) : std::nullopt);
    require_replayable(draws);
  }

  // Lets the forward on a GPU store dropout's decisions for the backward, unless they would take more memory than its
  // result y.
  void store_decisions(const Tensor<T>& y) {
    constexpr Index of_word = sizeof(std::uint16_t), of_int = sizeof(int), of_element = sizeof(T);  // bytes
    const Index most = std::min<Index>(y.size() * of_element / of_word, std::numeric_limits<std::uint32_t>::max());
    const Index pairs = queries.count() * heads, words = kernel::kept_words(queries.longest(), keys.longest());
    if (y.device() == Device::cuda && dropout.is_active() && words > 0 && words <= most / pairs &&
        std::max(q.width, y.dim(1)) <= heads * kernel::widest_tiled_head)
      kept = Tensor<int>({pairs * words * of_word / of_int}, y.device());
  }

  // Checks that x is a whole number of heads wide. Throws ShapeError.
  void require_heads(const char* op, const Operand& x) const {
    require_rank(op, x, 2);
    require<ShapeError>(heads > 0 && x.shape[1] > 0 && x.shape[1] % heads == 0, op, ": ", x.name, ' ', x.shape,
                        " is not ", heads,
                        " heads wide: 'heads' must be positive, and axis 1 must be a positive multiple of it");
  }
  // Checks the shape and device of a mask or bias. Throws ShapeError, and Error.
  void require_per_score(const char* op, const Operand& x) const {
    require_rank(op, x, 4);
    require_same_device(op, {"q", q}, x);
    const auto one_or = [&](int axis, Index extent) { return x.shape[axis] == 1 || x.shape[axis] == extent; };
    require<ShapeError>(one_or(0, queries.count()) && one_or(1, heads) &&
                            (x.shape[2] == 1 || x.shape[2] >= queries.longest()) && x.shape[3] >= keys.longest(),
                        op, ": ", x.name, ' ', x.shape, " must be [1 or ", queries.count(), ", 1 or ", heads,
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
            past,
            future,
            kernel::per_score(mask),
            kernel::per_score(bias),
            dropout,
            draws,
            tf32,
            kept ? reinterpret_cast<std::uint16_t*>(const_cast<int*>(kept.device_data())) : nullptr,
            calls_per_query,
            calls_per_head};
  }
};

}  // namespace detail
}  // namespace heddle
