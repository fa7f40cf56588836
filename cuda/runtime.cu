// GPUs, streams, memory and settings. Memory comes from a cache, because cudaMalloc and cudaFree synchronize with
// the whole GPU. A block belongs to the stream it was allocated for and is reused there without synchronization,
// because the work of a stream runs in order. Work of another stream delays the reuse if it was enqueued by the
// thread that releases the block, or if record_stream() names its stream. A block of a Graph's memory is reused by
// runs of that Graph only.
#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include <heddle/gpu/graphs.hpp>
#include <heddle/gpu/kernels.hpp>
#include "device/gpu.cuh"
#include "device/graph_run.cuh"
#include "device/launch.cuh"
#include "device/report.cuh"
#include "device/steps.cuh"
#include "device/workspace.cuh"

namespace heddle::cuda {
namespace {

// --- streams ---

thread_local std::array<cudaStream_t, most_gpus> chosen{};  // by GPU; null if none was chosen

// Returns the stream that the calling thread has chosen on a GPU.
cudaStream_t& chosen_on(int gpu) { return chosen.at(static_cast<std::size_t>(gpu)); }

// The stream that threads share on a GPU. Work of one thread runs before work that another thread enqueues later.
struct SharedStream {
  cudaStream_t stream = nullptr;

  SharedStream() { check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate"); }
};

OfEachGpu<SharedStream> shared_streams;

// Returns `stream`, or the shared stream of the calling thread's GPU if it is null.
cudaStream_t or_shared(void* stream) {
  return stream ? static_cast<cudaStream_t>(stream) : shared_streams.here().stream;
}
// Returns the calling thread's stream on its GPU, `gpu`.
cudaStream_t current_on(int gpu) {
  const cudaStream_t own = chosen_on(gpu);
  return own ? own : shared_streams.of(gpu).stream;
}
cudaStream_t current() { return current_on(current_device()); }
// Returns the calling thread's stream on any GPU; null if there is none yet, and so no work on it.
cudaStream_t stream_if_made(int gpu) noexcept {
  if (const cudaStream_t own = chosen_on(gpu)) return own;
  const SharedStream* const shared = shared_streams.if_made(gpu);
  return shared ? shared->stream : nullptr;
}

// Returns the GPU of a stream, or the calling thread's where CUDA cannot tell.
int gpu_of(cudaStream_t stream) noexcept {
  int gpu = current_device();
#if !defined(CUDART_VERSION) || CUDART_VERSION >= 12080
  if (cudaStreamGetDevice(stream, &gpu) != cudaSuccess) cudaGetLastError();
#endif
  return gpu;
}

// Orders later work on `later` after the work that is enqueued on `earlier`, whose GPU the event must belong to.
void order(cudaStream_t earlier, cudaStream_t later) noexcept {
  const GpuScope scope(gpu_of(earlier));
  cudaEvent_t event = nullptr;
  const bool is_made = cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess;
  const bool is_ordered =
      is_made && cudaEventRecord(event, earlier) == cudaSuccess && cudaStreamWaitEvent(later, event, 0) == cudaSuccess;
  if (is_made) cudaEventDestroy(event);
  if (is_ordered) return;
  cudaStreamSynchronize(earlier);
  cudaGetLastError();
}

// --- memory ---

constexpr std::size_t least_block = 512;  // bytes
constexpr int least_capability = 8;       // asynchronous copies, and bf16 in the tensor cores

// Returns the size of a block that is kept for reuse, for `bytes` bytes.
std::size_t kept_size(std::size_t bytes) {
  require<OutOfMemory>(bytes <= std::size_t{1} << 62, "out of memory on the GPU: ", bytes, " bytes requested");
  return detail::size_class(std::max(bytes, least_block)).bytes;
}

// A block in use.
struct Block {
  int gpu = 0;  // where it is
  std::size_t size = 0;
  cudaStream_t owner = nullptr;      // the stream that it belongs to
  std::uint64_t graph = 0;           // the memory of a Graph that it is part of, or 0
  std::uint64_t trial = 0;           // the memory for whose trial it was allocated, or 0
  std::uint64_t count = 0;           // the number of that trial
  std::vector<cudaStream_t> others;  // whose work may use it

