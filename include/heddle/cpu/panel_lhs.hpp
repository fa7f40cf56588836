// PanelLhs: a product whose left operand has few rows, such as the tokens of a single text, with the 16 vector
// registers of AVX2. The right operand is transposed panel by panel in the first-level cache, while the next panel is
// prefetched: libraries copy a larger part of it before they begin, and wait for the memory.
#pragma once
#include <heddle/cpu/packets.hpp>

namespace heddle::kernel {

// The left operand [M, K] of products with transposed right operands [N, K].
class PanelLhs {
 public:
  // Returns whether PanelLhs is faster than the general product for these sizes.
  static bool is_faster(Index rows, Index columns, Index depth) {
    constexpr Index least_rows = 2, most_rows = 32;
    constexpr Index least_elements = 1 << 14;  // of the right operand: more than the first-level cache holds
    return rows >= least_rows && rows <= most_rows && columns * depth >= least_elements;
  }

  // Copies `a` in parts of `part` columns, each with its rows next to each other: rows whose length is a power of two
  // would compete for a few sets of the cache.
  explicit PanelLhs(MatrixView<const float> a) : rows_(a.rows), depth_(a.width), parts_(a.rows, a.width) {
    float* to = parts_.data();
    for (Index k = 0; k < depth_; k += part)
      for (Index m = 0; m < rows_; ++m) to = std::copy_n(&a(m, k), std::min(part, depth_ - k), to);
  }

  // Computes c = a b^T, or c += a b^T, for b [N, K].
  void times_transposed(MatrixView<const float> b, MatrixView<float> c, Into into) const {
    alignas(64) float panel[part * panel_columns];
    for (Index n = 0; n < c.width; n += panel_columns)
      for (Index k = 0; k < depth_; k += part) {
        const Index depth = std::min(part, depth_ - k), columns = std::min(panel_columns, c.width - n);
        transpose_rows(MatrixView<const float>{&b(n, k), columns, depth, b.stride}, panel_columns, panel);
        const bool is_last_part = k + part >= depth_;
        const Index next_n = is_last_part ? n + panel_columns : n, next_k = is_last_part ? 0 : k + part;
        const Prefetch next{next_n < c.width ? &b(next_n, next_k) : nullptr, b.stride,
                            std::min(panel_columns, c.width - next_n)};
        const Block out{&c(0, n), c.stride, columns, into == Into::add || k > 0};
        all_rows(parts_.data() + k * rows_, depth, panel, out, next);
      }
  }

 private:
  using Packet = kernel::Packet<float>;
  static constexpr Index lanes = packet_lanes<float>;
  static constexpr Index panel_columns = 2 * lanes;
  // Each part of a sum is accumulated from 0 and then added to c, which limits rounding errors. A panel of AVX2 takes
  // 16 KiB.
  static constexpr Index part = 256;
  // Six rows need twelve sums, two halves of a row of the panel and one element of a: 15 registers.
  static constexpr int block_rows = 6;

  // The part of c that a block of rows writes: `columns` adjacent columns.
  struct Block {
    float* c;
    Index stride, columns;
    bool add;
  };
  // The rows of b of the next panel.
  struct Prefetch {
    const float* b;
    Index stride, rows;
  };

  // Multiplies all rows by the panel, in blocks of similar size. Each block prefetches its share of the next panel.
  void all_rows(const float* x, Index depth, const float* panel, Block out, Prefetch next) const {
    const Index blocks = (rows_ + block_rows - 1) / block_rows;
    for (Index i = 0; i < blocks; ++i) {
      const Index m = rows_ * i / blocks, end = rows_ * (i + 1) / blocks;
      const Index first = next.rows * i / blocks, last = next.rows * (i + 1) / blocks;
      const Prefetch share{next.b ? next.b + first * next.stride : nullptr, next.stride, last - first};
      some_rows(end - m, x + m * depth, depth, panel, Block{out.c + m * out.stride, out.stride, out.columns, out.add},
                share);
    }
  }
  template <int most = block_rows>
  static void some_rows(Index rows, const float* x, Index depth, const float* panel, Block out, Prefetch next) {
    if constexpr (most > 1)
      if (rows < most) return some_rows<most - 1>(rows, x, depth, panel, out, next);
    block<most>(x, depth, panel, out, next);
  }

  template <int rows>
  [[gnu::noinline, gnu::flatten]] static void block(const float* x, Index depth, const float* panel, Block out,
                                                    Prefetch next) {
    using Eigen::internal::pload, Eigen::internal::pmadd, Eigen::internal::pset1;
    Packet left[unsigned{rows}], right[unsigned{rows}];
    unrolled<rows>([&](auto i) { left[i] = right[i] = pset1<Packet>(0.f); });
    constexpr Index line = 16;  // floats of a cache line
    const float* ahead = next.b;
    Index lines = ahead ? next.rows * ((depth + line - 1) / line) : 0;
    const Index steps = lines > 0 ? std::max<Index>(depth / lines, 1) : depth;  // from one prefetch to the next
    for (Index k = 0, at = 0; k < depth;) {
      if (lines-- > 0) {
        __builtin_prefetch(ahead + at, 0, 2);  // into the second-level cache
        at += line;
        if (at >= depth) at = 0, ahead += next.stride;
      }
      for (const Index end = std::min(k + steps, depth); k < end; ++k) {
        const Packet w0 = pload<Packet>(panel + k * panel_columns),
                     w1 = pload<Packet>(panel + k * panel_columns + lanes);
        unrolled<rows>([&](auto i) {
          const Packet value = pset1<Packet>(x[i * depth + k]);
          left[i] = pmadd(value, w0, left[i]);
          right[i] = pmadd(value, w1, right[i]);
        });
      }
    }
    unrolled<rows>([&](auto i) { put(left[i], right[i], out, i); });
  }

  // Writes the sums of row m, or adds them.
  static void put(Packet left, Packet right, const Block& out, Index m) {
    using Eigen::internal::padd, Eigen::internal::ploadu, Eigen::internal::pstoreu;
    float* const to = out.c + m * out.stride;
    if (out.columns == panel_columns) {
      pstoreu(to, out.add ? padd(ploadu<Packet>(to), left) : left);
      pstoreu(to + lanes, out.add ? padd(ploadu<Packet>(to + lanes), right) : right);
      return;
    }
    float sums[panel_columns];
    pstoreu(sums, left);
    pstoreu(sums + lanes, right);
    for (Index n = 0; n < out.columns; ++n) to[n] = (out.add ? to[n] : 0.f) + sums[n];
  }

  Index rows_, depth_;
  RowMatrix<float> parts_;  // the parts [M, part] of a, one after another
};

}  // namespace heddle::kernel
