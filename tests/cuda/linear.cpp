// Linear layers on the GPU.
#include <cstdlib>
#include <heddle/ops/arithmetic.hpp>
#include <heddle/ops/linear_gelu.hpp>
#include <heddle/ops/matmul.hpp>
#include <string_view>

#include "../harness/agreement.hpp"
#include "same_always.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

// E is the type of the sums.
template <class T, class E = T>
void check_column_sums(Index N, Index D) {
  CAPTURE(N, D);
  const auto sums = [&]<class A, class B>(const Tensor<A>& dy, B) {
    Tensor<B> dbias({D}, dy.device());
    dispatch(dy, [&](auto device) { kernel::column_sums(device, view<2>(dy), view<1>(dbias)); });
    return joined(dbias.host());
  };
  const auto dy = random<T>({N, D}, 1);
  expect_close<E>(sums(converted<T>(dy, Device::cuda), E()), sums(dy, double()), sums(converted<float>(dy), float()));
}

// How many elements after an aligned address each operand of a product begins, and how many columns on the right of
// each matrix are unused.
struct Placement {
  Index a, b, bias, c, unused = 0;
};

// Returns products whose operands are placed so: with a bias, plain, and with row sums. The gradients of b and of the
// bias are in E. The unused columns of c must not change.
template <class A, class E = A>
std::vector<double> placed_products(const Placement& at, Device device) {
  constexpr Index M = 16, N = 40, K = 24;
  const auto drawn = [&]<class T>(T, Index rows, Index width, Index shift, std::uint64_t seed) {
    return converted<T>(random<bf16>({shift + rows * (width + at.unused)}, seed), device);
  };
  const auto a = drawn(A(), M, K, at.a, 1), b = drawn(A(), N, K, at.b, 2), bias = drawn(A(), 1, N, at.bias, 3),
             d = drawn(A(), M, N, at.b, 4);
  auto c = drawn(A(), M, N, at.c, 5), da = drawn(A(), M, K, at.c, 6);
  auto db = drawn(E(), N, K, at.c, 7), sums = drawn(E(), 1, N, at.bias, 8);
  const auto matrix = [&](auto data, Index shift, Index rows, Index width) {
    return MatrixView<std::remove_pointer_t<decltype(data)>>{data + shift, rows, width, width + at.unused};
  };
  const auto read = [&](const Tensor<A>& x, Index shift, Index rows, Index width) {
    return matrix(x.device_data(), shift, rows, width);
  };
  dispatch(a, [&](auto where) {
    using namespace kernel;
    gemm_nt_bias(where, read(a, at.a, M, K), read(b, at.b, N, K), {std::as_const(bias).device_data() + at.bias, {N}},
                 matrix(c.device_data(), at.c, M, N));
    gemm_nn(where, read(d, at.b, M, N), read(b, at.b, N, K), matrix(da.device_data(), at.c, M, K));
    gemm_tn(where, read(d, at.b, M, N), read(a, at.a, M, K), matrix(db.device_data(), at.c, N, K));
    if (at.unused == 0)
      gemm_tn_and_column_sums(
          where, View<const A, 2>{d.device_data() + at.b, {M, N}}, View<const A, 2>{a.device_data() + at.a, {M, K}},
          View<E, 2>{db.device_data() + at.c, {N, K}}, View<E, 1>{sums.device_data() + at.bias, {N}});
  });
  return joined(c.host(), da.host(), db.host(), sums.host());
}

// Returns whether the PTX interpreter's cuBLASLt computes no bias: a Hopper GPU then rounds the product before it adds
// the bias.
bool lacks_epilogues() {
  const char* const refused = std::getenv("PTX_REFUSE");
  return std::getenv("PTX_NO_EPILOGUE") || (refused && std::string_view(refused) == "epilogue");
}

// E is the type of the gradients of b and of the bias.
template <class T, class E = T>
void check_placed_products() {
  const bool rounds_twice = std::is_same_v<T, bf16> && lacks_epilogues();
  const PlainErrors accepted{.last_bits = rounds_twice ? 0x1p-9 / 0x1p-23 : 1};
  for (const Placement& at : {Placement{0, 0, 0, 0},
                              {1, 0, 0, 0},
                              {0, 1, 0, 0},
                              {0, 0, 1, 0},
                              {0, 0, 0, 1},
                              {1, 2, 3, 1},
                              {8, 8, 4, 8},
                              {4, 2, 1, 0},
                              {0, 0, 0, 0, 8},
                              {0, 0, 0, 0, 3},
                              {8, 8, 8, 8, 16},
                              {1, 3, 1, 2, 5}}) {
    CAPTURE(at.a, at.b, at.bias, at.c, at.unused);
    expect_close<T>(placed_products<T, E>(at, Device::cuda), placed_products<double>(at, Device::cpu),
                    placed_products<float>(at, Device::cpu), accepted);
  }
}

}  // namespace

