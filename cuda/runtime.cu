// Streams, memory and settings. Memory comes from a cache, because cudaMalloc and cudaFree synchronize with the whole
// GPU. A block belongs to the stream it was allocated for and is reused there without synchronization, because the work
// of a stream runs in order. Work of another stream delays the reuse if it was enqueued by the thread that releases the
// block, or if record_stream() names its stream. A block of a Graph's memory is reused by runs of that Graph only.
#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <vector>

#include <heddle/gpu/graphs.hpp>
#include <heddle/gpu/kernels.hpp>
#include "device/graph_run.cuh"
#include "device/launch.cuh"
#include "device/report.cuh"
#include "device/steps.cuh"
#include "device/workspace.cuh"

namespace heddle::cuda {
namespace {

// --- streams ---

thread_local cudaStream_t chosen = nullptr;

cudaStream_t new_stream() {
  cudaStream_t made = nullptr;
  check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "cudaStreamCreate");
  return made;
}

// Returns `stream`, or the shared stream if it is null. On the shared stream, work of one thread runs before work
// that another thread enqueues later. The shared stream is never destroyed, because tensors in static storage are
// released late.
cudaStream_t or_shared(void* stream) {
  static const cudaStream_t shared = new_stream();
  return stream ? static_cast<cudaStream_t>(stream) : shared;
}
cudaStream_t current() { return or_shared(chosen); }

// Orders later work on `later` after the work that is enqueued on `earlier`.
void order(cudaStream_t earlier, cudaStream_t later) noexcept {
  cudaEvent_t event = nullptr;
  if (cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess &&
      cudaEventRecord(event, earlier) == cudaSuccess && cudaStreamWaitEvent(later, event, 0) == cudaSuccess &&
      cudaEventDestroy(event) == cudaSuccess)
    return;
  cudaGetLastError();
  cudaDeviceSynchronize();
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
  std::size_t size = 0;
  cudaStream_t owner = nullptr;      // the stream that it belongs to
  std::uint64_t graph = 0;           // the memory of a Graph that it is part of, or 0
  std::uint64_t trial = 0;           // the memory for whose trial it was allocated, or 0
  std::uint64_t count = 0;           // the number of that trial
  std::vector<cudaStream_t> others;  // whose work may use it

  void used_on(cudaStream_t stream) {
    if (stream != owner && std::find(others.begin(), others.end(), stream) == others.end()) others.push_back(stream);
  }
};

class Pool {
 public:
  // `run` is the calling thread's run of a Graph, if there is one. A recorded run takes blocks of the Graph's memory. A
  // trial takes others, because what it makes may outlive it, and is counted.
  void* allocate(std::size_t bytes, cudaStream_t stream, const MemoryOfRun& run) {
    const std::size_t kept = kept_size(bytes);
    const std::lock_guard lock(mutex_);
    Block block;
    block.size = detail::memory_is_cached ? kept : std::max<std::size_t>(bytes, 1);
    block.owner = stream;
    void* memory = nullptr;
    if (run.is_recorded) {
      OfGraph& of = graphs_[run.memory];
      const auto fits = of.fitting(kept);
      if (fits == of.unused.end()) fail_for_memory(kept);
      block.graph = run.memory;
      block.size = fits->first;
      memory = take(fits->second, block.size);
    } else {
      memory = any_block(block.size, stream);
      if (!memory) fail_full(bytes);
    }
    if (run.memory && !run.is_recorded) {
      block.trial = run.memory;
      block.count = graphs_[run.memory].add(kept);
    }
    stats_.in_use += block.size;
    stats_.peak = std::max(stats_.peak, stats_.in_use);
    in_use_[memory] = std::move(block);
    return memory;
  }

  void record(const void* memory, cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    const auto found = in_use_.find(memory);
    require(found != in_use_.end(), "record_stream: the address does not come from cuda::allocate, or was released");
    found->second.used_on(stream);
  }

  void release(void* memory, cudaStream_t stream) noexcept {
    const std::lock_guard lock(mutex_);
    Block block = std::move(in_use_.extract(memory).mapped());
    stats_.in_use -= block.size;
    if (const auto trial = graphs_.find(block.trial); trial != graphs_.end()) trial->second.remove(block);
    const auto graph = graphs_.find(block.graph);
    if (graph == graphs_.end() && !detail::memory_is_cached) return give_back(memory);
    block.used_on(stream);
    for (const cudaStream_t other : block.others) order(other, block.owner);
    (graph != graphs_.end() ? graph->second.unused[block.size] : cached_[{block.owner, block.size}]).push_back(memory);
    stats_.cached += block.size;
  }

