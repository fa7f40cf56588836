#include "runtime.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "sanitizers.hpp"
#include "stack.hpp"

namespace heddle::emulator {

// The state of one call of cudaEventRecord: whether its stream has reached it, and the address by which ThreadSanitizer
// orders earlier work before work that waits for the event.
struct Record {
  bool reached = false;
  std::uint64_t order = 0;
  unsigned owners = 0;
};

// Shared ownership of a record, by its event and by queued work. Not a std::shared_ptr, whose atomic count would order
// the streams for ThreadSanitizer.
class RecordOwner {
 public:
  RecordOwner() = default;
  explicit RecordOwner(Record* record) : record_(record) {
    if (record_) ++record_->owners;
  }
  RecordOwner(const RecordOwner& other) : RecordOwner(other.record_) {}
  RecordOwner& operator=(RecordOwner other) {
    std::swap(record_, other.record_);
    return *this;
  }
  ~RecordOwner() {
    if (record_ && --record_->owners == 0) delete record_;
  }
  explicit operator bool() const { return record_ != nullptr; }
  Record* operator->() const { return record_; }

 private:
  Record* record_ = nullptr;
};

constexpr int every_device = -1;

struct Event {
  const int device;
  RecordOwner last{};  // null if it was never recorded
};

struct Work {
  std::function<void(Stream&)> run;
  RecordOwner awaited{};  // if not null, there is nothing to run: the stream waits until this event is reached
  // Orders the host's work before this enqueued work. Each piece of work has its own address, because the host's later
  // work is not ordered before it.
  std::uint64_t queued = 0;
  int device = 0;  // whose memory it may access, or every_device
};

// The work that a stream has captured, in its order, with its arguments.
struct Graph {
  std::vector<std::function<void(Stream&)>> nodes;
  std::thread::id thread = std::this_thread::get_id();
  bool is_valid = true;  // the thread has made no call that a capture does not allow
};
struct GraphExec {  // a graph that can be launched
  std::vector<std::function<void(Stream&)>> nodes;
};

// A stream. ThreadSanitizer treats it as a thread. Only enqueueing and synchronizing order its work relative to the
// host's. Therefore it has its own stack, and the host does not touch the memory of enqueued work.
struct Stream {
  explicit Stream(int number) : device(number) {}