  void use_on(cudaStream_t stream) {
    if (stream && stream != owner && std::find(others.begin(), others.end(), stream) == others.end())
      others.push_back(stream);
  }
};

class Pool {
 public:
  // `run` is the calling thread's run of a Graph, if there is one. A recorded run takes blocks of the Graph's memory. A
  // trial takes others, because what it makes may outlive it, and is counted.
  void* allocate(std::size_t bytes, int gpu, cudaStream_t stream, const MemoryOfRun& run) {
    const std::size_t kept = kept_size(bytes);
    const std::lock_guard lock(mutex_);
    Block block;
    block.gpu = gpu;
    block.size = detail::memory_is_cached ? kept : std::max<std::size_t>(bytes, 1);
    block.owner = stream;
    void* memory = nullptr;
    if (run.is_recorded) {
      OfGraph& of = graphs_[run.memory];
      const auto fits = of.fitting(kept);
      if (fits == of.unused.end()) fail_for_memory(kept);
      block.graph = run.memory;
      block.size = fits->first;
      memory = take(fits->second, gpu, block.size);
    } else {
      memory = any_block(block.size, gpu, stream);
      if (!memory) fail_full(bytes);
    }
    if (run.memory && !run.is_recorded) {
      block.trial = run.memory;
      block.count = graphs_[run.memory].add(kept);
    }
    MemoryStats& stats = of_gpu(gpu);
    stats.in_use += block.size;
    stats.peak = std::max(stats.peak, stats.in_use);
    in_use_[memory] = std::move(block);
    return memory;
  }

  void record(const void* memory, cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    const auto found = in_use_.find(memory);
    require(found != in_use_.end(), "record_stream: the address does not come from cuda::allocate, or was released");
    found->second.use_on(stream);
  }

  // Releases a block after the work on the calling thread's stream on the block's GPU.
  void release(void* memory) noexcept {
    const std::lock_guard lock(mutex_);
    Block block = std::move(in_use_.extract(memory).mapped());
    of_gpu(block.gpu).in_use -= block.size;
    if (const auto trial = graphs_.find(block.trial); trial != graphs_.end()) trial->second.remove(block);
    const auto graph = graphs_.find(block.graph);
    if (graph == graphs_.end() && !detail::memory_is_cached) return give_back(memory);
    block.use_on(stream_if_made(block.gpu));
    for (const cudaStream_t other : block.others) order(other, block.owner);
    auto& unused =
        graph != graphs_.end() ? graph->second.unused[block.size] : cached_[{block.gpu, block.owner, block.size}];
    unused.push_back(memory);
    of_gpu(block.gpu).cached += block.size;
  }

  // Opens the memory of a Graph, and returns its number. When it is closed, its blocks serve all work on the stream.
  std::uint64_t open_graph(cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    OfGraph& graph = graphs_[++last_graph_];
    graph.gpu = current_device();
    graph.stream = stream;
    return last_graph_;
  }
  void begin_count(std::uint64_t graph) {
    const std::lock_guard lock(mutex_);
    ++graphs_[graph].count;
    graphs_[graph].now = graphs_[graph].most = {};
  }
  BlockCounts counted(std::uint64_t graph) {
    const std::lock_guard lock(mutex_);
    return graphs_[graph].most;
  }
  void reserve(std::uint64_t graph, const BlockCounts& counts) {
    const std::lock_guard lock(mutex_);
    OfGraph& of = graphs_[graph];
    std::map<std::size_t, std::vector<void*>> kept;
    for (auto wanted = counts.rbegin(); wanted != counts.rend(); ++wanted)
      for (int n = 0; n < wanted->second; ++n) {
        std::size_t size = wanted->first;
        void* memory = nullptr;
        if (const auto fits = of.fitting(size); fits != of.unused.end()) {
          size = fits->first;
          memory = fits->second.back();
          fits->second.pop_back();
        } else {
          memory = any_block(size, of.gpu, of.stream);
          if (memory) of_gpu(of.gpu).cached += size;
        }
        if (!memory) break;  // the run will lack it
        kept[size].push_back(memory);
      }
    for (auto& [size, blocks] : kept) of.unused[size].insert(of.unused[size].end(), blocks.begin(), blocks.end());
  }
  void close_graph(std::uint64_t number) noexcept {
    const std::lock_guard lock(mutex_);
    const OfGraph& graph = graphs_[number];
    for (const auto& [size, blocks] : graph.unused)
      for (void* memory : blocks) {
        if (detail::memory_is_cached) {
          cached_[{graph.gpu, graph.stream, size}].push_back(memory);
        } else {
          give_back(memory);
          of_gpu(graph.gpu).cached -= size;
        }
      }
    graphs_.erase(number);
  }

