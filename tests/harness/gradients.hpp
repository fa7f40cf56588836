// Compares the recorded backward with central differences, in double, for every element of every input; under
// sanitizers, for some elements of each input unless is_exhaustive(). If a function takes floats as well, y and its
// gradients in float on every device are compared with those in double.
#pragma once
#include <functional>

#include "compare.hpp"
#include "devices.hpp"

namespace heddle::testing {

/// Compares a gradient, which is empty if it is zero, with the derivatives of sum(f(at) * dy) with respect to the
/// elements of `x`. f must read the memory of `x`, which is a tensor of `at` or a parameter.
template <class F, class Tolerance>
void expect_central_differences(const std::vector<double>& gradient, const F& f, const Inputs& at, Tensor<double> x,
                                const std::vector<double>& dy, Tolerance tolerance) {
  const NoGrad quiet;
  const auto objective = [&] {
    const auto values = f(at).host();
    double sum = 0;
    for (std::size_t i = 0; i < values.size(); ++i) sum += values[i] * dy[i];
    return sum;
  };
  REQUIRE((gradient.empty() || gradient.size() == static_cast<std::size_t>(x.size())));
  const Index step = is_exhaustive() ? 1 : x.size() / 16 | 1;  // odd, so that the columns take turns
  std::vector<double> actual, expected;
  for (Index i = 0; i < x.size(); i += step) {
    double& element = x.data()[i];
    const double before = element, h = 1e-5;
    element = before + h;
    const double up = objective();
    element = before - h;
    const double down = objective();
    element = before;
    expected.push_back((up - down) / (2 * h));
    REQUIRE(std::isfinite(expected.back()));
    actual.push_back(gradient.empty() ? 0 : gradient[static_cast<std::size_t>(i)]);
  }
  expect_close(actual, expected, tolerance);
}

inline void expect_numeric_gradients(const std::function<Tensor<double>(const Inputs&)>& f, Inputs at,
                                     double tolerance) {
  for (auto& x : at) x = Tensor<double>(x.shape(), x.host());
  const Evaluation actual = evaluate<double>(f, at, Device::cpu);
  const auto dy = fixed_dy<double>(actual[0].shape).host();
  for (std::size_t i = 0; i < at.size(); ++i) {
    INFO("the gradient of input " << i);
    REQUIRE((actual.size() == 1 || actual[i + 1].values.size() == static_cast<std::size_t>(at[i].size())));
    expect_central_differences(actual.size() > 1 ? actual[i + 1].values : std::vector<double>(), f, at, at[i], dy,
                               [&](double e) { return tolerance * std::max(1.0, std::abs(e)); });
  }
}

template <class F>
void expect_float_as_double(const F& f, const Inputs& at) {
  constexpr double tolerance = 2e-5;  // about 340 roundings
  const Evaluation expected = evaluate<double, float>(f, at, Device::cpu);
  for (const Device device : devices<float>()) {
    INFO("in float on " << to_string(device));
    expect_close(evaluate<float>(f, at, device), expected,
                 [&](std::size_t i) { return part_of_largest(tolerance, expected[i].values); });
  }
}

/// Checks the gradients of f at these inputs. If f takes tensors of any type and not only `Inputs`, values and
/// gradients in float are checked, too, on every device; a function for the CPU only must therefore take `Inputs`.
template <class F>
void expect_gradients(const F& f, const Inputs& at, double tolerance = 1e-7) {
  expect_numeric_gradients(f, at, tolerance);
  if constexpr (std::is_invocable_v<const F&, const std::vector<Tensor<float>>&>) expect_float_as_double(f, at);
}

}  // namespace heddle::testing
