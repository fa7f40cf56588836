// Compares the recorded backward with central differences, in double, for every element of every input.
#pragma once
#include <functional>

#include <heddle/autograd.hpp>
#include <heddle/random.hpp>

#include "catch.hpp"

namespace heddle::testing {

using Inputs = std::vector<Tensor<double>>;

inline Tensor<double> random(Shape shape, std::uint64_t seed) {
  Random generator(seed);
  return randn<double>(shape, generator);
}

// f maps the inputs to a tensor. Its elements are weighted with fixed random numbers, so that no term can cancel.
inline void expect_gradients(const std::function<Tensor<double>(const Inputs&)>& f, Inputs at,
                             double tolerance = 1e-7) {
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

}  // namespace heddle::testing