  void trim() {
    const std::lock_guard lock(mutex_);
    give_back_cached();
  }

  MemoryStats stats() {
    const std::lock_guard lock(mutex_);
    return of_gpu(current_device());
  }

 private:
  MemoryStats& of_gpu(int gpu) { return stats_.at(static_cast<std::size_t>(gpu)); }

  // Takes the block that was released last; null if there is none.
  void* take(std::vector<void*>& unused, int gpu, std::size_t size) {
    if (unused.empty()) return nullptr;
    void* const memory = unused.back();
    unused.pop_back();
    of_gpu(gpu).cached -= size;
    return memory;
  }

  // Returns a block on the calling thread's GPU, `gpu`, from the cache or the driver; null if there is none.
  void* any_block(std::size_t size, int gpu, cudaStream_t stream) {
    void* memory = take(cached_[{gpu, stream, size}], gpu, size);
    if (!memory) memory = from_system(size);
    if (memory) return memory;
    give_back_cached();
    return from_system(size);
  }

  static void* from_system(std::size_t size) {
    void* memory = nullptr;
    const cudaError_t error = cudaMalloc(&memory, size);
    if (error == cudaSuccess) return memory;
    cudaGetLastError();
    if (error != cudaErrorMemoryAllocation) check(error, "cudaMalloc");
    return nullptr;
  }

  // Returns memory to the driver. cudaFree synchronizes before it frees. It reports errors of earlier work, which the
  // next synchronization reports again.
  static void give_back(void* memory) noexcept {
    if (cudaFree(memory) != cudaSuccess) cudaGetLastError();
  }
  void give_back_cached() {
    for (auto& [key, blocks] : cached_)
      for (void* memory : blocks) {
        give_back(memory);
        of_gpu(std::get<int>(key)).cached -= std::get<std::size_t>(key);
      }
    cached_.clear();
  }

  [[noreturn]] void fail_full(std::size_t bytes) {
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    fail<OutOfMemory>("out of memory on the GPU: ", bytes, " bytes requested, ", of_gpu(current_device()).in_use,
                      " bytes in use, ", free, " of ", total, " bytes free");
  }

  struct OfGraph {
    int gpu = 0;
    cudaStream_t stream = nullptr;
    std::map<std::size_t, std::vector<void*>> unused;  // by size
    std::uint64_t count = 0;                           // the number of the present count
    BlockCounts now, most;

    // Counts an allocation, and returns the number of the count.
    std::uint64_t add(std::size_t size) {
      most[size] = std::max(most[size], ++now[size]);
      return count;
    }
    void remove(const Block& block) {
      if (block.count == count) --now[kept_size(block.size)];
    }
    // Returns the smallest unused blocks of at least `size` bytes: much larger ones, too, because the runs of a larger
    // batch leave them, but not for something small.
    std::map<std::size_t, std::vector<void*>>::iterator fitting(std::size_t size) {
      const std::size_t largest = size < std::size_t{1} << 20 ? 2 * size : 16 * size;
      for (auto found = unused.lower_bound(size); found != unused.end() && found->first <= largest; ++found)
        if (!found->second.empty()) return found;
      return unused.end();
    }
  };

