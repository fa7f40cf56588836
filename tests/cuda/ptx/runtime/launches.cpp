// Launches of kernels, and their limits.
#include <algorithm>
#include <chrono>

#include "counts.hpp"
#include "devices.hpp"
#include "environment.hpp"
#include "errors.hpp"
#include "modules.hpp"
#include "streams.hpp"

namespace heddle::ptx {

namespace {

// The arguments of a launch.
struct Configuration {
  dim3 grid, block;
  std::size_t shared_bytes;
  cudaStream_t stream;
};

u64 threads_of(const dim3& block) { return u64{block.x} * block.y * block.z; }

bool is_within_limits(const dim3& grid, const dim3& block) {
  const bool is_empty = grid.x == 0 || grid.y == 0 || grid.z == 0 || threads_of(block) == 0;
  return !is_empty && grid.x <= largest_grid_x && grid.y <= largest_grid_yz && grid.z <= largest_grid_yz &&
         block.x <= largest_block && block.y <= largest_block && block.z <= largest_block_z &&
         threads_of(block) <= largest_block;
}

// Returns the bytes of a kernel's parameters.
std::vector<u8> packed(const Kernel& kernel, void** arguments) {
  std::vector<u8> bytes(kernel.param_bytes, 0);
  for (std::size_t i = 0; i < kernel.params.size(); ++i)
    std::memcpy(bytes.data() + kernel.params[i].offset, arguments[i], kernel.params[i].size);
  return bytes;
}

void trace(const Kernel& kernel, const Configuration& launch) {
  std::fprintf(stderr, "ptx: (%u, %u, %u) x (%u, %u, %u), %zu bytes: %s\n", launch.grid.x, launch.grid.y, launch.grid.z,
               launch.block.x, launch.block.y, launch.block.z, launch.shared_bytes, demangled(kernel.name).c_str());
  std::fflush(stderr);
}

void run_kernel(Kernel& kernel, int gpu, const Configuration& launch, const std::vector<u8>& parameters) {
  if (has_fault()) return;
  running_gpu = gpu;
  if (options.trace) trace(kernel, launch);
  const Dim grid{launch.grid.x, launch.grid.y, launch.grid.z};
  const Dim block{launch.block.x, launch.block.y, launch.block.z};
  const auto start = std::chrono::steady_clock::now();
  try {
    run(kernel, grid, block, static_cast<u32>(launch.shared_bytes), parameters);
  } catch (const Fault& fault) {
    raise_fault(static_cast<cudaError_t>(fault.code), fault.what);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (options.trace) std::fprintf(stderr, "ptx:   %.3f s\n", seconds);
  count_launch(kernel, grid, block, seconds);
}

cudaError_t launch_kernel(const void* function, const Configuration& launch, void** arguments) {
  if (has_fault()) return success();
  const RegisteredKernel* const known = find_registered(function);
  if (!known) return refuse(cudaErrorInvalidDeviceFunction, "a launch of a function that is not a kernel");
  const RegisteredKernel* const registered = load_kernel(function);
  if (!registered) return refuse(cudaErrorInvalidDeviceFunction, "there is no PTX of kernel " + demangled(known->name));
  Kernel& kernel = *registered->kernel;
  // CUDA 13.0 on an H200 does not return cudaErrorInvalidConfiguration.
  if (!is_within_limits(launch.grid, launch.block)) return fail(cudaErrorInvalidValue);
  if (threads_of(launch.block) > kernel.max_threads)
    return refuse(cudaErrorInvalidValue, "more threads than __launch_bounds__ allows: " + demangled(kernel.name));
  const std::size_t shared_bytes = launch.shared_bytes + kernel.static_shared;
  if (launch.shared_bytes > static_cast<std::size_t>(registered->dynamic_limit()) ||
      shared_bytes > static_cast<std::size_t>(runtime_options.gpu->shared_of_block))
    return fail(cudaErrorInvalidValue);
  if (!is_stream_of(launch.stream, current_gpu))
    return refuse(cudaErrorInvalidResourceHandle, "a launch on a stream of another GPU: " + demangled(kernel.name));
  return enqueue(launch.stream, [&kernel, launch, gpu = current_gpu, parameters = packed(kernel, arguments)] {
    run_kernel(kernel, gpu, launch, parameters);
  });
}

thread_local std::vector<Configuration> pushed;  // by <<<>>>

// Refuses attributes that change what a launch means.
void check_attribute(const cudaLaunchAttribute& attribute) {
  if (attribute.id == cudaLaunchAttributeClusterDimension) {
    const auto& cluster = attribute.val.clusterDim;
    if (cluster.x * cluster.y * cluster.z != 1) unsupported("clusters of several blocks");
  } else if (attribute.id != cudaLaunchAttributeProgrammaticStreamSerialization) {
    unsupported("launch attribute " + std::to_string(attribute.id));
  }
}

}  // namespace
}  // namespace heddle::ptx

using namespace heddle::ptx;

extern "C" {

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, struct CUstream_st* stream) {
  pushed.push_back({grid, block, shared_bytes, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes, void* stream) {
  if (pushed.empty()) return cudaErrorMissingConfiguration;
  const Configuration launch = pushed.back();
  pushed.pop_back();
  *grid = launch.grid;
  *block = launch.block;
  *shared_bytes = launch.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = launch.stream;
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                               cudaStream_t stream) {
  const RuntimeLock lock;
  return launch_kernel(kernel, {grid, block, shared_bytes, stream}, arguments);
}
cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                             cudaStream_t stream) {
  const RuntimeLock lock;
  return launch_kernel(function, {grid, block, shared_bytes, stream}, arguments);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  const RuntimeLock lock;
  std::for_each(config->attrs, config->attrs + config->numAttrs, check_attribute);
  return launch_kernel(function, {config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream},
                       arguments);
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  const RuntimeLock lock;
  RegisteredKernel* const registered = load_kernel(function);
  if (!registered) return fail(cudaErrorInvalidDeviceFunction);
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    if (value < 0 || value + static_cast<int>(registered->kernel->static_shared) > runtime_options.gpu->shared_of_block)
      return refuse(cudaErrorInvalidValue, "cudaFuncSetAttribute: too much dynamic shared memory");
    registered->raised_limits[current_gpu] = value;
  } else if (attribute != cudaFuncAttributePreferredSharedMemoryCarveout &&
             attribute != cudaFuncAttributeNonPortableClusterSizeAllowed) {
    unsupported("function attribute " + std::to_string(attribute));
  }
  return success();
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  const RuntimeLock lock;
  const RegisteredKernel* const registered = load_kernel(function);
  if (!registered) return fail(cudaErrorInvalidDeviceFunction);
  const Kernel& kernel = *registered->kernel;
  const std::string& target = kernel.module->target;  // such as sm_90a
  const std::size_t digits = target.find_first_of("0123456789");
  *attributes = {};
  attributes->sharedSizeBytes = kernel.static_shared;
  attributes->localSizeBytes = kernel.local_bytes;
  attributes->maxThreadsPerBlock = static_cast<int>(kernel.max_threads);
  attributes->numRegs = 64;  // PTX does not tell
  attributes->ptxVersion = digits == target.npos ? 0 : std::atoi(target.c_str() + digits);
  attributes->binaryVersion = runtime_options.gpu->major * 10 + runtime_options.gpu->minor;
  attributes->maxDynamicSharedSizeBytes = registered->dynamic_limit();
  return success();
}

// Registers are not counted.
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function, int threads,
                                                                   size_t shared_bytes, unsigned) {
  const RuntimeLock lock;
  const RegisteredKernel* const registered = load_kernel(function);
  if (!registered) return fail(cudaErrorInvalidDeviceFunction);
  const Gpu& gpu = *runtime_options.gpu;
  const std::size_t shared_of_block = shared_bytes + registered->kernel->static_shared + reserved_shared_bytes;
  const int by_shared = static_cast<int>(static_cast<std::size_t>(gpu.shared_of_multiprocessor) / shared_of_block);
  const int by_threads = gpu.threads_of_multiprocessor / std::max(threads, 1);
  *blocks = std::min({by_threads, by_shared, gpu.blocks_of_multiprocessor});
  return success();
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads,
                                                          size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared_bytes, 0);
}
// Counts clusters of one block.
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* function, const cudaLaunchConfig_t* config) {
  const int threads = static_cast<int>(threads_of(config->blockDim));
  const cudaError_t error =
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(clusters, function, threads, config->dynamicSmemBytes);
  if (error == cudaSuccess) *clusters *= runtime_options.gpu->multiprocessors;
  return error;
}

}  // extern "C"