  const int device;  // or every_device
  std::deque<std::unique_ptr<Work>> queue;
  Order grids{};
  std::uint64_t done = 0;
  std::unique_ptr<Graph> captured;  // null if the stream does not capture
  Stacks stack{1};
  Context context{.watched = races_are_watched() ? __tsan_create_fiber(0) : nullptr};
};

namespace {

thread_local int device_of_thread = 0;

struct Allocation {
  std::size_t bytes;
  int device;
};

struct Runtime {
  std::recursive_mutex mutex;
  Stream standard{every_device};
  std::vector<Stream*> streams{&standard};  // in the order of their creation
  std::map<const std::byte*, Allocation> memory;
  std::map<const std::byte*, std::size_t> pinned;  // host memory by address, with its bytes
  // Bytes of dynamic shared memory, by device and kernel, from cudaFuncSetAttribute.
  std::map<std::pair<int, const void*>, int> most_shared;
  cudaError_t last = cudaSuccess;
  std::uint64_t turn = 0;
};

// Returns the runtime's state. It is never destroyed, because tensors in static storage are released after
// everything else.
Runtime& runtime() {
  static Runtime* const all = new Runtime;
  return *all;
}

cudaError_t keep(cudaError_t error) {
  if (error != cudaSuccess) runtime().last = error;
  return error;
}

Stream& named(cudaStream_t stream) { return stream ? *stream : runtime().standard; }

// Returns whether a stream takes kernels and other work from a thread with this current device.
bool belongs_to(const Stream& stream, int device) { return stream.device == device || stream.device == every_device; }

// Returns the allocation that contains an address; null if there is none.
const Allocation* allocation_of(const void* address) {
  const auto* const byte = static_cast<const std::byte*>(address);
  const auto after = runtime().memory.upper_bound(byte);
  if (after == runtime().memory.begin()) return nullptr;
  const auto& [first, allocation] = *std::prev(after);
  return byte < first + allocation.bytes ? &allocation : nullptr;
}

// Enqueues work, or adds it to the graph that the stream captures.
void put(Stream& stream, Work work) {
  if (stream.captured) return stream.captured->nodes.push_back(std::move(work.run));
  if (work.device != every_device) work.device = stream.device == every_device ? device_of_thread : stream.device;
  stream.queue.push_back(std::make_unique<Work>(std::move(work)));
  release(&stream.queue.back()->queued);
}

bool can_work(const Stream& stream) {
  return !stream.queue.empty() && (!stream.queue.front()->awaited || stream.queue.front()->awaited->reached);
}

// The next work of a stream, which runs on the stream's stack.
struct Step {
  Stream& stream;
  std::unique_ptr<Work> work;
  Context host{};
  std::exception_ptr failure{};
};
Step* next_step;

void begin_step() {
  arrived();
  Step& step = *next_step;
  acquire(&step.work->queued);
  try {
    if (step.work->awaited)
      acquire(&step.work->awaited->order);
    else
      step.work->run(step.stream);
  } catch (...) {
    step.failure = std::current_exception();
  }
  step.work.reset();  // on the stream's fiber, because that fiber has read the work
  release(&step.stream.done);
  switch_context(step.stream.context, step.host, Leave::for_good);
}

// Runs the next work of a stream. A device's memory is accessible only while work of that device runs, never to the
// host or to other devices.
void work(Stream& stream) {
  Step step{stream, std::move(stream.queue.front())};
  stream.queue.pop_front();
  if (races_are_watched()) step.host.watched = __tsan_get_current_fiber();
  stream.context.bottom = stream.stack.bottom(0);
  stream.context.size = Stacks::size;
  begin_at(stream.context, begin_step);
  for (const auto& [memory, allocation] : runtime().memory)
    if (step.work->device == every_device || step.work->device == allocation.device) unpoison(memory, allocation.bytes);
  next_step = &step;
  switch_context(step.host, stream.context);
  for (const auto& [memory, allocation] : runtime().memory) poison(memory, allocation.bytes);
  if (!step.failure) return;
  acquire(&stream.done);
  std::rethrow_exception(step.failure);
}

void abandon() {
  for (Stream* stream : runtime().streams) stream->queue.clear();
}

// Returns a stream that can continue: the first one, or with a seed a random one; null if there is none.
Stream* next_stream() {
  std::vector<Stream*> able;
  for (Stream* stream : runtime().streams)
    if (can_work(*stream)) able.push_back(stream);
  if (able.empty()) return nullptr;
  const std::uint64_t seed = options().seed;
  return able[seed ? ((seed + ++runtime().turn) * 0x9e3779b97f4a7c15u >> 33) % able.size() : 0];
}

// Invalidates the calling thread's captures, and returns whether there is one: the caller refuses what no capture
// allows.
bool breaks_capture() {
  bool any = false;
  for (Stream* stream : runtime().streams)
    if (stream->captured && stream->captured->thread == std::this_thread::get_id()) {
      stream->captured->is_valid = false;
      any = true;
    }
  return any;
}
cudaError_t refuse_in_capture() { return keep(cudaErrorStreamCaptureUnsupported); }

// Returns whether host memory is pinned.
bool is_pinned(const void* memory) {
  const auto* const byte = static_cast<const std::byte*>(memory);
  const auto after = runtime().pinned.upper_bound(byte);
  return after != runtime().pinned.begin() && byte < std::prev(after)->first + std::prev(after)->second;
}

template <class Done>
void work_until(Done done) {
  while (!done()) {
    Stream* const stream = next_stream();
    if (!stream) {
      abandon();
      throw Fault("a stream waits for an event that nothing records");
    }
    try {
      work(*stream);
    } catch (...) {
      abandon();
      throw;
    }
  }
}

// Completes the work of a device.
cudaError_t finish(int device) {
  if (breaks_capture()) return refuse_in_capture();
  const auto& streams = runtime().streams;
  const auto is_done = [device](const Stream* s) { return !belongs_to(*s, device) || s->queue.empty(); };
  work_until([&] { return std::all_of(streams.begin(), streams.end(), is_done); });
  for (Stream* stream : streams)
    if (belongs_to(*stream, device)) acquire(&stream->done);
  return cudaSuccess;
}

}  // namespace

Device& device() {
  static Device all;
  return all;
}

cudaError_t enqueue(const cudaLaunchConfig_t& config, const void* kernel,
                    std::function<void(const LaunchShape&, Order&)> run) {
  const std::lock_guard lock(runtime().mutex);
  const dim3 g = config.gridDim, b = config.blockDim;
  const std::uint64_t threads = std::uint64_t{b.x} * b.y * b.z;
  const bool grid_fits = g.x > 0 && g.x < 1u << 31 && g.y > 0 && g.y < 65536 && g.z > 0 && g.z < 65536;
  if (!grid_fits || threads == 0 || threads > 1024 || b.z > 64) return keep(cudaErrorInvalidValue);
  if (races_are_watched() && threads > most_watched_threads) return keep(emulatorErrorUnwatchedBlock);
  if (!belongs_to(named(config.stream), device_of_thread)) return keep(cudaErrorInvalidResourceHandle);
  LaunchShape shape{g, b, config.dynamicSmemBytes};
  std::size_t most_dynamic = shape.most_shared;
  if (const auto asked = runtime().most_shared.find({device_of_thread, kernel}); asked != runtime().most_shared.end()) {
    most_dynamic = static_cast<std::size_t>(asked->second);
    shape.most_shared = device().shared_bytes;
  }
  if (shape.shared_bytes > most_dynamic) return keep(cudaErrorInvalidValue);
  put(named(config.stream), {[shape, run = std::move(run)](Stream& stream) { run(shape, stream.grids); }});
  return cudaSuccess;
}

void enqueue_host_work(cudaStream_t stream, std::function<void()> work) {
  const std::lock_guard lock(runtime().mutex);
  put(named(stream), {[work = std::move(work)](Stream&) { work(); }});
}

}  // namespace heddle::emulator

