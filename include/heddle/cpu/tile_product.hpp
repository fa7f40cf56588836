// Products of tiles, matrices that stay in the first-level caches. Neither operand is copied: the elements of a are
// broadcast, the rows of b are read as vectors, and the sums stay in registers. Libraries copy both operands into their
// own layout first, which takes as long as the product if there are only some ten rows.
#pragma once
#include <heddle/cpu/bf16_pairs.hpp>

namespace heddle::kernel {

// A left operand: its element (m, k) is data[m * row + k * column], so that a transposed matrix is one, too.
template <class A>
struct LeftTile {
  const A* data;
  Index rows, depth, row, column;

  LeftTile(MatrixView<const A> x) : data(x.data), rows(x.rows), depth(x.width), row(x.stride), column(1) {}
  static LeftTile transposed(MatrixView<const A> x) {
    LeftTile t(x);
    std::swap(t.rows, t.depth);
    std::swap(t.row, t.column);
    return t;
  }
};

// The product of a left operand with a matrix b whose rows are padded to whole vectors. If `of_pairs`, the elements of
// a and b are pairs of bf16: the depth counts pairs.
template <class A, bool of_pairs = false>
class TileProduct {
 public:
  // Computes c = a b factor, or c += a b, for b [a.depth, c.width]. The rows of b and c are padded to whole vectors,
  // which are read and written. Products of floats take no factor.
  static void run(LeftTile<A> a, const A* b, Index b_stride, MatrixView<A> c, Into into, A factor = 1) {
    if (a.depth == 0 && into == Into::set)
      for (Index m = 0; m < c.rows; ++m) std::fill_n(&c(m, 0), c.width, A(0));
    if (a.depth == 0 || c.rows == 0) return;  // an operand without elements may have no data
    Index n = 0;
    for (; n + most_vectors * lanes <= c.width; n += most_vectors * lanes)
      columns<most_vectors>(a, b + n, b_stride, c, n, into, factor);
    if constexpr (most_vectors > 2)
      if (c.width - n > lanes) {
        columns<2>(a, b + n, b_stride, c, n, into, factor);
        n += 2 * lanes;
      }
    for (; n < c.width; n += lanes) columns<1>(a, b + n, b_stride, c, n, into, factor);
  }

 private:
  static constexpr Index lanes = packet_lanes<A>;
  static constexpr bool many_registers = sizeof(Packet<A>) == 64;  // AVX-512 has 32 of them, others have 16 or more
  static constexpr int most_vectors = many_registers ? 4 : 2;
  static constexpr int most_rows = 6;

  // Computes `vectors` vectors of columns of c, from column n on.
  template <int vectors>
  static void columns(LeftTile<A> a, const A* b, Index b_stride, MatrixView<A> c, Index n, Into into, A factor) {
    // One vector of columns leaves registers for more rows, and needs them: a sum takes a product every four cycles.
    constexpr int rows = vectors == 1 ? 2 * most_rows : most_rows;
    Index m = 0;
    const auto at = [&](Index first) { return a.data + first * a.row; };
    for (; m + rows <= a.rows; m += rows) block<rows, vectors>(at(m), a, b, b_stride, &c(m, n), c.stride, into, factor);
    for (; m + 4 <= a.rows; m += 4) block<4, vectors>(at(m), a, b, b_stride, &c(m, n), c.stride, into, factor);
    for (; m < a.rows; ++m) block<1, vectors>(at(m), a, b, b_stride, &c(m, n), c.stride, into, factor);
  }

  template <int rows, int vectors>
  [[gnu::noinline, gnu::flatten]] static void block(const A* x, const LeftTile<A>& a, const A* b, Index b_stride, A* c,
                                                    Index c_stride, Into into, [[maybe_unused]] A factor) {
    using namespace Eigen::internal;
    Packet<A> sums[unsigned{rows}][unsigned{vectors}];
    unrolled<rows>([&](auto r) { unrolled<vectors>([&](auto v) { sums[r][v] = pset1<Packet<A>>(A(0)); }); });
    const Index row = a.row, column = a.column;
    for (Index k = a.depth; k > 0; --k) {
      Packet<A> of_b[unsigned{vectors}];
      unrolled<vectors>([&](auto v) { of_b[v] = ploadu<Packet<A>>(b + v * lanes); });
      unrolled<rows>([&](auto r) {
        const Packet<A> value = pset1<Packet<A>>(x[r * row]);
        unrolled<vectors>([&](auto v) {
          if constexpr (of_pairs)
            sums[r][v] = add_products_of_pairs(value, of_b[v], sums[r][v]);
          else
            sums[r][v] = pmadd(value, of_b[v], sums[r][v]);
        });
      });
      x += column;
      b += b_stride;
    }
    unrolled<rows>([&](auto r) {
      unrolled<vectors>([&](auto v) {
        A* const to = c + r * c_stride + v * lanes;
        if constexpr (of_pairs) sums[r][v] = pmul(sums[r][v], pset1<Packet<A>>(factor));
        pstoreu(to, into == Into::add ? padd(ploadu<Packet<A>>(to), sums[r][v]) : sums[r][v]);
      });
    });
  }
};

}  // namespace heddle::kernel
