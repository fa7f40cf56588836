// The seam: everything that the CUDA backend provides, on one page. Defined in cuda/*.cu; plain C++ for whoever includes it.
// Every function is called on the host. Work is queued on the calling thread's stream, and functions return before it is done
// unless they say that they wait. They throw CudaError for what CUDA reports.
#pragma once
#include <string>
#include <vector>

#include <heddle/math.hpp>
#include <heddle/memory.hpp>
#include <heddle/ops/arithmetic_forms.hpp>
#include <heddle/ops/attention_plan.hpp>
#include <heddle/ops/broadcast.hpp>
#include <heddle/ops/id_check.hpp>
#include <heddle/ops/number_types.hpp>
#include <heddle/ops/permutation.hpp>
#include <heddle/ops/softmax_forms.hpp>
#include <heddle/optim/rules.hpp>

namespace heddle::cuda {

// Empty where there is a GPU that this build can use; else why there is none, as a sentence.
std::string unavailable();
// The same of the library for matrix products alone.
std::string products_unavailable();

// --- streams and memory (cuda/runtime.cu) ---

// The calling thread's stream, a cudaStream_t: the user's, or one that all threads share.
void* stream();
// Of the calling thread; a null pointer goes back to the shared one. What was queued before is not waited for: who uses on
// one stream what another one makes has to order them, with an event or synchronize(). A stream must outlive what was
// allocated for it, and trim() comes before its end.
void set_stream(void* stream);
// Waits for all that was queued on the calling thread's stream.
void synchronize();

// At least `bytes`, uninitialised and aligned to 256, for work on the calling thread's stream. Throws OutOfMemory.
void* allocate(std::size_t bytes);
// Takes back what allocate gave for as many bytes, for the next request on the stream that it was allocated for. Work that
// the calling thread has queued on another stream may still use it.
void release(void* memory, std::size_t bytes) noexcept;
// Gives all blocks that are not in use back to the system. Waits.
void trim();
// Of the GPU, in all threads.
MemoryStats memory_stats();

// Lets products in fp32 round their operands to 11 significant bits (TF32), for the tensor cores: those of matrices, and of
// attention. For all threads, from now on; off until it is called.
void allow_tf32(bool allow);
bool tf32_is_allowed();

// The source may be used again at once.
void to_device(void* to, const void* from, std::size_t bytes);
// Waits.
void to_host(void* to, const void* from, std::size_t bytes);
void on_device(void* to, const void* from, std::size_t bytes);
// All bytes 0.
void clear(void* memory, std::size_t bytes);
// Rows of `width` bytes, which begin as many bytes apart.
void copy_rows(void* to, std::size_t to_stride, const void* from, std::size_t from_stride, std::size_t width,
               std::size_t rows);

}  // namespace heddle::cuda

