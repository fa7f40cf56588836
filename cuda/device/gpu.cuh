// The GPUs of a process. heddle works on the calling thread's, which cudaSetDevice chooses.
#pragma once
#include <array>
#include <atomic>
#include <mutex>

#include <heddle/gpu/runtime.hpp>

#include "launch.cuh"

namespace heddle::cuda {

// Makes a GPU the calling thread's. An error is left to later calls.
inline void use_gpu(int gpu) noexcept {
  if (gpu != current_device() && cudaSetDevice(gpu) != cudaSuccess) cudaGetLastError();
}

// The scope in which a GPU is the calling thread's.
class GpuScope {
 public:
  explicit GpuScope(int gpu) noexcept { use_gpu(gpu); }
  GpuScope(const GpuScope&) = delete;
  ~GpuScope() { use_gpu(before_); }

 private:
  const int before_ = current_device();
};

// One T for each GPU, made when it is first used and never destroyed, like the pool of memory.
template <class T>
class OfEachGpu {
 public:
  // Returns that of the calling thread's GPU.
  T& here() { return of(current_device()); }
  // Returns that of a GPU, which must be the calling thread's if it is used for the first time.
  T& of(int gpu) {
    if (T* const made = if_made(gpu)) return *made;
    const std::lock_guard lock(mutex_);
    if (!if_made(gpu)) all_.at(static_cast<std::size_t>(gpu)).store(new T, std::memory_order_release);
    return *if_made(gpu);
  }
  // Returns that of a GPU; null if it was not used yet.
  T* if_made(int gpu) const { return all_.at(static_cast<std::size_t>(gpu)).load(std::memory_order_acquire); }

 private:
  std::mutex mutex_;
  std::array<std::atomic<T*>, most_gpus> all_{};
};

}  // namespace heddle::cuda
