// Compares an op and its backward with a golden case, in any floating type.
#pragma once
#include <functional>
#include <heddle/autograd/backward.hpp>

#include "catch.hpp"
#include "devices.hpp"
#include "golden/golden.hpp"

namespace heddle::testing {

// Within `tolerance` of the largest expected value, or of 1 where all are smaller; NaN only where it is expected.
template <class T>
void expect_close(const Tensor<T>& actual, const GoldenTensor& expected, double tolerance) {
  REQUIRE(actual.shape() == expected.shape);
  double scale = 1;
  for (const double e : expected.values)
    if (std::isfinite(e)) scale = std::max(scale, std::abs(e));
  const auto values = actual.host();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double a = static_cast<double>(static_cast<Acc<T>>(values[i])), e = expected.values[i];
    CAPTURE(i, a, e);
    REQUIRE((a == e || (std::isnan(a) && std::isnan(e)) || std::abs(a - e) <= tolerance * scale));
  }
}

// f of the inputs named by `roles`, in T and on that device: y, and where there is a dy the gradient of each input. One that the
// case does not have is an empty tensor.
template <class T, class F>
void expect_case_on(Device device, const Case& c, const std::vector<std::string>& roles, F f, double tolerance) {
  INFO("on " << to_string(device));
  std::vector<Tensor<T>> at;
  for (const std::string& role : roles)
    at.push_back(c.has(role) ? variable(Tensor<T>(c[role].shape, c[role].template as<T>()).to(device)) : Tensor<T>());
  const Tensor<T> y = f(at);
  CHECK(y.device() == device);
  expect_close(y, c["y"], tolerance);
  if (!c.has("dy")) return;
  backward(y, Tensor<T>(c["dy"].shape, c["dy"].template as<T>()).to(device));
  for (std::size_t i = 0; i < roles.size(); ++i) {
    if (!at[i]) continue;
    INFO("gradient of " << roles[i]);
    expect_close(at[i].grad(), c['d' + roles[i]], tolerance);
  }
}

// On every device that has T.
template <class T, class F>
void expect_case(const Case& c, const std::vector<std::string>& roles, F f, double tolerance) {
  for (const Device device : devices<T>()) expect_case_on<T>(device, c, roles, f, tolerance);
}

// In double, float and bf16. The tolerances are multiples of each type's rounding (2^-53, 2^-24, 2^-9).
template <class F>
void expect_golden(const std::string& op, const std::vector<std::string>& roles, F f, double roundings = 8) {
  for (const Case& c : golden(op)) {
    INFO(op << ' ' << c.label);
    expect_case<double>(
        c, roles, [&](const auto& at) { return f(c, at); }, std::max(1e-15, roundings * 0x1p-53));
    expect_case<float>(
        c, roles, [&](const auto& at) { return f(c, at); }, roundings * 0x1p-24);
    expect_case<bf16>(
        c, roles, [&](const auto& at) { return f(c, at); }, roundings * 0x1p-9);
  }
}

}  // namespace heddle::testing
