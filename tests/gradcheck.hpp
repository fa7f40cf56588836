// Compares the recorded backward with central differences, in double, for every element of every input; and where a function
// takes floats as well, that of the GPU with the one of double.
#pragma once
#include <functional>

#include <heddle/autograd/backward.hpp>
#include <heddle/base/random.hpp>

#include "catch.hpp"

namespace heddle::testing {

using Inputs = std::vector<Tensor<double>>;

inline Tensor<double> random(Shape shape, std::uint64_t seed) {
  Random generator(seed);
  return randn<double>(shape, generator);
}

// f maps the inputs to a tensor. Its elements are weighted with fixed random numbers, so that no term can cancel.
inline void expect_numeric_gradients(const std::function<Tensor<double>(const Inputs&)>& f, Inputs at,
                                     double tolerance) {
  for (auto& x : at) x = variable(Tensor<double>(x.shape(), x.host()));
  const Tensor<double> y = f(at), dy = random(y.shape(), 7);
  if (y.requires_grad()) backward(y, dy);
  const auto objective = [&] {
    const NoGrad quiet;
    const auto values = f(at).host(), weights = dy.host();
    double sum = 0;
    for (std::size_t i = 0; i < values.size(); ++i) sum += values[i] * weights[i];
    return sum;
  };
  for (std::size_t n = 0; n < at.size(); ++n) {
    const Tensor<double> gradient = at[n].grad();
    for (Index i = 0; i < at[n].size(); ++i) {
      double& x = at[n].data()[i];
      const double before = x, h = 1e-5;
      x = before + h;
      const double up = objective();
      x = before - h;
      const double down = objective();
      x = before;
      const double expected = (up - down) / (2 * h), actual = gradient ? gradient.data()[i] : 0;
      CAPTURE(n, i, expected, actual);
      REQUIRE(std::abs(actual - expected) <= tolerance * std::max(1.0, std::abs(expected)));
    }
  }
}

// y and the gradients of the inputs, in T.
template <class T, class F>
std::vector<Tensor<T>> gradients_of(const F& f, const Inputs& inputs, Device device) {
  const auto converted = [&](const Tensor<double>& x) {
    const std::vector<double> values = x.host();
    return Tensor<T>(x.shape(), std::vector<T>(values.begin(), values.end())).to(device);
  };
  std::vector<Tensor<T>> at;
  for (const auto& x : inputs) at.push_back(variable(converted(x)));
  std::vector<Tensor<T>> all{f(at)};
  if (all[0].requires_grad()) backward(all[0], converted(random(all[0].shape(), 7)));
  for (const auto& x : at) all.push_back(x.grad());
  return all;
}
template <class F>
void expect_same_on_gpu(const F& f, const Inputs& inputs) {
  constexpr double tolerance = 2e-5;  // of the largest value: some hundred roundings
  const auto expected = gradients_of<double>(f, inputs, Device::cpu);
  const auto actual = gradients_of<float>(f, inputs, Device::cuda);
  for (std::size_t n = 0; n < expected.size(); ++n) {
    REQUIRE(static_cast<bool>(actual[n]) == static_cast<bool>(expected[n]));
    if (!expected[n]) continue;
    const auto e = expected[n].host();
    const auto a = actual[n].host();
    double scale = 1;
    for (const double value : e) scale = std::max(scale, std::abs(value));
    for (std::size_t i = 0; i < e.size(); ++i) {
      CAPTURE(n, i, e[i], a[i]);
      REQUIRE(std::abs(static_cast<double>(a[i]) - e[i]) <= tolerance * scale);
    }
  }
}

template <class F>
void expect_gradients(const F& f, const Inputs& at, double tolerance = 1e-7) {
  expect_numeric_gradients(f, at, tolerance);
#ifdef HEDDLE_CUDA
  if constexpr (std::is_invocable_v<const F&, const std::vector<Tensor<float>>&>) expect_same_on_gpu(f, at);
#endif
}

}  // namespace heddle::testing
