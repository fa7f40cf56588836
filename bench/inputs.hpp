// Names and inputs that the benchmarks share.
#pragma once
#include <heddle/heddle.hpp>
#include <string>

namespace heddle::bench {

inline std::string sizes(std::initializer_list<Index> extents) {
  std::string text;
  for (const Index e : extents) text += (text.empty() ? "" : "x") + std::to_string(e);
  return text;
}

// Returns a tensor of standard normal values.
template <class T = float>
Tensor<T> normal(Shape shape) {
  Random random(1);
  return randn<T>(shape, random);
}

}  // namespace heddle::bench
