// The devices that a test goes over.
#pragma once
#include <vector>

#include <heddle/base/error.hpp>

namespace heddle::testing {

// Where tensors of T can be in this build.
template <class T>
std::vector<Device> devices() {
#ifdef HEDDLE_CUDA
  if (!std::is_same_v<T, double>) return {Device::cpu, Device::cuda};
#endif
  return {Device::cpu};
}

}  // namespace heddle::testing
