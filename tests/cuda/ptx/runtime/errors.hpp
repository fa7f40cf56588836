// The errors of CUDA calls, and the lock that serializes them.
#pragma once
#include <cuda_runtime_api.h>

#include <mutex>
#include <string>

namespace heddle::ptx {

// Every call that uses shared data holds the lock.
class RuntimeLock {
 public:
  RuntimeLock();

 private:
  std::lock_guard<std::recursive_mutex> lock_;
};

// Remembers an error for cudaGetLastError, and returns it.
cudaError_t fail(cudaError_t error);
// Like fail(). Also prints the reason, because the error of a call does not tell it.
cudaError_t refuse(cudaError_t error, const std::string& reason);

// Prints the fault of a kernel or a product. From now on all calls return its error, as after a fault on a GPU.
void raise_fault(cudaError_t error, const std::string& what);
bool has_fault();

// Returns the result of a call that has succeeded: the error of an earlier fault, if there is one.
cudaError_t success();

}  // namespace heddle::ptx
