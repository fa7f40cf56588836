// Runs one function of tensors on the CPU, in double and in float, and on the GPU, and compares values and gradients.
#pragma once
#include <heddle/autograd/backward.hpp>
#include <heddle/base/random.hpp>

#include "../catch.hpp"
#include "compare.hpp"

namespace heddle::testing {

// Standard normal numbers that are exact in T, as doubles.
template <class T>
Tensor<double> numbers(Shape shape, std::uint64_t seed) {
  Random random(seed);
  Tensor<double> x = randn<double>(shape, random);
  for (Index i = 0; i < x.size(); ++i)
    x.data()[i] = static_cast<double>(static_cast<Acc<T>>(static_cast<T>(static_cast<float>(x.data()[i]))));
  return x;
}

template <class To, class From>
Tensor<To> converted(const Tensor<From>& x, Device device = Device::cpu) {
  std::vector<To> values;
  for (const From v : x.host()) values.push_back(static_cast<To>(static_cast<Acc<From>>(v)));
  return Tensor<To>(x.shape(), values).to(device);
}

// y = f(inputs) and the gradients of the inputs for a random dy, in A on that device, one after another; `parts` receives
// where each of them ends.
template <class A, class T, class F>
std::vector<double> run(F&& f, const std::vector<Tensor<double>>& inputs, Device device,
                        std::vector<std::size_t>* parts = nullptr) {
  std::vector<Tensor<A>> at;
  for (const auto& x : inputs) at.push_back(x ? variable(converted<A>(x, device)) : Tensor<A>());
  const Tensor<A> y = f(at);
  std::vector<double> all = joined(y.host());
  if (parts) parts->push_back(all.size());
  if (!y.requires_grad()) return all;
  backward(y, converted<A>(numbers<T>(y.shape(), 77), device));
  for (const auto& x : at) {
    if (!x) continue;
    const Tensor<A> gradient = x.grad();
    const auto values = gradient ? joined(gradient.host()) : std::vector<double>(static_cast<std::size_t>(x.size()));
    all.insert(all.end(), values.begin(), values.end());
    if (parts) parts->push_back(all.size());
  }
  return all;
}

// Calls judge for y and then for each gradient, with a function that gives what is theirs of a run's results.
template <class F>
void each_part(const std::vector<std::size_t>& ends, F&& judge) {
  for (std::size_t p = 0, first = 0; p < ends.size(); first = ends[p++]) {
    INFO((p == 0 ? "y" : "gradient ") << (p == 0 ? "" : std::to_string(p - 1)));
    judge([&](const std::vector<double>& all) {
      return std::vector<double>(all.begin() + static_cast<std::ptrdiff_t>(first),
                                 all.begin() + static_cast<std::ptrdiff_t>(ends[p]));
    });
  }
}

// f is generic: it takes a std::vector of Tensor<A> for A = double, float and T, on any device, and gives one Tensor<A>. On
// the GPU in T it is no further from double than twice what plain float is on the CPU, y and each gradient by itself; bf16 rounds `roundings`
// times more: 1 where only the result is rounded.
template <class T, class F>
void expect_agrees(F&& f, const std::vector<Tensor<double>>& inputs, double roundings = 1) {
  std::vector<std::size_t> parts;
  const auto exact = run<double, T>(f, inputs, Device::cpu, &parts), plain = run<float, T>(f, inputs, Device::cpu),
             got = run<T, T>(f, inputs, Device::cuda);
  REQUIRE(got.size() == exact.size());
  each_part(parts, [&](auto part) { expect_close<T>(part(got), part(exact), part(plain), roundings); });
}

// The same bits of values and gradients with twenty schedules.
template <class T, class F>
void expect_agrees_always(F&& f, const std::vector<Tensor<double>>& inputs) {
  expect_same_always([&] { return run<T, T>(f, inputs, Device::cuda); });
}

}  // namespace heddle::testing
