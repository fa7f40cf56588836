// Initial values: the distributions that PyTorch's modules draw from by default, drawn from heddle's generator.
#pragma once
#include <heddle/base/random.hpp>
#include <heddle/nn/parameter.hpp>

namespace heddle::nn {

// Uniform in ±1/sqrt(fan_in): torch.nn.Linear's weight and bias (Kaiming uniform with a = sqrt(5) comes to the same).
template <class T>
Parameter<T> linear_init(Shape shape, Index fan_in, Random& random) {
  const double bound = fan_in > 0 ? 1 / std::sqrt(static_cast<double>(fan_in)) : 0;
  return Parameter<T>(uniform<T>(shape, -bound, bound, random));
}

// Standard normal: torch.nn.Embedding's weight.
template <class T>
Parameter<T> embedding_init(Shape shape, Random& random) {
  return Parameter<T>(randn<T>(shape, random));
}

// One value everywhere: the norms' ones and zeros.
template <class T>
Parameter<T> constant_init(Shape shape, double value) {
  return Parameter<T>(Tensor<T>(shape, std::vector<T>(static_cast<std::size_t>(shape.size()), static_cast<T>(value))));
}

// A size that a module is made with. Throws ShapeError unless it is at least 1.
inline Index require_size(const char* module, const char* what, Index size) {
  require<ShapeError>(size >= 1, module, ": ", what, " must be at least 1, got ", size);
  return size;
}

}  // namespace heddle::nn
