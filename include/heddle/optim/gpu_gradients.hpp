// The gradients on the GPU, gathered for kernels that take all parameters in one launch.
#pragma once
#include <heddle/optim/rules.hpp>
#include <heddle/tensor.hpp>

namespace heddle::optim {

// Some parameters' gradients there.
struct GpuGradients {
  std::vector<kernel::Updated> parameters;  // gradients and sizes of them
  std::vector<Tensor<float>> kept;          // the gradients, which the kernels read

  // Whether g is there: then it is the last of them.
  template <class T>
  bool take([[maybe_unused]] const Tensor<T>& g) {
#ifdef HEDDLE_CUDA
    if constexpr (std::is_same_v<T, float>)
      if (g.device() == Device::cuda) {
        kept.push_back(g);
        kernel::Updated& parameter = parameters.emplace_back();
        parameter.gradient = kept.back().device_data();
        parameter.size = g.size();
        return true;
      }
#endif
    return false;
  }
};

}  // namespace heddle::optim
