// gemm: heddle's matrix product, and the only caller of the products of Eigen and oneDNN. The suffixes are those of
// BLAS, one letter per operand: n if it is used as stored, t if it is transposed. The result is divided into fixed
// blocks for the threads. Eigen and oneDNN compute a block on one thread: their own threads would spin while they wait
// for each other, which costs more than it gains on a busy machine.
#pragma once
#include <heddle/base/threads.hpp>
#include <heddle/cpu/onednn.hpp>
#include <heddle/cpu/panel_lhs.hpp>
#include <heddle/cpu/skinny_lhs.hpp>
#include <heddle/cpu/vector.hpp>

namespace heddle {

/// A scope in which products of float on the CPU, x [N, K] times a transposed weight, compute each row of the result
/// alone: its bits do not depend on the other rows, such as those of other texts in a batch. Large products take about
/// a quarter longer.
class [[nodiscard]] RowwiseProducts {
 public:
  RowwiseProducts() { detail::thread_choices.computes_rowwise = true; }
  RowwiseProducts(const RowwiseProducts&) = delete;
  ~RowwiseProducts() { detail::thread_choices.computes_rowwise = before_; }

 private:
  const bool before_ = detail::thread_choices.computes_rowwise;
};

namespace kernel {

// Returns a copy of x in the type that T accumulates in.
template <class T>
RowMatrix<Acc<T>> widened(MatrixView<const T> x) {
  RowMatrix<Acc<T>> wide(x.rows, x.width);
  for (Index n = 0; n < x.rows; ++n) copy_row(wide.data() + n * x.width, &x(n, 0), x.width);
  return wide;
}

// Returns rows [first, last) of x, or of its transpose.
template <bool transposed, class T>
MatrixView<T> some_rows(MatrixView<T> x, Index first, Index last) {
  if constexpr (transposed) return {x.data + first, x.rows, last - first, x.stride};
  return {x.data + first * x.stride, last - first, x.width, x.stride};
}

#ifdef HEDDLE_ONEDNN
// Returns whether the rows of a matrix are whole pages apart.
inline bool has_rows_pages_apart(const MatrixView<const float>& x) {
  constexpr Index page = 4096 / sizeof(float);
  return x.stride % page == 0;
}

// Returns whether a product c = a b is faster from copies of a or of b.
template <bool transpose_a, bool transpose_b>
bool needs_copies(MatrixView<const float> b, MatrixView<float> c) {
  constexpr Index worth_copying = 128;  // columns of c that read a copy of a, and rows that read one of b
  if (c.width < worth_copying || !onednn::is_slow_with_gaps()) return false;
  return transpose_a || (!transpose_b && c.rows >= worth_copying && has_rows_pages_apart(b));
}

// Computes c = a b, or c += a b, from copies of parts of a, if it is transposed, and of b, if its rows are pages apart.
template <bool transpose_a, bool transpose_b>
void product_of_copies(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c, bool add) {
  constexpr Index line = 16;  // numbers in a cache line; the rows of a copy of b are an odd number of them apart
  const Index depth = transpose_a ? a.rows : a.width, part = onednn::part_of_sum(depth);
  const bool copies_b = !transpose_b && has_rows_pages_apart(b);
  const Index a_stride = (part + line - 1) / line * line, b_stride = ((c.width + line - 1) / line | 1) * line;
  Scratch<float> a_copy(transpose_a ? c.rows * a_stride : 0), b_copy(copies_b ? part * b_stride : 0);
  for (Index k = 0; k < depth; k += part) {
    const Index end = std::min(depth, k + part);
    MatrixView<const float> of_a = some_rows<!transpose_a>(a, k, end), of_b = some_rows<transpose_b>(b, k, end);
    if constexpr (transpose_a) {
      transpose_rows(of_a, a_stride, a_copy.data());
      of_a = {a_copy.data(), c.rows, end - k, a_stride};
    }
    if (copies_b) {
      for (Index n = 0; n < of_b.rows; ++n) std::copy_n(&of_b(n, 0), c.width, b_copy.data() + n * b_stride);
      of_b = {b_copy.data(), of_b.rows, c.width, b_stride};
    }
    onednn::product(false, transpose_b, of_a, of_b, c, add || k > 0);
  }
}
#endif

// Computes c = a b, or c += a b, on the calling thread. Calls Eigen's internal product directly, as Eigen's BLAS does:
// Eigen's expressions would instantiate products of vectors and of small blocks for each pair of operands, which costs
// seconds of compile time.
template <bool transpose_a, bool transpose_b, class T, class E>
void product(MatrixView<const T> a, MatrixView<const T> b, MatrixView<E> c, Into into) {
#ifdef HEDDLE_ONEDNN
  constexpr Index worth_packing =
      16384;  // multiplications; for smaller products oneDNN's overhead is larger than its gain
  constexpr bool is_float = std::is_same_v<T, float>;
  if constexpr (is_float || std::is_same_v<T, bf16>) {
    if (const Index depth = transpose_a ? a.rows : a.width; c.rows * c.width * depth >= worth_packing) {
      if constexpr (is_float)
        if (needs_copies<transpose_a, transpose_b>(b, c))
          return product_of_copies<transpose_a, transpose_b>(a, b, c, into == Into::add);
      if (is_float || onednn::has_bf16()) return onednn::product(transpose_a, transpose_b, a, b, c, into == Into::add);
    }
  }
#endif
  if constexpr (std::is_same_v<T, Acc<T>>) {
    using Eigen::ColMajor;  // one name a declaration: nvcc stops at a list with an internal error
    using Eigen::Dynamic;
    using Eigen::RowMajor;
    constexpr int order_a = transpose_a ? ColMajor : RowMajor, order_b = transpose_b ? ColMajor : RowMajor;
    const Index depth = transpose_a ? a.rows : a.width;
    if (into == Into::set) matrix(c).setZero();
    if (c.rows == 0 || c.width == 0 || depth == 0) return;
    Eigen::internal::gemm_blocking_space<RowMajor, T, T, Dynamic, Dynamic, Dynamic> blocking(c.rows, c.width, depth, 1,
                                                                                             true);
    Eigen::internal::general_matrix_matrix_product<Index, T, order_a, false, T, order_b, false, RowMajor, 1>::run(
        c.rows, c.width, depth, a.data, a.stride, b.data, b.stride, c.data, 1, c.stride, T(1), blocking, nullptr);
  } else {
    RowMatrix<Acc<T>> a_wide = widened(a), b_wide = widened(b);
    const auto multiply = [&](MatrixView<Acc<T>> to) {
      product<transpose_a, transpose_b>(as_const(matrix_view(a_wide)), as_const(matrix_view(b_wide)), to, into);
    };
    if constexpr (std::is_same_v<E, Acc<T>>) return multiply(c);
    RowMatrix<Acc<T>> sum(c.rows, c.width);
    if (into == Into::add) sum = widened(as_const(c));
    multiply(matrix_view(sum));
    for (Index n = 0; n < c.rows; ++n) copy_row(&c(n, 0), sum.data() + n * c.width, c.width);
  }
}

// Returns how many rows or columns of a result to give to a thread. `longer` is their number, `work` the number of
// multiplications.
inline Index product_grain(Index longer, Index work) {
  constexpr Index worth_a_thread = 500000;  // multiplications: some ten microseconds
  constexpr Index packing = 256;     // each block packs the other operand as a whole; this many rows make up for it
  constexpr Index kernel_rows = 16;  // rows of the libraries' innermost loops; a block is a multiple of them
  if (work < 2 * worth_a_thread) return longer;
  Index pieces = std::clamp<Index>(std::min(work / worth_a_thread, longer / packing), 2, Pieces::most);
  if (pieces > 2) pieces = (pieces + 2) / 4 * 4;  // the same number for each of two or four threads
  return ((longer + pieces - 1) / pieces + kernel_rows - 1) / kernel_rows * kernel_rows;
}

// The left operand of a product with few rows.
using SmallLhs = std::conditional_t<SkinnyLhs::is_supported, SkinnyLhs, PanelLhs>;

struct Nothing {
  void operator()(const auto&, Index, Index) const {}
};

// Computes c = a b^T, or c += a b^T, so that each row of c has the same bits whatever the other rows are. Otherwise as
// parallel_product().
template <class Prologue, class Epilogue>
void rowwise_product(MatrixView<const float> a, MatrixView<const float> b, MatrixView<float> c, Into into,
                     Prologue&& prologue, Epilogue&& epilogue) {
  constexpr Index tile = 30;  // rows: they stay in the second-level cache
  constexpr Index grain = 64;
  std::vector<SmallLhs> tiles;
  for (Index m = 0; m < a.rows; m += tile) tiles.emplace_back(some_rows<false>(a, m, std::min(a.rows, m + tile)));
  parallel(c.width, grain, [&](Index first, Index last) {
    for (std::size_t t = 0; t < tiles.size(); ++t) {
      const Index m = static_cast<Index>(t) * tile;
      const MatrixView<float> rows = some_rows<false>(c, m, std::min(c.rows, m + tile)),
                              block = some_rows<true>(rows, first, last);
      prologue(block, m, first);
      tiles[t].times_transposed(some_rows<false>(b, first, last), block, into);
      epilogue(block, m, first);
    }
  });
}
// Computes c = a b, or c += a b, block by block. Calls prologue(block, row, column) before a block's product, and
// epilogue(block, row, column) after it, while the block is in the cache. c is cut by columns for SmallLhs, otherwise
// by rows or by columns, whichever are more numerous.
template <bool transpose_a, bool transpose_b, class T, class E, class Prologue, class Epilogue>
void parallel_product(MatrixView<const T> a, MatrixView<const T> b, MatrixView<E> c, Into into, Prologue&& prologue,
                      Epilogue&& epilogue) {
  const Index longer = std::max(c.rows, c.width), depth = transpose_a ? a.rows : a.width,
              work = c.rows * c.width * depth;
  if constexpr (!transpose_a && transpose_b && std::is_same_v<T, float>) {
    if (detail::thread_choices.computes_rowwise) return rowwise_product(a, b, c, into, prologue, epilogue);
    if (SmallLhs::is_faster(c.rows, c.width, depth)) {
      constexpr Index grain = 64;  // columns: about ten microseconds for 16 or more rows
      const SmallLhs left(a);
      return parallel(c.width, grain, [&](Index first, Index last) {
        const MatrixView<T> block = some_rows<true>(c, first, last);
        prologue(block, 0, first);
        left.times_transposed(some_rows<false>(b, first, last), block, into);
        epilogue(block, 0, first);
      });
    }
  }
  parallel(longer, product_grain(longer, work), [&](Index first, Index last) {
    const bool by_rows = c.rows == longer;
    const MatrixView<E> block = by_rows ? some_rows<false>(c, first, last) : some_rows<true>(c, first, last);
    const Index at[] = {by_rows ? first : 0, by_rows ? 0 : first};
    prologue(block, at[0], at[1]);
    product<transpose_a, transpose_b>(by_rows ? some_rows<transpose_a>(a, first, last) : a,
                                      by_rows ? b : some_rows<!transpose_b>(b, first, last), block, into);
    epilogue(block, at[0], at[1]);
  });
}

template <bool transpose_a, bool transpose_b, class T, class E>
void parallel_product(MatrixView<const T> a, MatrixView<const T> b, MatrixView<E> c, Into into) {
  parallel_product<transpose_a, transpose_b>(a, b, c, into, Nothing{}, Nothing{});
}

// Computes c [M, N] = a [M, K] b [K, N].
template <class T>
void gemm_nn(Cpu, MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> c, Into into = Into::set) {
  parallel_product<false, false>(a, b, c, into);
}
// Computes c [M, N] = a [M, K] b^T for b [N, K].
template <class T>
void gemm_nt(Cpu, MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> c, Into into = Into::set) {
  parallel_product<false, true>(a, b, c, into);
}
// Computes c [M, N] = a b^T + bias [N], without a bias if its data is null, and calls epilogue(block, row, column) for
// each block of c.
template <class T, class Epilogue = Nothing>
void gemm_nt_bias(Cpu, MatrixView<const T> a, MatrixView<const T> b, View<const T, 1> bias, MatrixView<T> c,
                  Epilogue&& epilogue = {}) {
  const auto put_bias = [&](const MatrixView<T>& block, Index, Index column) {
    for (Index n = 0; bias.data && n < block.rows; ++n) std::copy_n(bias.data + column, block.width, &block(n, 0));
  };
  parallel_product<false, true>(a, b, c, bias.data ? Into::add : Into::set, put_bias, epilogue);
}
// Computes c [M, N] = a^T b for a [K, M] and b [K, N]. The elements E of c are T, or Acc<T> for the sums without
// rounding.
template <class T, class E>
void gemm_tn(Cpu, MatrixView<const T> a, MatrixView<const T> b, MatrixView<E> c, Into into = Into::set) {
  parallel_product<true, false>(a, b, c, into);
}

}  // namespace kernel
}  // namespace heddle