  // Opens the memory of a Graph, and returns its number. When it is closed, its blocks serve all work on the stream.
  std::uint64_t open_graph(cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    graphs_[++last_graph_].stream = stream;
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
          memory = any_block(size, of.stream);
          if (memory) stats_.cached += size;
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
          cached_[{graph.stream, size}].push_back(memory);
        } else {
          give_back(memory);
          stats_.cached -= size;
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
    return stats_;
  }

 private:
  // Takes the block that was released last; null if there is none.
  void* take(std::vector<void*>& unused, std::size_t size) {
    if (unused.empty()) return nullptr;
    void* const memory = unused.back();
    unused.pop_back();
    stats_.cached -= size;
    return memory;
  }

  // Returns a block from the cache or the driver; null if there is none.
  void* any_block(std::size_t size, cudaStream_t stream) {
    void* memory = take(cached_[{stream, size}], size);
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
        stats_.cached -= key.second;
      }
    cached_.clear();
  }

  [[noreturn]] void fail_full(std::size_t bytes) const {
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    fail<OutOfMemory>("out of memory on the GPU: ", bytes, " bytes requested, ", stats_.in_use, " bytes in use, ", free,
                      " of ", total, " bytes free");
  }

  struct OfGraph {
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
  std::map<std::pair<cudaStream_t, std::size_t>, std::vector<void*>> cached_;
  std::map<std::uint64_t, OfGraph> graphs_;
  std::uint64_t last_graph_ = 0;
  MemoryStats stats_;
};

// Returns the process's pool. It is never destroyed, because a tensor in static storage may be released after
// everything else.
Pool& pool() {
  static Pool* const one = new Pool;
  return *one;
}

constexpr Index most_counters = 64;  // of a stream

// Returns the counters of a stream, whose kernels run one after the other. They are never freed, like the pool: a later
// stream of the same address finds zeros as well.
unsigned* counters_of(cudaStream_t stream) {
  static std::mutex mutex;
  static auto* const of_streams = new std::map<cudaStream_t, unsigned*>;
  const std::lock_guard lock(mutex);
  unsigned*& memory = (*of_streams)[stream];
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

// The host and device addresses of the record of invalid input (device/report.cuh). It is never freed, like the pool.
struct Reports {
  Report* host = nullptr;
  Report* device = nullptr;

  Reports() {
    check(cudaHostAlloc(reinterpret_cast<void**>(&host), sizeof(Report), cudaHostAllocMapped), "cudaHostAlloc");
    *host = {};
    check(cudaHostGetDevicePointer(reinterpret_cast<void**>(&device), host, 0), "cudaHostGetDevicePointer");
  }
};
Reports& reports() {
  static Reports one;
  return one;
}

// Throws the error for an invalid id that a kernel has reported, if any.
void throw_invalid_id() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  Report& report = *reports().host;
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

void* stream() { return current(); }
void set_stream(void* stream) { chosen = static_cast<cudaStream_t>(stream); }
void order_streams(void* earlier, void* later) noexcept {
  if (or_shared(earlier) != or_shared(later)) order(or_shared(earlier), or_shared(later));
}
void record_stream(const void* memory, void* stream) { pool().record(memory, or_shared(stream)); }
void synchronize() {
  refuse_in_run("item(), host() or another call that waits for the GPU");
  check(cudaStreamSynchronize(current()), "cudaStreamSynchronize");
  throw_report(current());
}
Report* report() { return reports().device; }

unsigned* counters(Index count) {
  require(count <= most_counters, "a kernel needs ", count, " counters; there are ", most_counters);
  return counters_of(current());
}
void* allocate(std::size_t bytes) { return pool().allocate(bytes, current(), memory_of_run()); }
void release(void* memory, std::size_t) noexcept { pool().release(memory, current()); }
void trim() {
  refuse_in_run("cuda::trim()");
  pool().trim();
}
void count_blocks(std::uint64_t memory) { pool().begin_count(memory); }
BlockCounts counted_blocks(std::uint64_t memory) { return pool().counted(memory); }
void reserve_blocks(std::uint64_t memory, const BlockCounts& counts) { pool().reserve(memory, counts); }
GraphMemory::GraphMemory() : stream_(current()), id_(pool().open_graph(current())) {}
GraphMemory::~GraphMemory() { pool().close_graph(id_); }
void GraphMemory::require_own_stream() const {
  refuse_in_run("another run");
  require(stream_ == current(),
          "a cuda::Graph runs on the stream of its first run; the calling thread has another one");
}
MemoryStats memory_stats() { return pool().stats(); }

void allow_tf32(bool allow) { allows_tf32 = allow; }
bool tf32_is_allowed() { return allows_tf32; }

}  // namespace heddle::cuda
