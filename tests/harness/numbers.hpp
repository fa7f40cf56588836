// The numbers that tests compute with. Inputs are tensors of doubles, which each test converts to the type that it checks.
#pragma once
#include <algorithm>
#include <iterator>
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
  std::vector<To> values;
  for (const From v : x.host()) values.push_back(static_cast<To>(static_cast<Acc<From>>(v)));
  return Tensor<To>(x.shape(), values).to(device);
}

/// Returns the elements of x rounded to T.
template <class T>
Tensor<double> rounded(const Tensor<double>& x) {
  if constexpr (std::is_same_v<T, double>)
    return x;
  else
    return converted<double>(converted<T>(x));
}

/// Returns standard normal numbers, rounded to T.
template <class T = double>
Tensor<double> random(Shape shape, std::uint64_t seed) {
  Random generator(seed);
  return rounded<T>(randn<double>(shape, generator));
}

/// Returns the elements of all vectors as doubles, one vector after another.
template <class... Vectors>
std::vector<double> joined(const Vectors&... vectors) {
  std::vector<double> all;
  (std::transform(vectors.begin(), vectors.end(), std::back_inserter(all),
                  [](auto value) { return static_cast<double>(value); }),
   ...);
  return all;
}

}  // namespace heddle::testing