namespace heddle::kernel {

// Shapes and formulas are those of the Cpu overloads, in the header of the same name. A kernel that only moves elements takes any
// type, as words of its size; one that computes takes those of this concept, and accumulates in float.
template <class T>
concept OnGpu = std::is_same_v<T, float> || std::is_same_v<T, bf16>;
template <class T>
concept Label = std::is_same_v<T, std::int32_t> || std::is_same_v<T, std::int64_t>;

// --- moving elements (cuda/move.cu) ---

template <std::size_t bytes>
using Word = std::conditional_t<
    bytes == 1, std::uint8_t,
    std::conditional_t<bytes == 2, std::uint16_t, std::conditional_t<bytes == 4, std::uint32_t, std::uint64_t>>>;
// W is std::uint8_t, uint16_t, uint32_t or uint64_t.
template <class W>
void fill_words(W* y, Index count, W value);
template <class W>
void permute_words(const Permutation& p, const W* x, View<W, 1> y);
template <class W>
void where_words(const Broadcast<3>& plan, const bool* condition, const W* a, const W* b, W* y);
// An id that is no row of x gives zeros.
template <class W, Label I>
void take_rows_words(View<const I, 1> ids, View<const W, 2> x, View<W, 2> y);
template <class W>
void copy_stretches_words(View<const int, 1> from, View<const int, 1> to, View<const int, 1> count, View<const W, 2> x,
                          View<W, 2> y);

// --- each element (cuda/map.cu, arithmetic.cu, dropout.cu, cast.cu) ---

// F is a function of math.hpp.
template <class F, OnGpu T>
void map(Cuda, F, View<const T, 1> x, View<T, 1> y);
template <class F, OnGpu T>
void map_backward(Cuda, F, View<const T, 1> dy, View<const T, 1> x, View<const T, 1> y, View<T, 1> dx);

// F is one of arithmetic_forms.hpp; the number's is that or Swapped of it.
template <class F, OnGpu A, OnGpu B, OnGpu Y>
void combine(Cuda, F, const Broadcast<2>& plan, const A* a, const B* b, Y* y);
template <class F, OnGpu T>
void combine(Cuda, F, View<const T, 1> x, float number, View<T, 1> y);
template <OnGpu T>
void add(Cuda, View<const T, 1> a, View<const T, 1> b, View<T, 1> y);

template <OnGpu T>
void dropout(Cuda, View<const T, 1> x, DropoutRule rule, Draws draws, View<T, 1> y);
// Between float, bf16, int, int64 and bool.
template <class T, class U>
void cast(Cuda, View<const T, 1> x, View<U, 1> y);

// --- sums and maxima (cuda/reduce.cu) ---

// Y is T, or float where T is bf16 and bf16 where it is float; int64 for int, int64 and bool.
template <class T, class Y>
void sum(Cuda, View<const T, 3> x, SumIn<T> divisor, View<Y, 2> y);
template <OnGpu T>
void repeat(Cuda, const Broadcast<1>& plan, const T* dy, float divisor, T* dx);
// T is float, bf16, int, int64 or bool.
template <class T>
void max(Cuda, View<const T, 3> x, View<T, 2> y, View<Index, 2> position);
template <class T>
void max_backward(Cuda, View<const T, 2> dy, View<const Index, 2> position, View<T, 3> dx);
template <OnGpu T>
void mean_rows(Cuda, View<const int, 1> begin, View<const int, 1> length, View<const T, 2> x, View<T, 2> y);
template <OnGpu T>
void mean_rows_backward(Cuda, View<const int, 1> begin, View<const int, 1> length, View<const T, 2> dy, View<T, 2> dx);

// --- rows (cuda/softmax.cu, layer_norm.cu, residual_layer_norm.cu, cross_entropy.cu, embed.cu) ---

// F is Softmax or LogSoftmax.
template <class F, OnGpu T>
void softmax(Cuda, F, View<const T, 3> x, bool nothing_gives_zeros, View<T, 3> y);
template <class F, OnGpu T>
void softmax_backward(Cuda, F, View<const T, 3> dy, View<const T, 3> y, View<T, 3> dx);

template <OnGpu T>
void layer_norm(Cuda, View<const T, 2> x, View<const T, 1> gamma, View<const T, 1> beta, double eps, View<T, 2> y,
                View<float, 1> mean, View<float, 1> rstd);
template <OnGpu T>
void layer_norm_backward(Cuda, View<const T, 2> dy, View<const T, 2> x, View<const T, 1> gamma,
                         View<const float, 1> mean, View<const float, 1> rstd, View<T, 2> dx, View<T, 1> dgamma,
                         View<T, 1> dbeta);
template <OnGpu T>
void residual_layer_norm(Cuda, Dropped drop, View<const T, 2> x, View<const T, 2> branch, View<const T, 1> gamma,
                         View<const T, 1> beta, double eps, View<T, 2> sum, View<T, 2> y, View<float, 1> mean,
                         View<float, 1> rstd);
template <OnGpu T>
void residual_layer_norm_backward(Cuda, Dropped drop, View<const T, 2> dy, View<const T, 2> sum, View<const T, 1> gamma,
                                  View<const float, 1> mean, View<const float, 1> rstd, View<T, 2> dx,
                                  View<T, 2> dbranch, View<T, 1> dgamma, View<T, 1> dbeta);

// A row whose label is none of the classes counts as ignored.
template <OnGpu T, Label L>
void cross_entropy(Cuda, View<const T, 2> logits, View<const L, 1> labels, std::int64_t ignored,
                   View<const T, 1> class_weights, double smoothing, View<T, 1> loss, View<float, 1> divisor,
                   View<float, 1> log_sum);
template <OnGpu T, Label L>
void cross_entropy_backward(Cuda, View<const T, 1> dy, View<const T, 2> logits, View<const L, 1> labels,
                            std::int64_t ignored, View<const T, 1> class_weights, double smoothing,
                            View<const float, 1> divisor, View<const float, 1> log_sum, View<T, 2> dlogits);

// One that the check refuses makes the next call that waits throw what the check says of the first of them.
template <Label I>
void check_ids(Cuda, const IdCheck& check, View<const I, 1> ids);
// All of dx [V, D]: each row the sum of those rows of dy that were taken from it, in the order of their places; ids that are
// no row are passed over.
template <OnGpu T, Label I>
void sum_taken_rows(Cuda, View<const I, 1> ids, View<const T, 2> dy, View<T, 2> dx);

// --- products (cuda/gemm.cu) ---

// c [M, N] = a b + bias [N], or c += a b, for each matrix of a batch; a and b are stored by rows, or transposed. A bias without
// data is none. Matrices of one operand begin as many elements apart; 0 repeats one. A single product of a transposed a may
// give the sums of a's rows as well, [M].
template <OnGpu T>
struct Product {
  Columns<const T> a, b;
  bool transpose_a, transpose_b;
  Columns<T> c;
  Into into = Into::set;
  const T* bias = nullptr;
  Index count = 1, next_a = 0, next_b = 0, next_c = 0;
  T* row_sums = nullptr;
};
template <OnGpu T>
void multiply(const Product<T>& product);

// --- attention (cuda/attention.cu) ---

template <OnGpu T>
void attention(Cuda, const AttentionPlan<T>& plan, Columns<const T> q, Columns<const T> k, Columns<const T> v,
               Columns<T> y, View<float, 2> lse);
template <OnGpu T>
void attention_backward(Cuda, const AttentionPlan<T>& plan, Columns<const T> q, Columns<const T> k, Columns<const T> v,
                        Columns<const T> y, View<const float, 2> lse, Columns<const T> dy, View<float, 2> delta,
                        Columns<T> dq, Columns<T> dk, Columns<T> dv, PerScore<float> dbias);
template <OnGpu T>
void attention_weights(Cuda, const AttentionPlan<T>& plan, Columns<const T> q, Columns<const T> k, View<T, 4> y);

// --- optimizers (cuda/optim.cu) ---

// Waits: the first whose gradient is not finite, or -1.
Index first_not_finite(Cuda, const std::vector<Updated>& parameters);
// All parameters in one launch.
void update(Cuda, AdamRule rule, const std::vector<Updated>& parameters);
void update(Cuda, SgdRule rule, const std::vector<Updated>& parameters);
// `value` becomes the gradient times the factor, of all parameters in one launch.
void scale_gradients(Cuda, float factor, const std::vector<Updated>& parameters);
// Waits: of all gradients together, in one launch.
double sum_of_squares(Cuda, const std::vector<Updated>& parameters);

}  // namespace heddle::kernel
