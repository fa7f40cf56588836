// The part of CUDA's runtime that heddle's host code and tests call, and some more, for devices that are this process
// itself: one, unless a test asks for several. Enqueued work runs only at a synchronization, so that results are
// missing unless the caller synchronized. With a seed, ready streams take turns at random.
#pragma once
#include <cstddef>
#include <functional>
#include <utility>

#include "grid.hpp"

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorInvalidDeviceFunction = 98,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorUnsupportedPtxVersion = 222,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorSystemDriverMismatch = 803,
  cudaErrorLaunchFailure = 719,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  emulatorErrorUnwatchedBlock = 20000,  // heddle's own: a block of more than most_watched_threads under ThreadSanitizer
};
enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
  cudaDevAttrPageableMemoryAccess = 88,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
constexpr unsigned cudaEventDisableTiming = 2, cudaStreamNonBlocking = 1;

namespace heddle::emulator {
struct Stream;
struct Event;
struct Graph;
struct GraphExec;
}  // namespace heddle::emulator
using cudaStream_t = heddle::emulator::Stream*;
using cudaEvent_t = heddle::emulator::Event*;
using cudaGraph_t = heddle::emulator::Graph*;
using cudaGraphExec_t = heddle::emulator::GraphExec*;

const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaDeviceGetPCIBusId(char* address, int size, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);

cudaError_t cudaMalloc(void** memory, std::size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaMallocHost(void** memory, std::size_t bytes);
cudaError_t cudaFreeHost(void* memory);
// Host memory that the device sees at the same address.
constexpr unsigned cudaHostAllocMapped = 2;
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned flags);
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned flags);
enum cudaMemoryType { cudaMemoryTypeUnregistered, cudaMemoryTypeHost, cudaMemoryTypeDevice, cudaMemoryTypeManaged };
struct cudaPointerAttributes {
  cudaMemoryType type;
  int device;
};
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory);
// Enqueues a copy. Host memory is read when the copy runs, pageable memory, too: CUDA's driver may read it at
// once or later.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, std::size_t bytes,
                                cudaStream_t stream);
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_stride, const void* from, std::size_t from_stride,
                              std::size_t width, std::size_t rows, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);

// A stream that captures runs no work, but adds it to a graph. Until the capture ends, the runtime refuses allocations,
// waiting, events on the stream, and its copies from and to pageable memory; such a call also makes the capture
// invalid.
enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal,
  cudaStreamCaptureModeThreadLocal,
  cudaStreamCaptureModeRelaxed
};
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable);

struct cudaLaunchAttribute;
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};

namespace heddle::emulator {

constexpr int most_devices = 4;

// The properties of the devices, which are alike. A block has as much shared memory as on an H100. A test may lower the
// memory, and raise the number of devices to most_devices.
struct Device {
  int count = 1, multiprocessors = 4, capability = 8;
  std::size_t shared_bytes = 227 * 1024, memory = std::size_t{4} << 30;  // of each device
  std::size_t in_use[most_devices] = {};                                 // memory of each device, in bytes
  int driver_version = 13000;
  cudaError_t driver = cudaSuccess,
              code = cudaSuccess;     // errors of cudaGetDeviceCount and of cudaFuncGetAttributes
  const char* without_products = "";  // the reason why cuBLASLt is unavailable; empty if it is available
};
Device& device();

cudaError_t enqueue(const cudaLaunchConfig_t& config, const void* kernel,
                    std::function<void(const LaunchShape&, Order&)> run);
// Enqueues host code that replaces a library's kernel.
void enqueue_host_work(cudaStream_t stream, std::function<void()> work);

}  // namespace heddle::emulator

struct cudaFuncAttributes {
  std::size_t sharedSizeBytes;  // a property that nvcc computes; here it stays 0
};
// Returns Device::code: an error if the device has no code for the kernel.
inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, const void*) { return heddle::emulator::device().code; }
template <class... Parameters>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, void (*)(Parameters...)) {
  return heddle::emulator::device().code;
}
// Allows a kernel more than 48 KiB of dynamic shared memory.
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value);

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  using namespace heddle::emulator;
  const auto body = [kernel, ... values = Parameters(std::forward<Arguments>(arguments))] { kernel(values...); };
  return enqueue(*config, reinterpret_cast<const void*>(kernel), [body](const LaunchShape& shape, Order& order) {
    run_grid(
        shape, [](const void* f) { (*static_cast<const decltype(body)*>(f))(); }, &body, order);
  });
}
