// The devices that a test covers, and how thoroughly.
#pragma once
#include <cstdlib>
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

// Whether tests take all their shapes. Under sanitizers they take fewer or smaller ones unless HEDDLE_EXHAUSTIVE is set, as
// scripts/test --all does; each kind of shape, edges included, stays.
inline bool is_exhaustive() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return std::getenv("HEDDLE_EXHAUSTIVE") != nullptr;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  return std::getenv("HEDDLE_EXHAUSTIVE") != nullptr;
#endif
#endif
  return true;
}

}  // namespace heddle::testing
