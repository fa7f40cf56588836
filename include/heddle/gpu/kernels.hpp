// Declares all CUDA kernels that operations call. The definitions are in cuda/; this header is plain C++. Shapes and
// formulas are those of the Cpu overload, in the header of the operation. Kernels that only move elements take any
// type, as unsigned integers of the same size; most others take float and bf16 and accumulate in float. A declaration
// without OnGpu names its types.
#pragma once
#include <vector>

#include <heddle/base/binary_functions.hpp>
#include <heddle/base/scalar_functions.hpp>
#include <heddle/base/softmax_functions.hpp>
#include <heddle/gpu/runtime.hpp>
#include <heddle/kernel/attention_plan.hpp>
#include <heddle/kernel/broadcast_plan.hpp>
#include <heddle/kernel/enqueued_step.hpp>
#include <heddle/kernel/id_check.hpp>
#include <heddle/kernel/permutation.hpp>
#include <heddle/kernel/rotary_frequencies.hpp>
#include <heddle/kernel/update_args.hpp>

namespace heddle::kernel {

// The element types that kernels compute with.
template <class T>
concept OnGpu = std::is_same_v<T, float> || std::is_same_v<T, bf16>;

// --- moving elements (cuda/move.cu) ---

template <std::size_t bytes>
using Word = std::conditional_t<
    bytes == 1, std::uint8_t,
    std::conditional_t<bytes == 2, std::uint16_t, std::conditional_t<bytes == 4, std::uint32_t, std::uint64_t>>>;
// Fills y with `value`. Here and below, W is std::uint8_t, uint16_t, uint32_t or uint64_t.
template <class W>
void fill_words(W* y, Index count, W value);
template <class W>
void permute_words(const Permutation& p, const W* x, View<W, 1> y);
template <class W>
void where_words(const BroadcastPlan<3>& plan, const bool* condition, const W* a, const W* b, W* y);
// Copies the rows `ids` of x. An id outside x gives a row of zeros.
template <class W, Label Id>
void take_rows_words(View<const Id, 1> ids, View<const W, 2> x, View<W, 2> y);
template <class W>
void copy_row_ranges_words(View<const int, 1> from, View<const int, 1> to, View<const int, 1> count, View<const W, 2> x,
                           View<W, 2> y);
template <class W>
void end_rows_words(bool last, View<const int, 1> begin, View<const int, 1> length, View<const W, 2> x, View<W, 2> y);
template <class W>
void end_rows_backward_words(bool last, View<const int, 1> begin, View<const int, 1> length, View<const W, 2> dy,
                             View<W, 2> dx);

// --- elementwise (cuda/map.cu, arithmetic.cu, compare.cu, dropout.cu, cast.cu) ---

// Applies F, a function of base/scalar_functions.hpp, to each element.
template <class F, OnGpu T>
void map(Cuda, F, View<const T, 1> x, View<T, 1> y);
template <class F, OnGpu T>
void map_backward(Cuda, F, View<const T, 1> dy, View<const T, 1> x, View<const T, 1> y, View<T, 1> dx);

// Applies F, a function of base/binary_functions.hpp, to broadcast operands. With a number as operand, F may also
// be Swapped<F>.
template <class F, OnGpu A, OnGpu B, OnGpu Y>
void combine(Cuda, F, const BroadcastPlan<2>& plan, const A* a, const B* b, Y* y);
template <class F, OnGpu T>
void combine(Cuda, F, View<const T, 1> x, float number, View<T, 1> y);
// Applies F, a function of base/binary_functions.hpp, to broadcast operands. T is float or int64.
template <class F, class T>
void compare(Cuda, F, const BroadcastPlan<2>& plan, const T* a, const T* b, bool* y);
template <OnGpu T>
void add(Cuda, View<const T, 1> a, View<const T, 1> b, View<T, 1> y);

template <OnGpu T>
void dropout(Cuda, View<const T, 1> x, ElementDropout dropout, View<T, 1> y);
// Converts between float, bf16, int, int64 and bool.
template <class T, class U>
void cast(Cuda, View<const T, 1> x, View<U, 1> y);

// --- sums and extremes (cuda/reduce.cu) ---

// Sums x over its middle axis. T and Y are float or bf16, in any combination; for T int, int64 or bool, Y is int64.
template <class T, class Y>
void sum(Cuda, View<const T, 3> x, SumAcc<T> divisor, View<Y, 2> y);
template <OnGpu T>
void repeat(Cuda, const BroadcastPlan<1>& plan, const T* dy, float divisor, T* dx);
// Finds the largest or smallest elements along the middle axis. T is float, bf16, int, int64 or bool; in
// extremum_backward() it is float or bf16.
template <class T>
void extremum(Cuda, bool smallest, View<const T, 3> x, View<T, 2> y, View<Index, 2> position);
template <class T>
void extremum_backward(Cuda, View<const T, 2> dy, View<const Index, 2> position, View<T, 3> dx);
template <OnGpu T>
void add_up_rows(Cuda, bool mean, View<const int, 1> begin, View<const int, 1> length, View<const T, 2> x,
                 View<T, 2> y);
template <OnGpu T>
void add_up_rows_backward(Cuda, bool mean, View<const int, 1> begin, View<const int, 1> length, View<const T, 2> dy,
                          View<T, 2> dx);
template <OnGpu T>
void max_rows(Cuda, View<const int, 1> begin, View<const int, 1> length, View<const T, 2> x, View<T, 2> y,
              View<Index, 2> position);
template <OnGpu T>
void max_rows_backward(Cuda, View<const int, 1> begin, View<const int, 1> length, View<const T, 2> dy,
                       View<const Index, 2> position, View<T, 2> dx);

// --- rows (cuda/softmax.cu, layer_norm.cu, residual_layer_norm.cu, rms_norm.cu, cross_entropy.cu, embed.cu,
//     embed_layer_norm.cu, token_positions.cu, gated.cu, rotary.cu, disentangled_bias.cu) ---

// Computes F, which is Softmax or LogSoftmax, along the middle axis.
template <class F, OnGpu T>
void softmax(Cuda, F, View<const T, 3> x, bool empty_gives_zeros, View<T, 3> y);
template <class F, OnGpu T>
void softmax_backward(Cuda, F, View<const T, 3> dy, View<const T, 3> y, View<T, 3> dx);

// `result` is the dropout of a norm's result; its rule is inactive if there is none. dy is the gradient after it.
template <OnGpu T>
void layer_norm(Cuda, const ElementDropout& result, View<const T, 2> x, View<const T, 1> gamma, View<const T, 1> beta,
                double eps, View<T, 2> y, View<float, 1> mean, View<float, 1> rstd);
// Here and below, the gradients of parameters are in T, or in float for T bf16. dx is overwritten, or added to.
template <OnGpu T, OnGpu E>
void layer_norm_backward(Cuda, const ElementDropout& result, View<const T, 2> dy, View<const T, 2> x,
                         View<const T, 1> gamma, View<const float, 1> mean, View<const float, 1> rstd, View<T, 2> dx,
                         Into into, View<E, 1> dgamma, View<E, 1> dbeta);
template <OnGpu T>
void residual_layer_norm(Cuda, const ElementDropout& dropout, const ElementDropout& result, View<const T, 2> x,
                         View<const T, 2> branch, View<const T, 1> gamma, View<const T, 1> beta, double eps,
                         View<T, 2> sum, View<T, 2> y, View<float, 1> mean, View<float, 1> rstd);
template <OnGpu T, OnGpu E>
void residual_layer_norm_backward(Cuda, const ElementDropout& dropout, const ElementDropout& result,
                                  View<const T, 2> dy, View<const T, 2> sum, View<const T, 1> gamma,
                                  View<const float, 1> mean, View<const float, 1> rstd, View<T, 2> dx,
                                  View<T, 2> dbranch, View<E, 1> dgamma, View<E, 1> dbeta);

template <OnGpu T>
void rms_norm(Cuda, View<const T, 2> x, View<const T, 1> gamma, double eps, View<T, 2> y, View<float, 1> rstd);
template <OnGpu T, OnGpu E>
void rms_norm_backward(Cuda, View<const T, 2> dy, View<const T, 2> x, View<const T, 1> gamma, View<const float, 1> rstd,
                       View<T, 2> dx, Into into, View<E, 1> dgamma);

// Computes the loss. Ignores a row whose label is not a class, and reports such a label as check_ids() does.
template <OnGpu T, Label L>
void cross_entropy(Cuda, const IdCheck& check, View<const T, 2> logits, View<const L, 1> labels, std::int64_t ignored,
                   View<const T, 1> class_weights, double smoothing, bool by_row, View<T, 1> loss,
                   View<float, 1> divisor, View<float, 1> log_sum);
template <OnGpu T, Label L>
void cross_entropy_backward(Cuda, View<const T, 1> dy, View<const T, 2> logits, View<const L, 1> labels,
                            std::int64_t ignored, View<const T, 1> class_weights, double smoothing, bool by_row,
                            View<const float, 1> divisor, View<const float, 1> log_sum, View<T, 2> dlogits);

// An invalid id is reported by the next synchronize() or copy to the host, which throws the check's IndexError for the
// first one.
template <Label Id>
void check_ids(Cuda, const IdCheck& check, View<const Id, 1> ids);
// Takes the rows `ids` of the table, rounded to Y. If `positions` has data, adds its rows `position`, rounded likewise.
// An id outside the table gives zeros, and is reported as by check_ids(). T is float or Y.
template <OnGpu T, OnGpu Y, Label Id>
void embed(Cuda, const IdCheck& check, View<const Id, 1> ids, View<const T, 2> table, View<const int, 1> position,
           View<const T, 2> positions, View<Y, 2> y);
// Computes all of dx [V, D]: row i is the sum of the rows n of dy with ids(n) = i, in ascending n. Ids outside dx are
// skipped; row `frozen` is 0, unless it is -1. Computes dpositions from `position` and `frozen_position` likewise, if
// it has rows, and dtypes from `type`, which has few rows. If `type` has no data, all rows of dy took row 0 of that
// table.
template <OnGpu T, OnGpu Y, Label Id>
void sum_taken_rows(Cuda, View<const T, 2> dy, View<const Id, 1> ids, Index frozen, View<Y, 2> dx,
                    View<const int, 1> position = {nullptr, {0}}, Index frozen_position = -1,
                    View<Y, 2> dpositions = {nullptr, {0, 0}}, View<const int, 1> type = {nullptr, {0}},
                    View<Y, 2> dtypes = {nullptr, {0, 0}});
// Computes the positions of tokens (ops/token_positions.hpp). The sequences are in the order of their rows.
template <Label Id>
void token_positions(Cuda, View<const Id, 1> ids, View<const int, 1> begin, View<const int, 1> length, Index padding_id,
                     View<int, 1> position);

// F is Gelu, GeluTanh, Silu or Relu.
template <class F, OnGpu T>
void gated(Cuda, F, bool gate_is_first, View<const T, 2> x, View<T, 2> y);
template <class F, OnGpu T>
void gated_backward(Cuda, F, bool gate_is_first, View<const T, 2> dy, View<const T, 2> x, View<T, 2> dx);

void rotary_table(Cuda, const RotaryFrequencies& frequencies, View<float, 2> table);
template <OnGpu T>
void rotary(Cuda, View<const T, 2> x, View<const float, 2> table, View<const int, 1> position, Index rotated, bool back,
            View<T, 2> y);

template <OnGpu T>
void disentangled_bias(Cuda, View<const T, 3> a, View<const T, 3> z, View<const int, 1> column,
                       View<const int, 1> begin, View<const int, 1> length, float scale, View<T, 4> bias);
template <OnGpu T>
void disentangled_bias_backward(Cuda, View<const T, 4> dbias, View<const int, 1> first, View<const int, 1> begin,
                                View<const int, 1> length, float scale, View<T, 3> da, View<T, 3> dz);

// The rows `ids` of a table. Without ids, they are all row 0.
template <OnGpu T>
struct TableRows {
  IdCheck check;  // of the ids
  View<const int, 1> ids;
  View<const T, 2> table;
};
// The tables whose rows are added up to embeddings. Positions are not checked. `types` may have no table.
template <OnGpu T>
struct EmbeddingTables {
  TableRows<T> words, positions, types;
};
// Computes y = layer_norm(sum) with the dropout `result`, where `sum` is words + positions + types. Each row of a table
// and each partial sum is rounded to A. An invalid word or type gives zeros, and is reported as by check_ids(); a type
// only if all words are valid. T is float or A.
template <OnGpu T, OnGpu A>
void embed_layer_norm(Cuda, const EmbeddingTables<T>& tables, const ElementDropout& result, View<const A, 1> gamma,
                      View<const A, 1> beta, double eps, View<A, 2> sum, View<A, 2> y, View<float, 1> mean,
                      View<float, 1> rstd);

// --- selection (cuda/gather.cu, topk.cu) ---

template <Label Id>
void element_positions(Cuda, View<const Id, 3> ids, Index extent, View<Index, 3> position);
template <OnGpu T>
void topk(Cuda, bool largest, View<const T, 2> x, View<Index, 2> position);

// --- products (cuda/gemm.cu) ---

// c [M, N] = a b + bias [N], or c += a b, for each matrix of a batch. a and b are stored by rows, or transposed. E is
// T, or float for the sums of a product in bf16 without rounding.
template <OnGpu T, OnGpu E = T>
struct Product {
  MatrixView<const T> a, b;
  bool transpose_a, transpose_b;
  MatrixView<E> c;
  Into into = Into::set;
  const E* bias = nullptr;                              // [N], or null
  Index count = 1, next_a = 0, next_b = 0, next_c = 0;  // matrices in the batch, and elements from one to the next
  E* row_sums = nullptr;  // [M] the row sums of the operand a [M, K], or null; requires count = 1 and transpose_a
};
template <OnGpu T, OnGpu E>
void multiply(const Product<T, E>& product);

// --- attention (cuda/attention/) ---

template <OnGpu T>
void attention(Cuda, const AttentionPlan<T>& plan, MatrixView<const T> q, MatrixView<const T> k, MatrixView<const T> v,
               MatrixView<T> y, View<float, 2> lse);
template <OnGpu T>
void attention_backward(Cuda, const AttentionPlan<T>& plan, MatrixView<const T> q, MatrixView<const T> k,
                        MatrixView<const T> v, MatrixView<const T> y, View<const float, 2> lse, MatrixView<const T> dy,
                        View<float, 2> delta, MatrixView<T> dq, MatrixView<T> dk, MatrixView<T> dv,
                        PerScore<float> dbias);
template <OnGpu T>
void attention_weights(Cuda, const AttentionPlan<T>& plan, MatrixView<const T> q, MatrixView<const T> k, View<T, 4> y);

// --- optimizers (cuda/optim.cu): all parameters in one launch ---

// Updates all parameters, with gradients that are scaled as `clipping` says, unless a gradient is not finite. Then this
// and all later updates on the stream are skipped until the next synchronization, which throws the Error and sets the
// outcome of the skipped steps. cuda/optim.cu defines it for heddle's rules in float.
template <class Rule>
void update(Cuda, const std::vector<UpdateArgs<Rule>>& parameters, const Clipping& clipping,
            const std::shared_ptr<EnqueuedStep>& step);
// Returns the index of the first gradient that contains NaN or infinity, or -1. Synchronizes.
Index first_not_finite(Cuda, const std::vector<View<const float, 1>>& gradients);
// Writes the same index to memory on the GPU. Synchronizes nothing.
void find_not_finite(Cuda, const std::vector<View<const float, 1>>& gradients, Index* first);
// Returns the sum of the squares of all elements. Synchronizes.
double sum_of_squares(Cuda, const std::vector<View<const float, 1>>& gradients);
// Multiplies each gradient by `factor` and stores the product in the result of the same index.
void scale(Cuda, float factor, const std::vector<View<const float, 1>>& gradients,
           const std::vector<View<float, 1>>& results);

}  // namespace heddle::kernel
