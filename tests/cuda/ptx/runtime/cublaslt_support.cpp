#include "cublaslt_support.hpp"

#include <memory>

#include "allocations.hpp"
#include "devices.hpp"
#include "environment.hpp"
#include "errors.hpp"
#include "streams.hpp"

using namespace heddle::ptx;

extern "C" {

void* heddle_ptx_host_pointer(const void* address, std::size_t bytes) {
  const RuntimeLock lock;
  return is_device_address(address) ? host_pointer(address, bytes) : nullptr;
}

int heddle_ptx_current_gpu() { return current_gpu; }
bool heddle_ptx_is_on(const void* address, int gpu) {
  const RuntimeLock lock;
  const Region* const region = region_of(reinterpret_cast<u64>(address));
  return region && region->gpu == gpu;
}
bool heddle_ptx_is_stream_of(cudaStream_t stream, int gpu) {
  const RuntimeLock lock;
  return is_stream_of(stream, gpu);
}

cudaError_t heddle_ptx_enqueue(cudaStream_t stream, void (*run)(const void*), const void* data,
                               void (*destroy)(const void*)) {
  const RuntimeLock lock;
  const std::shared_ptr<const void> owner(data, destroy);
  return enqueue(stream, [run, owner] { run(owner.get()); });
}

void heddle_ptx_raise_fault(cudaError_t error, const char* what) {
  const RuntimeLock lock;
  raise_fault(error, what);
}

bool heddle_ptx_lacks_epilogues() { return runtime_options.no_epilogue; }

bool heddle_ptx_refuses(const char* what) { return is_refused(what); }

bool heddle_ptx_prints_summary() { return runtime_options.summary; }

}  // extern "C"
