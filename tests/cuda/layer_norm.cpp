// The CUDA kernels of layer_norm against double, and against themselves with other schedules and other garbage in memory.
#include <heddle/cuda.hpp>
#include <heddle/ops/layer_norm.hpp>

#include "../catch.hpp"
#include "../gradcheck.hpp"
#include "compare.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

// What one backend computes of the same numbers: y, dx, dgamma and dbeta, one after another.
template <class T>
struct Operands {
  Index N, D;
  std::vector<T> x, gamma, beta, dy;

  Operands(Index rows, Index columns)
      : N(rows), D(columns), x(numbers(N * D, 1)), gamma(numbers(D, 2)), beta(numbers(D, 3)), dy(numbers(N * D, 4)) {}
  static std::vector<T> numbers(Index count, std::uint64_t seed) {
    const auto drawn = random({count}, seed);
    std::vector<T> values;
    for (Index i = 0; i < count; ++i) values.push_back(T(static_cast<float>(drawn.data()[i])));
    return values;
  }
};

template <class T>
std::vector<double> on_gpu(const Operands<T>& in) {
  const DeviceArray x(in.x), gamma(in.gamma), beta(in.beta), dy(in.dy);
  const DeviceArray<T> y(in.x.size()), dx(in.x.size()), dgamma(in.gamma.size()), dbeta(in.gamma.size());
  const DeviceArray<float> mean(static_cast<std::size_t>(in.N)), rstd(static_cast<std::size_t>(in.N));
  const auto rows = [&]<class U>(U* data) { return View<U, 2>{data, {in.N, in.D}}; };
  const auto row = [&]<class U>(U* data) { return View<U, 1>{data, {in.D}}; };
  const auto read = [](const auto& a) { return static_cast<const T*>(a.data()); };
  const View<float, 1> m{mean.data(), {in.N}}, r{rstd.data(), {in.N}};
  cudaDeviceSynchronize();  // the copies are on another stream
  kernel::layer_norm(Cuda{}, rows(read(x)), row(read(gamma)), row(read(beta)), 1e-5, rows(y.data()), m, r);
  kernel::layer_norm_backward(Cuda{}, rows(read(dy)), rows(read(x)), row(read(gamma)),
                              View<const float, 1>{m.data, {in.N}}, View<const float, 1>{r.data, {in.N}},
                              rows(dx.data()), row(dgamma.data()), row(dbeta.data()));
  cuda::synchronize();
  return joined(y.host(), dx.host(), dgamma.host(), dbeta.host());
}

// The CPU's kernels in A: double is the reference, float the plain computation.
template <class A, class T>
std::vector<double> on_cpu(const Operands<T>& in) {
  const auto tensor = [&](const std::vector<T>& values, Shape shape) {
    std::vector<A> wide;
    for (const T value : values) wide.push_back(static_cast<A>(static_cast<float>(value)));
    return Tensor<A>(shape, wide);
  };
  const auto x = variable(tensor(in.x, {in.N, in.D})), gamma = variable(tensor(in.gamma, {in.D})),
             beta = variable(tensor(in.beta, {in.D}));
  const auto y = layer_norm(x, gamma, beta, 1e-5);
  backward(y, tensor(in.dy, {in.N, in.D}));
  return joined(y.host(), x.grad().host(), gamma.grad().host(), beta.grad().host());
}

template <class T>
void check_shape(Index N, Index D) {
  CAPTURE(N, D);
  const Operands<T> in(N, D);
  const auto exact = on_cpu<double>(in), plain = on_cpu<float>(in);
  expect_close<T>(on_gpu(in), exact, plain);
}

}  // namespace

TEST_CASE("cuda layer_norm: float is as near to double as a plain computation in float, twice over") {
  for (const Index N : rows_to_test())
    for (const Index D : {1, 31, 33, 64, 257, 768, 1024, 1025, 1300}) check_shape<float>(N, D);
}

TEST_CASE("cuda layer_norm: bf16 is rounded once") {
  for (const Index N : rows_to_test())
    for (const Index D : {1, 33, 768, 1025}) check_shape<bf16>(N, D);
}

TEST_CASE("cuda layer_norm: no width, no result") { CHECK(on_gpu(Operands<float>(3, 0)).empty()); }

TEST_CASE("cuda layer_norm: schedules and what memory held before change nothing") {
  for (const Index D : {33, 1025}) {
    const Operands<float> in(33, D);
    expect_same_always([&] { return on_gpu(in); });
  }
}
