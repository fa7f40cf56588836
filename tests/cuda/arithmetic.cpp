// Tests the CUDA kernels of arithmetic, maximum, minimum, pow and clamp, and the addition of gradients.
#include <heddle/ops/arithmetic.hpp>
#include <heddle/ops/maximum.hpp>
#include <heddle/ops/pow.hpp>

#include "../harness/agreement.hpp"
#include "device_array.hpp"
#include "same_always.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

// Returns random values of magnitude 0.5 or more, so that quotients have similar magnitudes.
template <class T>
Tensor<double> factors(const Shape& shape, std::uint64_t seed) {
  Tensor<double> x = random<T>(shape, seed);
  for (Index i = 0; i < x.size(); ++i) x.data()[i] += x.data()[i] < 0 ? -0.5 : 0.5;
  return rounded<T>(x);
}

// Returns pairs of shapes: equal ones, and operands that are broadcast along rows, columns, middle axes or all axes;
// with and without whole vectors.
std::vector<std::pair<Shape, Shape>> shapes() {
  std::vector<std::pair<Shape, Shape>> all{{{0}, {0}},
                                           {{}, {}},
                                           {{257}, {257}},
                                           {{3, 64}, {64}},
                                           {{33}, {31, 33}},
                                           {{5, 1}, {5, 24}},
                                           {{31, 33}, {31, 1}},
                                           {{2, 3, 5, 16}, {2, 1, 1, 16}},
                                           {{4, 1}, {1, 7}},
                                           {{1, 8}, {33, 1}},
                                           {{2, 1, 5, 1}, {3, 1, 7}},
                                           {{5, 16}, {}},
                                           {{1, 1}, {257}},
                                           {{2, 1, 2, 1, 2, 1, 2}, {1, 2, 1, 2, 1, 2, 1}}};
  if (races_are_watched()) return all;
  for (const Index size : {2048, 2049, 4097, 9001}) all.push_back({{size}, {size}});
  all.push_back({{3, 2056}, {2056}});
  all.push_back({{3, 2057}, {3, 1}});
  return all;
}

template <class T, class F>
void check(F&& f) {
  for (const auto& [a, b] : shapes()) {
    CAPTURE(a, b);
    expect_agrees<T>([&](const auto& in) { return f(in[0], in[1]); }, {factors<T>(a, 1), factors<T>(b, 2)});
  }
}

// In bf16 the gradient of a divisor is computed from a rounded quotient. Therefore results are compared with the CPU's
// in bf16, and may differ by two roundings.
void check_quotient_in_bf16() {
  for (const auto& [a, b] : shapes()) {
    CAPTURE(a, b);
    const Inputs inputs{factors<bf16>(a, 1), factors<bf16>(b, 2)};
    const auto f = [](const auto& in) { return in[0] / in[1]; };
    expect_agrees_with_cpu<bf16>(f, inputs, 2);
  }
}

template <class T, class F>
void check_number(F&& f, double roundings) {
  for (const Index size : {0, 1, 31, 33, 257, 2049, 4099}) {
    CAPTURE(size);
    expect_agrees<T>([&](const auto& in) { return f(in[0]); }, {factors<T>({size}, 3)}, {.roundings = roundings});
  }
}

template <class T>
void check_all() {
  check<T>([](const auto& a, const auto& b) { return a + b; });
  check<T>([](const auto& a, const auto& b) { return a - b; });
  check<T>([](const auto& a, const auto& b) { return a * b; });
}

// `roundings` is the number of roundings that are accepted in 2.5 / x, whose gradient is computed from a rounded
// quotient.
template <class T>
void check_numbers(double roundings) {
  check_number<T>([](const auto& x) { return x + 2.5; }, 1);
  check_number<T>([](const auto& x) { return x - 2.5; }, 1);
  check_number<T>([](const auto& x) { return x * -0.75; }, 1);
  check_number<T>([](const auto& x) { return x / 3.; }, 1);
  check_number<T>([](const auto& x) { return 2.5 - x; }, 1);
  check_number<T>([](const auto& x) { return 2.5 / x; }, roundings);
  check_number<T>([](const auto& x) { return -x; }, 1);
}

