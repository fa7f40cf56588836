// SkinnyLhs: a product whose left operand has few rows, such as the tokens of a single text, with the 32 vector
// registers of AVX-512. It reads the right operand without copying it and takes little more time than reading it once;
// libraries copy each part of it into their own layout before they use it. Other processors use PanelLhs
// (panel_lhs.hpp).
#pragma once
#include <heddle/cpu/packets.hpp>

// Unrolls a loop also with -O2: otherwise g++ keeps the sums of a block in memory. nvcc does not know the pragma.
#ifdef __CUDACC__
#define HEDDLE_UNROLL
#else
#define HEDDLE_UNROLL _Pragma("GCC unroll 5")
#endif

namespace heddle::kernel {

// The left operand [M, K] of products with transposed right operands [N, K]. Both are read along K, so that an element
// of the result is the sum of one register's lanes.
class SkinnyLhs {
 public:
  // Whether the vector registers are those of AVX-512.
  static constexpr bool is_supported = packet_lanes<float> == 16;

  // Returns whether SkinnyLhs is faster than the general product for these sizes.
  static bool is_faster(Index rows, Index columns, Index depth) {
    constexpr Index least_rows = 5;
    constexpr Index least_elements = 1 << 18;  // of the right operand: more than the first-level cache holds
    return rows >= least_rows && rows <= 2 * lanes && columns * depth >= least_elements;
  }

  explicit SkinnyLhs(MatrixView<const float> a) : a_(a) {}

  // Computes c = a b^T, or c += a b^T, for b [N, K].
  void times_transposed(MatrixView<const float> b, MatrixView<float> c, Into into) const {
    Index n = 0;
    for (; n + most_columns <= c.width; n += most_columns) some_columns(b, n, c, into);
    for (; n < c.width; ++n)  // at most three
      for (Index m = 0; m < a_.rows; ++m) block<1, 1>(m, b, n, &b(n, 0), &b(n, 0), c, into);
  }

 private:
  using Packet = kernel::Packet<float>;
  static constexpr Index lanes = packet_lanes<float>;
  static constexpr int most_columns = 4, most_rows = 5;  // the sums of a block stay in registers

  // Computes the columns [n, n + most_columns) of c.
  void some_columns(MatrixView<const float> b, Index n, MatrixView<float> c, Into into) const {
    // Each block prefetches two of the rows of b that the next columns need, or one if there are at least four blocks:
    // the hardware prefetcher does not cross page boundaries.
    const Index blocks = (a_.rows + most_rows - 1) / most_rows, last = b.rows - 1;
    const Index rows_ahead = blocks < most_columns ? 2 : 1;
    for (Index m = 0, next = n + most_columns; m < a_.rows; m += most_rows, next += rows_ahead)
      block_of(std::min<Index>(most_rows, a_.rows - m), m, b, n, &b(std::min(next, last), 0),
               &b(std::min(next + rows_ahead - 1, last), 0), c, into);
  }

  // Computes the block of `rows` rows, at most `most`.
  template <int most = most_rows>
  void block_of(Index rows, Index m, MatrixView<const float> b, Index n, const float* ahead0, const float* ahead1,
                MatrixView<float> c, Into into) const {
    if constexpr (most > 1)
      if (rows < most) return block_of<most - 1>(rows, m, b, n, ahead0, ahead1, c, into);
    block<most, most_columns>(m, b, n, ahead0, ahead1, c, into);
  }

  // Not inlined: with inlining, g++ 12 runs out of registers.
  template <int rows, int columns>
  [[gnu::noinline]] void block(Index m, MatrixView<const float> b, Index n, const float* ahead0, const float* ahead1,
                               MatrixView<float> c, Into into) const {
    using Eigen::internal::ploadu, Eigen::internal::pmadd, Eigen::internal::predux, Eigen::internal::pset1;
    Packet sum[unsigned{rows}][unsigned{columns}];
    HEDDLE_UNROLL for (auto& row : sum) HEDDLE_UNROLL for (Packet& s : row) s = pset1<Packet>(0.f);
    const float *const x = &a_(m, 0), *const y = &b(n, 0);
    const Index x_stride = a_.stride, y_stride = b.stride, depth = a_.width;
    Index k = 0;
    for (; k + lanes <= depth; k += lanes) {
      __builtin_prefetch(ahead0 + k, 0, 2);
      __builtin_prefetch(ahead1 + k, 0, 2);
      Packet weight[unsigned{columns}];
      HEDDLE_UNROLL for (int j = 0; j < columns; ++j) weight[j] = ploadu<Packet>(y + j * y_stride + k);
      HEDDLE_UNROLL for (int i = 0; i < rows; ++i) {
        const Packet value = ploadu<Packet>(x + i * x_stride + k);
        HEDDLE_UNROLL for (int j = 0; j < columns; ++j) sum[i][j] = pmadd(value, weight[j], sum[i][j]);
      }
    }
    HEDDLE_UNROLL for (int i = 0; i < rows; ++i) HEDDLE_UNROLL for (int j = 0; j < columns; ++j) {
      float total = predux(sum[i][j]);
      for (Index rest = k; rest < depth; ++rest) total += x[i * x_stride + rest] * y[j * y_stride + rest];
      float& out = c(m + i, n + j);
      out = (into == Into::add ? out : 0.f) + total;
    }
  }

  MatrixView<const float> a_;
};

#undef HEDDLE_UNROLL

}  // namespace heddle::kernel