  std::mutex mutex_;
  std::map<const void*, Block> in_use_;
  std::map<std::tuple<int, cudaStream_t, std::size_t>, std::vector<void*>> cached_;  // by GPU, owner and size
  std::map<std::uint64_t, OfGraph> graphs_;
  std::uint64_t last_graph_ = 0;
  std::array<MemoryStats, most_gpus> stats_{};  // by GPU
};

// Returns the process's pool. It is never destroyed, because a tensor in static storage may be released after
// everything else.
Pool& pool() {
  static Pool* const one = new Pool;
  return *one;
}

constexpr Index most_counters = 64;  // of a stream

// Returns the counters of a stream of the calling thread's GPU. Kernels of a stream run one after the other. The
// counters are never freed, like the pool: a later stream of the same address finds zeros as well.
unsigned* counters_of(cudaStream_t stream) {
  static std::mutex mutex;
  static auto* const of_streams = new std::map<std::pair<int, cudaStream_t>, unsigned*>;
  const std::lock_guard lock(mutex);
  unsigned*& memory = (*of_streams)[{current_device(), stream}];
  if (!memory) {
    constexpr std::size_t bytes = most_counters * sizeof(unsigned);
    void* made = nullptr;
    check(cudaMalloc(&made, bytes), "cudaMalloc");
    check(cudaMemsetAsync(made, 0, bytes, stream), "cudaMemsetAsync");
    memory = static_cast<unsigned*>(made);
  }
  return memory;
}

// --- reports ---

// The host and device addresses of a GPU's record of invalid input (device/report.cuh).
struct Reports {
  Report* host = nullptr;
  Report* device = nullptr;

  Reports() {
    check(cudaHostAlloc(reinterpret_cast<void**>(&host), sizeof(Report), cudaHostAllocMapped), "cudaHostAlloc");
    *host = {};
    check(cudaHostGetDevicePointer(reinterpret_cast<void**>(&device), host, 0), "cudaHostGetDevicePointer");
  }
};
OfEachGpu<Reports> reports;

// Throws the error for an invalid id that a kernel on the calling thread's GPU has reported, if any.
void throw_invalid_id() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  Report& report = *reports.here().host;
  if (!__atomic_load_n(&report.raised, __ATOMIC_ACQUIRE)) return;
  const Report r = report;
  report.raised = 0;
  __atomic_store_n(&report.claimed, 0, __ATOMIC_RELEASE);
  kernel::IdCheck{r.op, r.what, r.where, r.limit}.fail(r.id, r.position);
}

std::atomic<bool> allows_tf32 = false;

// An empty kernel, by which unavailable() checks whether there is code for the GPU.
__global__ void any_kernel() {}

}  // namespace

void throw_report(cudaStream_t stream) {
  throw_invalid_id();
  throw_failed_step(stream);
}

std::string unavailable() {
  int count = 0, device = 0, major = 0, minor = 0, driver = 0;
  cudaFuncAttributes attributes{};
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count == 0) error = cudaErrorNoDevice;
  if (error == cudaSuccess) error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  const std::string capability = "compute capability " + std::to_string(major) + '.' + std::to_string(minor);
  if (error == cudaSuccess && major < least_capability)
    return "the GPU has " + capability + ", but heddle's kernels need " + std::to_string(least_capability) +
           ".0 or newer";
  if (error == cudaSuccess) error = cudaFuncGetAttributes(&attributes, any_kernel);
  if (error == cudaSuccess) return products_unavailable();
  cudaGetLastError();
  switch (error) {
    case cudaErrorNoDevice: return "no GPU was found";
    case cudaErrorInsufficientDriver:
      if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) return "no GPU was found";
      return "the GPU's driver is too old for the CUDA that heddle was built with";
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
      return "the kernels were not compiled for a GPU of " + capability +
             ", and its driver cannot compile them; build heddle for it (HEDDLE_CUDA_ARCHITECTURES)";
    default: return std::string("the GPU cannot be used: ") + cudaGetErrorString(error);
  }
}

