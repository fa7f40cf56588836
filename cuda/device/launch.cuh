// Launches kernels. Every .cu file includes this file, directly or through another header. <cuda_runtime.h> declares
// the CUDA language and runtime: it is NVIDIA's if nvcc compiles, otherwise the emulator's.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <heddle/base/build.hpp>
#include <heddle/base/error.hpp>
#include <string_view>

namespace heddle::cuda {

inline constexpr int most_gpus = 64;  // of a process
inline constexpr int warp_size = 32;
inline constexpr unsigned all_lanes = ~0u;

// Returns the number of threads of a block: `threads`, which must be whole warps. In a build for ThreadSanitizer,
// which cannot tell all threads of a large block apart, it is at most emulator::most_watched_threads (docs/kernels.md).
constexpr int block_threads(int threads) {
#if defined(CUDART_VERSION)  // NVIDIA's runtime, for nvcc and for the host's compiler
  return threads;
#elif defined(__SANITIZE_THREAD__)
  return std::min(threads, emulator::most_watched_threads);
#elif defined(__has_feature)
  return __has_feature(thread_sanitizer) ? std::min(threads, emulator::most_watched_threads) : threads;
#else
  return threads;
#endif
}

// Throws CudaError if `error` is an error, and clears CUDA's last error.
inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) [[likely]]
    return;
  cudaGetLastError();
  fail<CudaError>(what, ": ", cudaGetErrorString(error));
}

// Returns an attribute of the current GPU.
inline int device_attribute(cudaDeviceAttr which) {
  int device = 0, value = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

// Returns the name of a kernel as it is written in the source, with its template arguments.
template <auto kernel>
std::string_view kernel_name() {
  std::string_view name = __PRETTY_FUNCTION__;
  const auto skip_past = [&](std::string_view part) {
    if (const auto at = name.find(part); at != name.npos) name.remove_prefix(at + part.size());
  };
  skip_past("kernel = ");
  skip_past("(anonymous namespace)::");
  skip_past("{anonymous}::");
  return name.substr(0, std::min(name.find(';'), name.rfind(']')));
}

template <auto kernel>
[[noreturn, gnu::cold]] void fail_launch(cudaError_t error, dim3 grid, dim3 block, std::size_t shared_bytes) {
  cudaGetLastError();
  fail<CudaError>(kernel_name<kernel>(), ": grid (", grid.x, ", ", grid.y, ", ", grid.z, "), block (", block.x, ", ",
                  block.y, ", ", block.z, "), ", shared_bytes, " bytes of shared memory: ", cudaGetErrorString(error));
}

// Returns whether HEDDLE_SYNC=1 is set in the environment. If so, every launch is synchronized, so that its errors
// appear where it was enqueued.
inline bool synchronizes_each_launch() {
  static const bool yes = std::getenv("HEDDLE_SYNC") && std::string_view(std::getenv("HEDDLE_SYNC")) == "1";
  return yes;
}
// Throws the error that a kernel on the stream has reported, if any. The caller must have synchronized with the stream.
// Defined in runtime.cu.
void throw_report(cudaStream_t stream);

// Raises a kernel's limit of dynamic shared memory to the GPU's maximum for one block, less the kernel's static shared
// memory. By default both together may have 48 KiB.
inline cudaError_t raise_shared_limit(const void* kernel) {
  int device = 0, most = 0;
  cudaFuncAttributes attributes{};
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (error == cudaSuccess) error = cudaFuncGetAttributes(&attributes, kernel);
  if (error != cudaSuccess) return error;
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              most - static_cast<int>(attributes.sharedSizeBytes));
}

// Calls raise_shared_limit() once for each GPU.
template <auto kernel>
cudaError_t raise_shared_limit_here() {
  static std::atomic<std::uint64_t> raised = 0;  // a bit for each GPU
  static_assert(most_gpus <= 64);
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  const std::uint64_t bit = std::uint64_t{1} << device;
  if (error != cudaSuccess || (raised.load(std::memory_order_relaxed) & bit) != 0) return error;
  error = raise_shared_limit(reinterpret_cast<const void*>(kernel));
  if (error == cudaSuccess) raised |= bit;
  return error;
}

// Launches kernel<<<grid, block, shared_bytes, stream>>>(arguments...), unless the grid has no blocks. Throws CudaError
// with the kernel's name if the launch fails.
template <auto kernel, class... Arguments>
void launch(dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream, const Arguments&... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  cudaError_t error = shared_bytes > 0 ? raise_shared_limit_here<kernel>() : cudaSuccess;
  if (error == cudaSuccess) error = cudaLaunchKernelEx(&config, kernel, arguments...);
  if (error == cudaSuccess && synchronizes_each_launch()) error = cudaStreamSynchronize(stream);
  if (error != cudaSuccess) [[unlikely]]
    fail_launch<kernel>(error, grid, block, shared_bytes);
  if (synchronizes_each_launch()) throw_report(stream);
}

// Returns the number of blocks that `work` elements need, with `each` elements per block.
inline unsigned blocks_for(Index work, int each) { return static_cast<unsigned>((work + each - 1) / each); }

}  // namespace heddle::cuda