TEST_CASE("cuda products: operands and a bias at addresses of any alignment, with and without unused columns") {
  check_placed_products<float>();
  check_placed_products<bf16>();
  check_placed_products<bf16, float>();
}

TEMPLATE_TEST_CASE("cuda products: batches of matrices, some of them shared", "", float, bf16) {
  // The gradient of a shared matrix is a sum of at most three products, each of which is rounded to bf16, to half of
  // its last bit.
  const PlainErrors accepted{.last_bits = std::is_same_v<TestType, bf16> ? 3 * 0x1p-9 / 0x1p-23 : 1};
  const auto check = [&](const Shape& a, const Shape& b, MatmulOptions options) {
    CAPTURE(a, b, options.transpose_a, options.transpose_b);
    expect_agrees<TestType>([&](const auto& in) { return matmul(in[0], in[1], options); },
                            {random<TestType>(a, 1), random<TestType>(b, 2)}, accepted);
  };
  check({2, 3, 5, 7}, {2, 3, 7, 4}, {});
  check({3, 5, 7}, {7, 4}, {});
  check({5, 7}, {3, 7, 4}, {});
  check({3, 7, 5}, {3, 7, 4}, {.transpose_a = true});
  check({2, 1, 5, 7}, {1, 3, 4, 7}, {.transpose_b = true});
}

TEMPLATE_TEST_CASE("cuda products: no rows, no columns, or nothing to add", "", float, bf16) {
  const auto check = [](const Shape& a, const Shape& b) {
    CAPTURE(a, b);
    expect_agrees<TestType>([](const auto& in) { return matmul(in[0], in[1]) + 1; },
                            {random<TestType>(a, 1), random<TestType>(b, 2)});
  };
  check({2, 3, 0}, {2, 0, 4});
  check({2, 0, 3}, {2, 3, 4});
  check({2, 3, 5}, {2, 5, 0});
  const Inputs inputs{random<TestType>({3, 0}, 1), random<TestType>({4, 0}, 2), random<TestType>({4}, 3)};
  expect_agrees<TestType>([](const auto& in) { return linear(in[0], in[1], in[2]); }, inputs);
}

TEST_CASE("cuda products: full fp32 after products of the same shape in TF32") {
  const Inputs inputs{random<float>({21, 43}, 1), random<float>({17, 43}, 2)};
  const auto product = [](const auto& in) { return linear(in[0], in[1]); };
  cuda::allow_tf32(true);
  evaluate<float>(product, inputs, Device::cuda);
  cuda::allow_tf32(false);
  expect_agrees<float>(product, inputs);
}

TEST_CASE("cuda column_sums: the error is at most twice that of float on the CPU, and bf16 is rounded once") {
  for (const Index N : {0, 1, 31, 33, 257, 300})
    for (const Index D : {0, 1, 31, 33, 64, 257}) {
      if (races_are_watched() && N * D > 33 * 257) continue;
      check_column_sums<float>(N, D);
      check_column_sums<bf16>(N, D);
      check_column_sums<bf16, float>(N, D);
    }
  check_column_sums<float>(300, 128);
  check_column_sums<bf16>(5000, 1);
}

TEST_CASE("cuda column_sums: results do not depend on schedules or garbage in memory") {
  const auto check = [&]<class T>(T) {
    const auto dy = converted<T>(random<T>({300, 65}, 1), Device::cuda);
    expect_same_always([&] {
      Tensor<T> dbias({65}, Device::cuda);
      kernel::column_sums(Cuda{}, view<2>(dy), view<1>(dbias));
      return joined(dbias.host());
    });
  };
  check(float());
  check(bf16());
}

TEMPLATE_TEST_CASE("cuda linear_gelu: results do not depend on schedules or garbage in memory", "", float, bf16) {
  const auto x = random<TestType>({33, 7}, 1), weight = random<TestType>({9, 7}, 2), bias = random<TestType>({9}, 3);
  expect_same_always<TestType>([](const auto& in) { return linear_gelu(in[0], in[1], in[2]); }, {x, weight, bias});
  expect_same_always<TestType>([](const auto& in) { return linear_gelu(in[0], in[1]); }, {x, weight});
}
