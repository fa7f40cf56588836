#include <heddle/cpu/tile_product.hpp>

#include <vector>

#include "catch.hpp"

using namespace heddle;
using heddle::kernel::Into;
using heddle::kernel::LeftTile;
using heddle::kernel::TileProduct;

namespace {

// A matrix of whole numbers, whose products are exact, with rows of whole vectors and one vector more.
template <class A>
struct Numbers {
  Index rows, width, stride;
  std::vector<A> data;

  Numbers(Index r, Index w, int seed) : rows(r), width(w), stride((w + 15) / 16 * 16 + 16) {
    for (Index i = 0; i < r * stride; ++i) data.push_back(static_cast<A>((i * 37 + seed * 11) % 23 - 11));
  }
  A operator()(Index n, Index d) const { return data[static_cast<std::size_t>(n * stride + d)]; }
  MatrixView<const A> view() const { return {data.data(), rows, width, stride}; }
  MatrixView<A> view() { return {data.data(), rows, width, stride}; }
};

template <class A>
void check_product(Index M, Index N, Index K, bool is_transposed, Into into) {
  CAPTURE(M, N, K, is_transposed, into == Into::add);
  const Numbers<A> a(is_transposed ? K : M, is_transposed ? M : K, 1), b(K, N, 2), before(M, N, 3);
  Numbers<A> c = before;
  const LeftTile<A> left = is_transposed ? LeftTile<A>::transposed(a.view()) : LeftTile<A>(a.view());
  TileProduct<A>::run(left, b.data.data(), b.stride, c.view(), into);
  for (Index m = 0; m < M; ++m)
    for (Index n = 0; n < c.stride; ++n) {
      A sum = into == Into::add ? before(m, n) : A(0);
      for (Index k = 0; k < K; ++k) sum += (is_transposed ? a(k, m) : a(m, k)) * b(k, n);
      if (n < N && c(m, n) != sum) FAIL("c(" << m << ", " << n << ") is " << c(m, n) << " instead of " << sum);
      if (n >= (N + 15) / 16 * 16 && c(m, n) != before(m, n)) FAIL("the vector after row " << m << " is written");
    }
}

}  // namespace

TEMPLATE_TEST_CASE("tile_product: every size, transposed or not", "", float, double) {
  for (const Index M : {0, 1, 3, 4, 5, 6, 11, 12, 13, 31, 64})
    for (const Index N : {1, 7, 8, 16, 17, 31, 33, 48, 64, 65, 128})
      for (const Index K : {0, 1, 5, 31, 64})
        for (const bool is_transposed : {false, true})
          for (const Into into : {Into::set, Into::add}) check_product<TestType>(M, N, K, is_transposed, into);
}

TEMPLATE_TEST_CASE("tile_product: rows are transposed into a panel", "", float, double) {
  for (const Index rows : {1, 15, 31, 63, 64})
    for (const Index width : {1, 7, 16, 33, 64}) {
      const Numbers<TestType> x(rows, width, 1);
      std::vector<TestType> panel(static_cast<std::size_t>(width * 64), TestType(99));
      kernel::transpose_rows(x.view(), 64, panel.data());
      for (Index d = 0; d < width; ++d)
        for (Index n = 0; n < 64; ++n)
          REQUIRE(panel[static_cast<std::size_t>(d * 64 + n)] == (n < rows ? x(n, d) : TestType(0)));
    }
}

namespace {

// Returns the values of x as bf16, whole numbers being exact.
std::vector<bf16> as_bf16(const Numbers<float>& x) {
  std::vector<bf16> y;
  for (const float v : x.data) y.push_back(bf16(v));
  return y;
}
bf16 half_of(float pair, Index which) {
  bf16 half;
  half.bits = static_cast<std::uint16_t>(__builtin_bit_cast(std::uint32_t, pair) >> 16 * which);
  return half;
}

}  // namespace

TEST_CASE("bf16_pairs: neighbors in a row or a column, with 0 after the last one of an odd number") {
  for (const Index rows : {1, 2, 5})
    for (const Index width : {1, 2, 15, 16, 17, 33}) {
      CAPTURE(rows, width);
      Numbers<float> x(rows, width, 4);
      for (Index n = 0; n < rows; ++n)  // the padding of a tile of weights
        for (Index d = width; d < x.stride; ++d) x.data[static_cast<std::size_t>(n * x.stride + d)] = 0;
      const std::vector<bf16> halves = as_bf16(x);
      const MatrixView<const bf16> narrow{halves.data(), rows, width, x.stride};
      for (const bool from_float : {false, true}) {
        Numbers<float> columns(rows, x.stride, 5), in_pairs(rows, x.stride, 5);
        if (from_float) {
          kernel::pair_columns(std::as_const(x).view(), columns.view());
          kernel::pair_rows(std::as_const(x).view(), in_pairs.view());
        } else {
          kernel::pair_columns(narrow, columns.view());
          kernel::pair_rows(narrow, in_pairs.view());
        }
        for (Index n = 0; n < rows; ++n)
          for (Index d = 0; d < width + width % 2; ++d)
            if (half_of(columns(n, d / 2), d % 2) != (d < width ? x(n, d) : 0)) FAIL("row " << n << ", column " << d);
        for (Index n = 0; n < rows + rows % 2; ++n)
          for (Index d = 0; d < width; ++d)
            if (half_of(in_pairs(n / 2, d), n % 2) != (n < rows ? x(n, d) : 0)) FAIL("row " << n << ", column " << d);
      }
    }
}

#if defined(__AVX512BF16__)
TEST_CASE("tile_product: pairs of bf16 at every size, transposed or not, with a factor") {
  for (const Index M : {0, 1, 4, 6, 13, 31, 64})
    for (const Index N : {1, 16, 17, 48, 64, 128})
      for (const Index K : {0, 1, 2, 5, 64})
        for (const bool is_transposed : {false, true}) {
          CAPTURE(M, N, K, is_transposed);
          const Numbers<float> a(M, K, 1), b(K, N, 2);
          Numbers<float> b_pairs(kernel::pairs(K), N, 0), c(M, N, 3), left(M, K + 1, 0);
          kernel::pair_rows(b.view(), b_pairs.view());
          Numbers<float> transposed(K, M, 0), of_columns(kernel::pairs(K), M, 0);
          for (Index k = 0; k < K; ++k)
            for (Index m = 0; m < M; ++m)
              transposed.data[static_cast<std::size_t>(k * transposed.stride + m)] = a(m, k);
          kernel::pair_rows(std::as_const(transposed).view(), of_columns.view());
          const std::vector<bf16> halves = as_bf16(a);
          MatrixView<float> of_rows = left.view();
          of_rows.width = kernel::pairs(K);
          kernel::pair_columns(MatrixView<const bf16>{halves.data(), M, K, a.stride}, of_rows);
          TileProduct<float, true>::run(is_transposed ? LeftTile<float>::transposed(std::as_const(of_columns).view())
                                                      : LeftTile<float>(kernel::as_const(of_rows)),
                                        b_pairs.data.data(), b_pairs.stride, c.view(), Into::set, 0.5f);
          for (Index m = 0; m < M; ++m)
            for (Index n = 0; n < N; ++n) {
              float sum = 0;
              for (Index k = 0; k < K; ++k) sum += a(m, k) * b(k, n);
              if (c(m, n) != sum / 2) FAIL("c(" << m << ", " << n << ") is " << c(m, n) << " instead of " << sum / 2);
            }
        }
}
#endif
