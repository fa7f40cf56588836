// Device memory with an owner, for tests that call kernels directly.
#pragma once
#include <vector>

#include <heddle/base/shape.hpp>

#include "device/launch.cuh"

namespace heddle::testing {

inline std::size_t size_of(Index count) { return static_cast<std::size_t>(count); }

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) : count_(count) {
    cuda::check(cudaMalloc(reinterpret_cast<void**>(&data_), bytes()), "cudaMalloc");
  }
  explicit DeviceArray(const std::vector<T>& values, cudaStream_t stream = {}) : DeviceArray(values.size()) {
    cuda::check(cudaMemcpyAsync(data_, values.data(), bytes(), cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
    cuda::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }

  T* data() const { return data_; }
  std::size_t bytes() const { return count_ * sizeof(T); }
  // Returns the values on the host, after a synchronization with the stream.
  std::vector<T> host(cudaStream_t stream = {}) const {
    std::vector<T> values(count_);
    cuda::check(cudaMemcpyAsync(values.data(), data_, bytes(), cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
    cuda::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    return values;
  }

 private:
  std::size_t count_;
  T* data_ = nullptr;
};

}  // namespace heddle::testing