int device_count() noexcept {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}
int current_device() noexcept {
  thread_local int number = 0;  // the last known one, if CUDA does not answer any more
  if (cudaGetDevice(&number) != cudaSuccess) cudaGetLastError();
  return number;
}
void set_device(int number) {
  const int count = std::min(device_count(), most_gpus);
  require(number >= 0 && number < count, "cuda::set_device: there is no GPU ", number, "; the number of GPUs is ",
          count);
  check(cudaSetDevice(number), "cudaSetDevice");
}
std::string pci_address() {
  char address[32];
  check(cudaDeviceGetPCIBusId(address, sizeof address, current_device()), "cudaDeviceGetPCIBusId");
  return address;
}
int device_of(const void* memory) {
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, memory), "cudaPointerGetAttributes");
  require(attributes.type != cudaMemoryTypeUnregistered || device_attribute(cudaDevAttrPageableMemoryAccess) != 0,
          "memory of the host was given as memory of a GPU; copy it there with to(Device::cuda)");
  return attributes.type == cudaMemoryTypeDevice ? attributes.device : current_device();
}

void* stream() { return current(); }
void set_stream(void* stream) { chosen_on(current_device()) = static_cast<cudaStream_t>(stream); }
void order_streams(void* earlier, void* later) noexcept {
  if (or_shared(earlier) != or_shared(later)) order(or_shared(earlier), or_shared(later));
}
void record_stream(const void* memory, void* stream) { pool().record(memory, or_shared(stream)); }
void synchronize() {
  refuse_in_run("item(), host() or another call that waits for the GPU");
  check(cudaStreamSynchronize(current()), "cudaStreamSynchronize");
  throw_report(current());
}
Stream::Stream() : gpu_(current_device()) {
  cudaStream_t made = nullptr;
  check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "cudaStreamCreate");
  stream_ = made;
}
Stream::~Stream() {
  const GpuScope scope(gpu_);
  cudaStreamSynchronize(static_cast<cudaStream_t>(stream_));
  pool().trim();
  cudaStreamDestroy(static_cast<cudaStream_t>(stream_));
  cudaGetLastError();
}
StreamScope::StreamScope(void* stream) : before_(chosen_on(current_device())) { set_stream(stream); }
StreamScope::~StreamScope() { set_stream(before_); }
Report* report() { return reports.here().device; }

unsigned* counters(Index count) {
  require(count <= most_counters, "a kernel needs ", count, " counters; there are ", most_counters);
  return counters_of(current());
}
void* allocate(std::size_t bytes) {
  const int gpu = current_device();
  return pool().allocate(bytes, gpu, current_on(gpu), memory_of_run());
}
void release(void* memory, std::size_t) noexcept { pool().release(memory); }
void trim() {
  refuse_in_run("cuda::trim()");
  pool().trim();
}
void count_blocks(std::uint64_t memory) { pool().begin_count(memory); }
BlockCounts counted_blocks(std::uint64_t memory) { return pool().counted(memory); }
void reserve_blocks(std::uint64_t memory, const BlockCounts& counts) { pool().reserve(memory, counts); }
GraphMemory::GraphMemory() : gpu_(current_device()), stream_(current()), id_(pool().open_graph(current())) {}
GraphMemory::~GraphMemory() { pool().close_graph(id_); }
GraphMemory::Scope::Scope(const GraphMemory& memory) noexcept : gpu_(current_device()) {
  use_gpu(memory.gpu_);
  stream_ = std::exchange(chosen_on(memory.gpu_), static_cast<cudaStream_t>(memory.stream_));
}
GraphMemory::Scope::~Scope() {
  chosen_on(current_device()) = static_cast<cudaStream_t>(stream_);
  use_gpu(gpu_);
}
void GraphMemory::require_own_stream() const {
  refuse_in_run("another run");
  require(stream_ == current(),
          "a cuda::Graph runs on the stream of its first run; the calling thread has another one");
}
MemoryStats memory_stats() { return pool().stats(); }

void allow_tf32(bool allow) { allows_tf32 = allow; }
bool tf32_is_allowed() { return allows_tf32; }

}  // namespace heddle::cuda
