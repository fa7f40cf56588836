#include "devices.hpp"

#include <cuda_runtime_api.h>

#include "environment.hpp"
#include "errors.hpp"

using namespace heddle::ptx;

thread_local int heddle::ptx::current_gpu = 0;

namespace {

constexpr int version = 13000;  // of the driver and of the runtime
constexpr int default_shared_of_block = 48 * 1024, registers = 65536, l2_bytes = 50 << 20, kilohertz = 1'980'000;

// Returns the value of an attribute, or -1 for one that the interpreter does not know.
int attribute_of(const Gpu& gpu, cudaDeviceAttr attribute) {
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY: return largest_block;
    case cudaDevAttrMaxBlockDimZ: return largest_block_z;
    case cudaDevAttrMaxGridDimX: return largest_grid_x;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ: return largest_grid_yz;
    case cudaDevAttrMaxSharedMemoryPerBlock: return default_shared_of_block;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: return gpu.shared_of_block;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: return gpu.shared_of_multiprocessor;
    case cudaDevAttrReservedSharedMemoryPerBlock: return reserved_shared_bytes;
    case cudaDevAttrWarpSize: return 32;
    case cudaDevAttrMultiProcessorCount: return gpu.multiprocessors;
    case cudaDevAttrMaxThreadsPerMultiProcessor: return gpu.threads_of_multiprocessor;
    case cudaDevAttrMaxBlocksPerMultiprocessor: return gpu.blocks_of_multiprocessor;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor: return registers;
    case cudaDevAttrComputeCapabilityMajor: return gpu.major;
    case cudaDevAttrComputeCapabilityMinor: return gpu.minor;
    case cudaDevAttrL2CacheSize: return l2_bytes;
    case cudaDevAttrClockRate: return kilohertz;
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrMemoryPoolsSupported:
    case cudaDevAttrCanMapHostMemory: return 1;
    case cudaDevAttrPageableMemoryAccess: return 0;
    default: return -1;
  }
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  const RuntimeLock lock;
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const bool is_hidden = visible && *visible == '\0';
  *count = is_hidden ? 0 : runtime_options.gpus;
  return is_hidden ? fail(cudaErrorNoDevice) : cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_gpu;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  const RuntimeLock lock;
  if (device < 0 || device >= runtime_options.gpus) return fail(cudaErrorInvalidDevice);
  current_gpu = device;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* address, int size, int device) {
  const RuntimeLock lock;
  if (device < 0 || device >= runtime_options.gpus) return fail(cudaErrorInvalidDevice);
  std::snprintf(address, static_cast<std::size_t>(size), "0000:%02x:00.0", static_cast<unsigned>(device));
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* number) {
  *number = version;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* number) {
  *number = version;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute_of(*runtime_options.gpu, attribute);
  if (*value < 0) unsupported("device attribute " + std::to_string(attribute));
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  const Gpu& gpu = *runtime_options.gpu;
  *properties = {};
  std::snprintf(properties->name, sizeof(properties->name), "%s (PTX interpreter)", gpu.title);
  properties->major = gpu.major;
  properties->minor = gpu.minor;
  properties->multiProcessorCount = gpu.multiprocessors;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = largest_block;
  properties->maxThreadsPerMultiProcessor = gpu.threads_of_multiprocessor;
  properties->sharedMemPerBlock = default_shared_of_block;
  properties->sharedMemPerBlockOptin = static_cast<std::size_t>(gpu.shared_of_block);
  properties->totalGlobalMem = runtime_options.memory_bytes;
  properties->l2CacheSize = l2_bytes;
  return cudaSuccess;
}

}  // extern "C"
