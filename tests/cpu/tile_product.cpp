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
