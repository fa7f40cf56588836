// The devices that a test covers, and how thoroughly. Usable in a build without CUDA.
#pragma once
#include <cstdlib>
#include <type_traits>
#include <vector>

#include <heddle/core/tensor.hpp>
#ifdef HEDDLE_CUDA
#include <heddle/gpu/runtime.hpp>
#endif

#include "../catch.hpp"

namespace heddle::testing {

/// Returns the devices of this build that hold tensors of T.
template <class T>
std::vector<Device> devices() {
#ifdef HEDDLE_CUDA
  if (!std::is_same_v<T, double>) return {Device::cpu, Device::cuda};
#endif
  return {Device::cpu};
}

/// Calls f with each device of devices<T>().
template <class T, class F>
void on_each_device(F&& f) {
  for (const Device device : devices<T>()) {
    INFO("on " << to_string(device));
    f(device);
  }
}

/// Synchronizes with the GPU, if the build has one, and throws its error. Errors of the CPU are thrown at once.
inline void synchronize() {
#ifdef HEDDLE_CUDA
  cuda::synchronize();
#endif
}

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool has_address_sanitizer = true;
#elif defined(__has_feature)
inline constexpr bool has_address_sanitizer = __has_feature(address_sanitizer);
#else
inline constexpr bool has_address_sanitizer = false;
#endif

#if defined(__SANITIZE_THREAD__)
inline constexpr bool has_thread_sanitizer = true;
#elif defined(__has_feature)
inline constexpr bool has_thread_sanitizer = __has_feature(thread_sanitizer);
#else
inline constexpr bool has_thread_sanitizer = false;
#endif

/// Returns whether tests may take minutes, as in scripts/test --all.
inline bool is_long_run() { return std::getenv("HEDDLE_EXHAUSTIVE") != nullptr; }

/// Returns whether tests use all their shapes: always without sanitizers, and under sanitizers if HEDDLE_EXHAUSTIVE is
/// set, as by scripts/test --all. Otherwise they use fewer or smaller shapes, but still each kind of shape.
inline bool is_exhaustive() { return !(has_address_sanitizer || has_thread_sanitizer) || is_long_run(); }

/// Returns whether a slow tool watches the memory accesses of kernels, so that grids must be small: ThreadSanitizer,
/// which supports about 8,000 threads at a time, or compute-sanitizer, whose callers set HEDDLE_RACES_WATCHED.
inline bool races_are_watched() { return has_thread_sanitizer || std::getenv("HEDDLE_RACES_WATCHED") != nullptr; }

}  // namespace heddle::testing
