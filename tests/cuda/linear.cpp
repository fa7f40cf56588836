// What linear layers do on the GPU beside their products: the bias's gradient, and bias and GELU in one pass.
#include <heddle/ops/linear_gelu.hpp>

#include "agree.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

template <class T>
std::vector<T> drawn(Index count, std::uint64_t seed) {
  std::vector<T> values;
  for (const double v : numbers<T>({count}, seed).host()) values.push_back(static_cast<T>(static_cast<float>(v)));
  return values;
}

template <class T>
void check_sum_rows(Index N, Index D) {
  CAPTURE(N, D);
  const auto sums = [&]<class A>(const Tensor<A>& dy) {
    Tensor<A> dbias({D}, dy.device());
    on(dy, [&](auto device) { kernel::sum_rows(device, view<2>(dy), view<1>(dbias)); });
    return joined(dbias.host());
  };
  const auto dy = numbers<T>({N, D}, 1);
  expect_close<T>(sums(converted<T>(dy, Device::cuda)), sums(dy), sums(converted<float>(dy)));
}

// z and y, which begin `shift` elements after an aligned address.
template <class T>
struct Activated {
  std::vector<T> z, y;

  Activated(const std::vector<T>& product, Index N, Index D, const std::vector<T>& bias, Index shift = 0) {
    const DeviceArray<T> z_memory(moved(product, shift)), y_memory(moved(product, shift)), bias_memory(bias);
    cudaDeviceSynchronize();  // the copies are on another stream
    kernel::bias_gelu(Cuda{}, View<const T, 1>{bias.empty() ? nullptr : bias_memory.data(), {D}},
                      View<T, 2>{z_memory.data() + shift, {N, D}}, View<T, 2>{y_memory.data() + shift, {N, D}});
    cuda::synchronize();
    z = z_memory.host();
    y = y_memory.host();
    z.erase(z.begin(), z.begin() + shift);
    y.erase(y.begin(), y.begin() + shift);
  }
  static std::vector<T> moved(const std::vector<T>& values, Index shift) {
    std::vector<T> all(static_cast<std::size_t>(shift));
    all.insert(all.end(), values.begin(), values.end());
    return all;
  }
  std::vector<double> all() const { return joined(z, y); }
};

template <class T>
void check_bias_gelu(Index N, Index D, bool has_bias, Index shift) {
  CAPTURE(N, D, has_bias, shift);
  const std::vector<T> product = drawn<T>(N * D, 1), bias = drawn<T>(has_bias ? D : 0, 2);
  const Activated<T> got(product, N, D, bias, shift);
  std::vector<double> exact, plain;
  for (std::size_t i = 0; i < product.size(); ++i) {
    const float added = has_bias ? static_cast<float>(bias[i % bias.size()]) : 0;
    const float z = static_cast<float>(T(static_cast<float>(product[i]) + added));
    REQUIRE(static_cast<float>(got.z[i]) == z);
    exact.push_back(Gelu::f(static_cast<double>(z)));
    plain.push_back(static_cast<double>(Gelu::f(z)));
  }
  expect_close<T>(joined(got.y), exact, plain);
}

template <class T>
void check_bias_gelu() {
  for (const Index N : rows_to_test())
    for (const Index D : {0, 1, 31, 33, 64}) {
      check_bias_gelu<T>(N, D, D > 0, 0);
      check_bias_gelu<T>(N, D, false, 0);
      check_bias_gelu<T>(N, D, D > 0, 1);
    }
  check_bias_gelu<T>(3, 2049, true, 0);
}

// bf16 is compared with the CPU's: what z loses by rounding is much of a GELU near 0.
template <class T, class F>
void check_layer(F&& f, const std::vector<Tensor<double>>& inputs) {
  if constexpr (std::is_same_v<T, float>) return expect_agrees<T>(f, inputs);
  const auto expected = run<T, T>(f, inputs, Device::cpu);
  expect_close<T>(run<T, T>(f, inputs, Device::cuda), expected, expected, 2);
}

template <class T>
void check_layers() {
  for (const Index N : {1, 5, 33}) {
    const auto x = numbers<T>({N, 7}, 1), weight = numbers<T>({9, 7}, 2), bias = numbers<T>({9}, 3);
    check_layer<T>([](const auto& in) { return linear(in[0], in[1], in[2]); }, {x, weight, bias});
    check_layer<T>([](const auto& in) { return linear_gelu(in[0], in[1]); }, {x, weight});
    if (std::is_same_v<T, bf16>) continue;  // the product is rounded before it receives the bias, on the CPU after
    check_layer<T>([](const auto& in) { return linear_gelu(in[0], in[1], in[2]); }, {x, weight, bias});
  }
}

}  // namespace

TEST_CASE("cuda sum_rows: float is as near to double as the CPU, and bf16 is rounded once") {
  for (const Index N : {0, 1, 31, 33, 257, 300})
    for (const Index D : {0, 1, 31, 33, 64, 257}) {
      if (emulator::races_are_watched() && N * D > 33 * 257) continue;
      check_sum_rows<float>(N, D);
      check_sum_rows<bf16>(N, D);
    }
  check_sum_rows<float>(300, 128);
  check_sum_rows<bf16>(5000, 1);
}

TEST_CASE("cuda bias_gelu: of z as it is rounded") {
  check_bias_gelu<float>();
  check_bias_gelu<bf16>();
}

TEST_CASE("cuda bias_gelu: infinities and NaN") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const Activated<float> got({infinity, -infinity, std::numeric_limits<float>::quiet_NaN(), infinity}, 1, 4,
                             {1, 1, 1, -infinity});
  CHECK(got.y[0] == infinity);
  CHECK(std::isnan(got.y[1]));  // -infinity times 0, as on the CPU
  CHECK(std::isnan(got.y[2]));
  CHECK(std::isnan(got.z[3]));
}

TEST_CASE("cuda linear and linear_gelu: values and gradients") {
  check_layers<float>();
  check_layers<bf16>();
}

TEST_CASE("cuda linear layers: schedules and what memory held before change nothing") {
  const auto check = [&]<class T>(T) {
    const std::vector<T> product = drawn<T>(33 * 65, 1), bias = drawn<T>(65, 2);
    expect_same_always([&] { return Activated<T>(product, 33, 65, bias).all(); });
    const auto dy = converted<T>(numbers<T>({300, 65}, 1), Device::cuda);
    expect_same_always([&] {
      Tensor<T> dbias({65}, Device::cuda);
      kernel::sum_rows(Cuda{}, view<2>(dy), view<1>(dbias));
      return joined(dbias.host());
    });
  };
  check(float());
  check(bf16());
}
