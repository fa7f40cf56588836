// Compares each device with double on the CPU.
#pragma once
#include "compare.hpp"
#include "devices.hpp"

namespace heddle::testing {

/// Checks y and each gradient of f in T against double, on every device. The bound of the errors is plain_errors<T>,
/// computed from those of float on the CPU. f is generic: it takes a std::vector of Tensor<A> for A = double, float and
/// T, on any device, and returns one Tensor<A>.
template <class T, class F>
void expect_agrees(F&& f, const Inputs& inputs, PlainErrors accepted = {}) {
  const Evaluation exact = evaluate<double, T>(f, inputs, Device::cpu),
                   plain = evaluate<float, T>(f, inputs, Device::cpu);
  for (const Device device : devices<T>()) {
    if (std::is_same_v<T, float> && device == Device::cpu) continue;  // the measure itself
    INFO("on " << to_string(device));
    expect_close(evaluate<T>(f, inputs, device), exact,
                 [&](std::size_t i) { return plain_errors<T>(exact[i].values, plain[i].values, accepted); });
  }
}

/// Checks that f in T, usually bf16, gives the CPU's results on every device, within the roundings and the last bits of
/// `accepted`. Use it for results that are computed from a value rounded to bf16, such as the gradient of a quotient:
/// they differ from double on every device.
template <class T, class F>
void expect_agrees_with_cpu(F&& f, const Inputs& inputs, PlainErrors accepted) {
  const Evaluation expected = evaluate<T>(f, inputs, Device::cpu);
  for (const Device device : devices<T>()) {
    if (device == Device::cpu) continue;
    INFO("on " << to_string(device));
    expect_close(evaluate<T>(f, inputs, device), expected,
                 [&](std::size_t i) { return plain_errors<T>(expected[i].values, expected[i].values, accepted); });
  }
}
template <class T, class F>
void expect_agrees_with_cpu(F&& f, const Inputs& inputs, double roundings) {
  expect_agrees_with_cpu<T>(f, inputs, PlainErrors{.roundings = roundings});
}

}  // namespace heddle::testing
