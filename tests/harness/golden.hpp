// Compares an operation and its backward with a golden case, in any floating type and on every device.
#pragma once
#include <heddle/core/print.hpp>

#include "../golden/golden.hpp"
#include "compare.hpp"
#include "devices.hpp"

namespace heddle::testing {

/// Returns the golden tensor of that role, named `name`.
inline Computed expected_of(const Case& c, const std::string& role, const std::string& name) {
  return {name, c[role].shape, c[role].values};
}

/// Returns the golden tensor of that role in T, or an empty tensor if the case does not have it.
template <class T>
Tensor<T> golden_tensor(const Case& c, const std::string& role, Device device = Device::cpu) {
  return c.has(role) ? Tensor<T>(c[role].shape, c[role].as<T>()).to(device) : Tensor<T>();
}

/// Checks f of the inputs named by `roles`, in T on every device that has T: y, and if the case has a dy, the gradient
/// of each input. An input that the case does not have is an empty tensor.
template <class T, class F>
void expect_case(const Case& c, const std::vector<std::string>& roles, F f, double tolerance) {
  Inputs inputs;
  for (const std::string& role : roles) inputs.push_back(golden_tensor<double>(c, role));
  Evaluation expected{expected_of(c, "y", "y")};
  for (const std::string& role : roles)
    if (c.has("dy") && c.has(role)) expected.push_back(expected_of(c, 'd' + role, "the gradient of " + role));

  for (const Device device : devices<T>()) {
    INFO("in " << heddle::detail::element_name<T> << " on " << to_string(device));
    Evaluation actual = evaluate<T>(f, inputs, device, golden_tensor<double>(c, "dy"));
    if (!c.has("dy")) actual.resize(1);
    expect_close(actual, expected, [&](std::size_t i) { return part_of_largest(tolerance, expected[i].values); });
  }
}

/// Checks that f of the inputs named by `roles`, in T on every device that has T, is exactly the tensor of the role
/// `result`.
template <class T, class F>
void expect_exact_case(const Case& c, const std::vector<std::string>& roles, const std::string& result, F f) {
  for (const Device device : devices<T>()) {
    INFO("in " << heddle::detail::element_name<T> << " on " << to_string(device));
    std::vector<Tensor<T>> inputs;
    for (const std::string& role : roles) inputs.push_back(golden_tensor<T>(c, role, device));
    const auto y = f(std::as_const(inputs));
    REQUIRE(y.device() == device);
    expect_close(computed(result, y), expected_of(c, result, result), equal);
  }
}

/// Checks cases in double, float and bf16. Tolerances are `roundings` times 2^-53 (but at least 1e-15), 2^-24 and 2^-9:
/// one rounding in double and float, half a rounding in bf16.
template <class F>
void expect_golden(const std::vector<Case>& cases, const std::vector<std::string>& roles, F f, double roundings = 8) {
  for (const Case& c : cases) {
    INFO(c.name << ' ' << c.label);
    const auto of_case = [&](const auto& x) { return f(c, x); };
    expect_case<double>(c, roles, of_case, std::max(1e-15, roundings * 0x1p-53));
    expect_case<float>(c, roles, of_case, roundings * 0x1p-24);
    expect_case<bf16>(c, roles, of_case, roundings * 0x1p-9);
  }
}
/// Checks every case of an operation in ops.txt.
template <class F>
void expect_golden(const std::string& op, const std::vector<std::string>& roles, F f, double roundings = 8) {
  expect_golden(golden(op), roles, f, roundings);
}

}  // namespace heddle::testing
