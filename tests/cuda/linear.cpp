// Linear layers on the GPU.
#include <heddle/ops/linear_gelu.hpp>

#include "../harness/agreement.hpp"
#include "same_always.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

template <class T>
void check_sum_rows(Index N, Index D) {
  CAPTURE(N, D);
  const auto sums = [&]<class A>(const Tensor<A>& dy) {
    Tensor<A> dbias({D}, dy.device());
    dispatch(dy, [&](auto device) { kernel::sum_rows(device, view<2>(dy), view<1>(dbias)); });
    return joined(dbias.host());
  };
  const auto dy = random<T>({N, D}, 1);
  expect_close<T>(sums(converted<T>(dy, Device::cuda)), sums(dy), sums(converted<float>(dy)));
}

// How many elements after an aligned address each operand of a product begins.
struct Shifts {
  Index a, b, bias, c;
};

// Returns a product with a bias, and the two products of its gradients, whose operands begin at shifted addresses. c is part of a wider
// matrix, of which the other columns must not change.
template <class A>
std::vector<double> shifted_products(const Shifts& by, Device device) {
  constexpr Index M = 16, N = 40, K = 24, unused = 8, stride = N + unused;
  const auto shifted = [&](Index count, Index shift, std::uint64_t seed) {
    return converted<A>(random<bf16>({count + shift}, seed), device);
  };
  const auto a = shifted(M * K, by.a, 1), b = shifted(N * K, by.b, 2), bias = shifted(N, by.bias, 3);
  auto c = shifted(M * stride, by.c, 4), da = shifted(K * N, by.c, 5), sums = shifted(K, by.bias, 6);
  const auto matrix = [](const Tensor<A>& x, Index shift, Index rows, Index width) {
    return View<const A, 2>{x.device_data() + shift, {rows, width}};
  };
  dispatch(a, [&](auto where) {
    kernel::gemm_nt_bias(where, kernel::matrix_view(matrix(a, by.a, M, K)), kernel::matrix_view(matrix(b, by.b, N, K)),
                         View<const A, 1>{std::as_const(bias).device_data() + by.bias, {N}},
                         MatrixView<A>{c.device_data() + by.c, M, N, stride});
    kernel::gemm_tn_and_sum_rows(where, matrix(a, by.a, M, K), matrix(b, by.b, M, N),
                                 View<A, 2>{da.device_data() + by.c, {K, N}},
                                 View<A, 1>{sums.device_data() + by.bias, {K}});
  });
  return joined(c.host(), da.host(), sums.host());
}

template <class T>
void check_shifted_products() {
  for (const Shifts& by : {Shifts{0, 0, 0, 0},
                           {1, 0, 0, 0},
                           {0, 1, 0, 0},
                           {0, 0, 1, 0},
                           {0, 0, 0, 1},
                           {1, 2, 3, 1},
                           {8, 8, 4, 8},
                           {4, 2, 1, 0}}) {
    CAPTURE(by.a, by.b, by.bias, by.c);
    expect_close<T>(shifted_products<T>(by, Device::cuda), shifted_products<double>(by, Device::cpu),
                    shifted_products<float>(by, Device::cpu));
  }
}

}  // namespace

TEST_CASE("cuda products: operands and a bias at addresses of any alignment") {
  check_shifted_products<float>();
  check_shifted_products<bf16>();
}

TEST_CASE("cuda sum_rows: the error is at most twice that of float on the CPU, and bf16 is rounded once") {
  for (const Index N : {0, 1, 31, 33, 257, 300})
    for (const Index D : {0, 1, 31, 33, 64, 257}) {
      if (races_are_watched() && N * D > 33 * 257) continue;
      check_sum_rows<float>(N, D);
      check_sum_rows<bf16>(N, D);
    }
  check_sum_rows<float>(300, 128);
  check_sum_rows<bf16>(5000, 1);
}

TEST_CASE("cuda sum_rows: results do not depend on schedules or garbage in memory") {
  const auto check = [&]<class T>(T) {
    const auto dy = converted<T>(random<T>({300, 65}, 1), Device::cuda);
    expect_same_always([&] {
      Tensor<T> dbias({65}, Device::cuda);
      kernel::sum_rows(Cuda{}, view<2>(dy), view<1>(dbias));
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