using namespace heddle::emulator;

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInsufficientDriver: return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorInvalidDeviceFunction: return "invalid device function";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle: return "invalid resource handle";
    case cudaErrorNoKernelImageForDevice: return "no kernel image is available for execution on the device";
    case cudaErrorUnsupportedPtxVersion: return "the provided PTX was compiled with an unsupported toolchain.";
    case cudaErrorNotReady: return "device not ready";
    case cudaErrorSystemDriverMismatch: return "system has unsupported display driver / cuda driver combination";
    case cudaErrorLaunchFailure: return "unspecified launch failure";
    case cudaErrorStreamCaptureUnsupported: return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated: return "operation failed due to a previous error during capture";
    case emulatorErrorUnwatchedBlock:
      return "ThreadSanitizer checks blocks of at most 128 threads; use block_threads() of cuda/device/launch.cuh";
  }
  return "unknown error";
}

cudaError_t cudaGetLastError() { return std::exchange(runtime().last, cudaSuccess); }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = device().count;
  if (device().driver != cudaSuccess) return keep(device().driver);
  return device().count > 0 ? cudaSuccess : keep(cudaErrorNoDevice);
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = device().driver_version;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* address, int size, int number) {
  if (number < 0 || number >= device().count) return keep(cudaErrorInvalidDevice);
  std::snprintf(address, static_cast<std::size_t>(size), "0000:%02x:00.0", static_cast<unsigned>(number));
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* number) {
  *number = device_of_thread;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int number) {
  if (number < 0 || number >= device().count) return keep(cudaErrorInvalidDevice);
  device_of_thread = number;
  return cudaSuccess;
}
constexpr std::size_t reserved_shared_bytes = 1024;  // bytes that CUDA reserves in each block
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount: *value = device().multiprocessors; return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor: *value = device().capability; return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
    case cudaDevAttrPageableMemoryAccess: *value = 0; return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(device().shared_bytes + reserved_shared_bytes);
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = static_cast<int>(device().shared_bytes); return cudaSuccess;
  }
  return keep(cudaErrorInvalidValue);
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = device().memory - device().in_use[device_of_thread];
  *total = device().memory;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  constexpr std::size_t alignment = 256;
  const std::lock_guard lock(runtime().mutex);
  *memory = nullptr;
  if (breaks_capture()) return refuse_in_capture();
  if (bytes == 0) return cudaSuccess;
  if (bytes > device().memory - device().in_use[device_of_thread] || ::posix_memalign(memory, alignment, bytes) != 0)
    return keep(cudaErrorMemoryAllocation);
  for (std::size_t i = 0; i < bytes; ++i)
    static_cast<unsigned char*>(*memory)[i] = static_cast<unsigned char>(options().fill >> (i % 4 * 8));
  device().in_use[device_of_thread] += bytes;
  runtime().memory[static_cast<const std::byte*>(*memory)] = {bytes, device_of_thread};
  poison(*memory, bytes);
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  if (!memory) return cudaSuccess;
  const std::lock_guard lock(runtime().mutex);
  const auto found = runtime().memory.find(static_cast<const std::byte*>(memory));
  if (found == runtime().memory.end()) return keep(cudaErrorInvalidValue);
  const auto [bytes, number] = found->second;
  const cudaError_t error = finish(number);
  unpoison(memory, bytes);
  device().in_use[number] -= bytes;
  runtime().memory.erase(found);
  std::free(memory);
  return error;
}
cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  const std::lock_guard lock(runtime().mutex);
  if (breaks_capture()) return refuse_in_capture();
  *memory = std::malloc(bytes);
  if (*memory) runtime().pinned[static_cast<const std::byte*>(*memory)] = bytes;
  return *memory || bytes == 0 ? cudaSuccess : keep(cudaErrorMemoryAllocation);
}
cudaError_t cudaFreeHost(void* memory) {
  const std::lock_guard lock(runtime().mutex);
  runtime().pinned.erase(static_cast<const std::byte*>(memory));
  std::free(memory);
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) { return cudaMallocHost(memory, bytes); }
cudaError_t cudaHostGetDevicePointer(void** memory, void* host, unsigned) {
  *memory = host;
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  const std::lock_guard lock(runtime().mutex);
  const Allocation* const allocation = allocation_of(memory);
  attributes->type = allocation          ? cudaMemoryTypeDevice
                     : is_pinned(memory) ? cudaMemoryTypeHost
                                         : cudaMemoryTypeUnregistered;
  attributes->device = allocation ? allocation->device : device_of_thread;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  const std::lock_guard lock(runtime().mutex);
  const void* const host = kind == cudaMemcpyHostToDevice ? from : kind == cudaMemcpyDeviceToHost ? to : nullptr;
  if (named(stream).captured && host && !is_pinned(host) && breaks_capture()) return refuse_in_capture();
  put(named(stream), {[=](Stream&) { std::memcpy(to, from, bytes); }});
  return cudaSuccess;
}
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, std::size_t bytes,
                                cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  const std::lock_guard lock(runtime().mutex);
  const Allocation *const target = allocation_of(to), *const source = allocation_of(from);
  if (!target || !source || target->device != to_device || source->device != from_device)
    return keep(cudaErrorInvalidValue);
  Work work{[=](Stream&) { std::memcpy(to, from, bytes); }};
  work.device = every_device;
  put(named(stream), std::move(work));
  return cudaSuccess;
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_stride, const void* from, std::size_t from_stride,
                              std::size_t width, std::size_t rows, cudaMemcpyKind kind, cudaStream_t stream) {
  if (kind != cudaMemcpyDeviceToDevice || width > to_stride || width > from_stride) return keep(cudaErrorInvalidValue);
  const std::lock_guard lock(runtime().mutex);
  put(named(stream), {[=](Stream&) {
        for (std::size_t row = 0; row < rows; ++row)
          std::memcpy(static_cast<std::byte*>(to) + row * to_stride,
                      static_cast<const std::byte*>(from) + row * from_stride, width);
      }});
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  const std::lock_guard lock(runtime().mutex);
  put(named(stream), {[=](Stream&) { std::memset(memory, value, bytes); }});
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const std::lock_guard lock(runtime().mutex);
  runtime().streams.push_back(*stream = new Stream(device_of_thread));
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const cudaError_t error = cudaStreamSynchronize(stream);
  const std::lock_guard lock(runtime().mutex);
  std::erase(runtime().streams, stream);
  if (stream->context.watched) __tsan_destroy_fiber(stream->context.watched);
  delete stream;
  return error;
}
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  const Stream& of = named(stream);
  *device = of.device == every_device ? device_of_thread : of.device;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const std::lock_guard lock(runtime().mutex);
  if (breaks_capture()) return refuse_in_capture();
  Stream& waited = named(stream);
  work_until([&] { return waited.queue.empty(); });
  acquire(&waited.done);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const std::lock_guard lock(runtime().mutex);
  if (named(stream).captured && breaks_capture()) return refuse_in_capture();
  if (event->last) put(named(stream), {{}, event->last});
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  const std::lock_guard lock(runtime().mutex);
  return finish(device_of_thread);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new Event{device_of_thread};
  return cudaSuccess;
}
// Returns at once: queued work owns the records that it refers to.
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::lock_guard lock(runtime().mutex);
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(runtime().mutex);
  if (named(stream).captured && breaks_capture()) return refuse_in_capture();
  if (!belongs_to(named(stream), event->device)) return keep(cudaErrorInvalidResourceHandle);
  event->last = RecordOwner(new Record);
  put(named(stream), {[record = event->last](Stream&) {
        release(&record->order);
        record->reached = true;
      }});
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const std::lock_guard lock(runtime().mutex);
  if (breaks_capture()) return refuse_in_capture();
  const RecordOwner last = event->last;
  if (!last) return cudaSuccess;
  work_until([&] { return last->reached; });
  acquire(&last->order);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(runtime().mutex);
  return !event->last || event->last->reached ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const std::lock_guard lock(runtime().mutex);
  if (!stream || stream->captured) return keep(cudaErrorInvalidValue);
  stream->captured = std::make_unique<Graph>();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(runtime().mutex);
  *graph = nullptr;
  if (!stream || !stream->captured) return keep(cudaErrorInvalidValue);
  const std::unique_ptr<Graph> captured = std::move(stream->captured);
  if (!captured->is_valid) return keep(cudaErrorStreamCaptureInvalidated);
  *graph = new Graph(std::move(*captured));
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  const std::lock_guard lock(runtime().mutex);
  *executable = new GraphExec{graph->nodes};
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  const std::lock_guard lock(runtime().mutex);
  if (named(stream).captured && breaks_capture()) return refuse_in_capture();
  for (const auto& node : executable->nodes) put(named(stream), {node});
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const std::lock_guard lock(runtime().mutex);
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  const std::lock_guard lock(runtime().mutex);
  delete executable;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int value) {
  const std::lock_guard lock(runtime().mutex);
  if (value < 0 || static_cast<std::size_t>(value) > device().shared_bytes) return keep(cudaErrorInvalidValue);
  runtime().most_shared[{device_of_thread, kernel}] = value;
  return cudaSuccess;
}
