// Device memory for the duration of a call. The destructor returns it to the cache without synchronizing, because later
// work on the stream runs after the work that uses it.
#pragma once
#include <heddle/gpu/kernels.hpp>

#include "launch.cuh"

namespace heddle::cuda {

inline cudaStream_t current_stream() { return static_cast<cudaStream_t>(stream()); }

// Returns `count` numbers in device memory, which are 0, for one kernel on the calling thread's stream. The kernel must
// leave 0 in all of them. Defined in runtime.cu.
unsigned* counters(Index count);

template <class T>
class Workspace {
 public:
  explicit Workspace(Index count)
      : bytes_(static_cast<std::size_t>(count) * sizeof(T)), data_(static_cast<T*>(allocate(bytes_))) {}
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() { release(data_, bytes_); }
  T* data() const { return data_; }

 private:
  std::size_t bytes_;
  T* data_;
};

}  // namespace heddle::cuda