// Checks that the kernels of mixed operand types, which only gradients use, give the same values as the CPU's.
template <class F, class Y, class A, class B>
void check_mixed() {
  for (const auto& [a_shape, b_shape] : shapes()) {
    CAPTURE(a_shape, b_shape);
    const auto a = converted<A>(factors<A>(a_shape, 4));
    const auto b = converted<B>(factors<B>(b_shape, 5));
    const auto expected = detail::combine<F, Y>("combine", a, b);
    const auto got = detail::combine<F, Y>("combine", a.to(Device::cuda), b.to(Device::cuda));
    REQUIRE((joined(got.host()) == joined(expected.host())));
  }
}

}  // namespace

// CUDA's powf is off by up to four last bits and its logf by one, and the gradient of an exponent sums their product.
// The error of float on the CPU may be far smaller; it depends on the processor.
constexpr PlainErrors power_errors{.last_bits = 4 + 1, .roundings = 2};

TEST_CASE("cuda arithmetic: maximum, minimum, clamp and powers of positive numbers agree with double") {
  const auto check_both = []<class T>(T) {
    check<T>([](const auto& a, const auto& b) { return maximum(a, b); });
    check<T>([](const auto& a, const auto& b) { return minimum(a, b); });
    for (const auto& [a, b] : shapes()) {
      CAPTURE(a, b);
      const Inputs inputs{rounded<T>(abs(factors<T>(a, 1))), factors<T>(b, 2)};
      expect_agrees<T>([](const auto& in) { return pow(in[0], in[1]); }, inputs, power_errors);
    }
  };
  check_both(float());
  check_both(bf16());
  const Tensor<double> x = abs(factors<float>({4097}, 1));
  expect_agrees<float>([](const auto& in) { return pow(in[0], 1.5) + pow(1.5, in[0]); }, {x});
  expect_agrees<float>([](const auto& in) { return clamp(in[0], {.min = 0.75, .max = 1.5}); }, {x});
}

TEST_CASE("cuda arithmetic: two tensors of floats, with broadcasting") {
  check_all<float>();
  check<float>([](const auto& a, const auto& b) { return a / b; });
}
TEST_CASE("cuda arithmetic: two tensors of bf16, with broadcasting") {
  check_all<bf16>();
  check_quotient_in_bf16();
}
TEST_CASE("cuda arithmetic: a tensor of floats and a number") { check_numbers<float>(1); }
TEST_CASE("cuda arithmetic: a tensor of bf16 and a number") { check_numbers<bf16>(3); }

TEST_CASE("cuda arithmetic: a number is not rounded to the type of the tensor") {
  const auto x = converted<bf16>(factors<bf16>({257}, 3));
  const auto there = x.to(Device::cuda);
  CHECK((joined((there + 0.1).host()) == joined((x + 0.1).host())));
  CHECK((joined((there * 0.1).host()) == joined((x * 0.1).host())));
}

TEST_CASE("cuda arithmetic: results of mixed types have the CPU's values") {
  check_mixed<kernel::Mul, float, bf16, bf16>();
  check_mixed<kernel::Div, float, bf16, bf16>();
  check_mixed<kernel::Mul, float, float, bf16>();
  check_mixed<kernel::Mul, bf16, float, bf16>();
}

TEST_CASE("cuda add: adds two gradients at any alignment") {
  for (const Index size : {0, 1, 33, 2047, 4099})
    for (const std::size_t shift : {0u, 1u}) {
      std::vector<float> a, b;
      for (Index i = 0; i < size + 1; ++i) {
        a.push_back(static_cast<float>(i));
        b.push_back(static_cast<float>(-2 * i));
      }
      const DeviceArray<float> a_there(a), b_there(b), y(a.size() + 1);
      cudaDeviceSynchronize();  // copies are on another stream
      kernel::add(Cuda{}, View<const float, 1>{a_there.data() + shift, {size}},
                  View<const float, 1>{b_there.data(), {size}}, View<float, 1>{y.data() + shift, {size}});
      cuda::synchronize();
      const std::vector<float> got = y.host();
      for (std::size_t i = 0; i < static_cast<std::size_t>(size); ++i) REQUIRE(got[i + shift] == a[i + shift] + b[i]);
    }
}

TEST_CASE("cuda arithmetic: results do not depend on the schedule") {
  const auto f = [](const auto& in) { return in[0] / in[1] + in[0] * 2; };
  expect_same_always<float>(f, {factors<float>({33, 16}, 1), factors<float>({16}, 2)});
  expect_same_always<bf16>(f, {factors<bf16>({7, 1}, 1), factors<bf16>({7, 33}, 2)});
}
