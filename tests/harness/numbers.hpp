// The numbers that tests compute with. Inputs are tensors of doubles, which each test converts to the type that it
// checks.
#pragma once
#include <algorithm>
#include <limits>
#include <vector>

#include <heddle/core/create.hpp>

namespace heddle::testing {

using Inputs = std::vector<Tensor<double>>;

template <class T>
constexpr T infinity = std::numeric_limits<T>::infinity();
template <class T>
constexpr T quiet_nan = std::numeric_limits<T>::quiet_NaN();

/// Returns the elements of x in another type, on `device`.
template <class To, class From>
Tensor<To> converted(const Tensor<From>& x, Device device = Device::cpu) {
  const Tensor<From> from = x.to(Device::cpu);
  Tensor<To> to(x.shape(), Device::cpu);
  std::transform(from.data(), from.data() + from.size(), to.data(),
                 [](From v) { return static_cast<To>(static_cast<Acc<From>>(v)); });
  return to.to(device);
}

/// Returns the elements of x rounded to T.
template <class T>
Tensor<double> rounded(const Tensor<double>& x) {
  if constexpr (std::is_same_v<T, double>)
    return x;
  else
    return converted<double>(converted<T>(x));
}

/// Returns standard normal numbers. numbers.cpp defines it, which is compiled with optimization.
Tensor<double> normal_numbers(Shape shape, std::uint64_t seed);

/// Returns standard normal numbers, rounded to T.
template <class T = double>
Tensor<double> random(Shape shape, std::uint64_t seed) {
  return rounded<T>(normal_numbers(shape, seed));
}

/// Returns the elements of all vectors as doubles, one vector after another.
template <class... Vectors>
std::vector<double> joined(const Vectors&... vectors) {
  std::vector<double> all((std::size_t{0} + ... + vectors.size()));
  double* out = all.data();
  ((out = std::transform(vectors.begin(), vectors.end(), out, [](auto value) { return static_cast<double>(value); })),
   ...);
  return all;
}

}  // namespace heddle::testing
