// Checks that the values of a result depend neither on the order of threads and blocks nor on the previous content of
// memory.
#pragma once
#include "../harness/evaluate.hpp"
#include "schedules.hpp"

namespace heddle::testing {

/// Compares f() with itself under many schedules. A NaN differs from itself.
template <class F>
void expect_same_always(F&& f) {
  const auto first = f();
  each_schedule([&] { CHECK((f() == first)); });
}

/// Compares y = f(inputs) and its gradients, in T on the GPU, with themselves under many schedules.
template <class T, class F>
void expect_same_always(F&& f, const Inputs& inputs) {
  expect_same_always([&] { return evaluate<T>(f, inputs, Device::cuda); });
}

}  // namespace heddle::testing
