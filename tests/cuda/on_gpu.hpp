// Tensors on the GPU from their values.
#pragma once
#include <heddle/core/tensor.hpp>
#include <vector>

namespace heddle::testing {

inline Tensor<float> on_gpu(Shape shape, const std::vector<float>& values) {
  return Tensor<float>(shape, values).to(Device::cuda);
}

}  // namespace heddle::testing
