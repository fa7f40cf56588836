#include "streams.hpp"

#include <chrono>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "counts.hpp"
#include "devices.hpp"
#include "environment.hpp"
#include "errors.hpp"

namespace heddle::ptx {

namespace {

using Nodes = std::vector<std::function<void()>>;  // an executable graph

// The work that a stream has captured, in its order.
struct Graph {
  Nodes nodes;
  std::thread::id thread = std::this_thread::get_id();
  bool is_valid = true;  // the thread has made no call that a capture does not allow
};

struct Stream {
  int gpu = current_gpu;
  std::vector<std::function<void()>> work;
  std::unique_ptr<Graph> captured;  // null if the stream does not capture

  void run() {
    for (auto& part : std::exchange(work, {})) part();
  }
};

struct Event {
  int gpu = current_gpu;
  Stream* stream = nullptr;  // the one that has recorded it, or null
  std::chrono::steady_clock::time_point time{};
};

Stream default_stream;
std::set<Stream*> created;

// Returns nullptr for a stream that does not exist.
Stream* find(cudaStream_t stream) {
  if (stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread) return &default_stream;
  auto* const found = reinterpret_cast<Stream*>(stream);
  return created.contains(found) ? found : nullptr;
}

cudaError_t refuse_stream(const char* call) {
  return refuse(cudaErrorInvalidResourceHandle, std::string(call) + ": the stream does not exist");
}

// Refuses a call on a stream that captures.
bool is_refused_in_capture(const Stream& stream, const char* call) { return stream.captured && breaks_capture(call); }

Event& event_of(cudaEvent_t event) { return *reinterpret_cast<Event*>(event); }

// Runs the work that was enqueued before an event, and perhaps later work of its stream. A stream may be gone by now.
void run_until(const Event& event) {
  if (event.stream == &default_stream || created.contains(event.stream)) event.stream->run();
}

}  // namespace

bool is_stream_of(cudaStream_t stream, int gpu) {
  const Stream* const found = find(stream);
  return found == &default_stream || (found && found->gpu == gpu);
}

cudaError_t enqueue(cudaStream_t stream, std::function<void()> work) {
  Stream* const found = find(stream);
  if (!found) return refuse_stream("a launch or a copy");
  if (found->captured) {
    found->captured->nodes.push_back(std::move(work));
    return success();
  }
  if (runtime_options.lazy_streams)
    found->work.push_back(std::move(work));
  else
    work();
  return success();
}

bool breaks_capture(const char* call) {
  bool any = false;
  for (Stream* stream : created)
    if (stream->captured && stream->captured->thread == std::this_thread::get_id()) {
      stream->captured->is_valid = false;
      any = true;
    }
  if (any) refuse(cudaErrorStreamCaptureUnsupported, std::string(call) + " while a stream captures");
  return any;
}
bool is_capturing(cudaStream_t stream) {
  const Stream* const found = find(stream);
  return found && found->captured;
}

void run_stream(cudaStream_t stream) { find(stream)->run(); }

void run_all_streams() {
  default_stream.run();
  for (Stream* stream : created) stream->run();
}

}  // namespace heddle::ptx

using namespace heddle::ptx;

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const RuntimeLock lock;
  *stream = reinterpret_cast<cudaStream_t>(*created.insert(new Stream).first);
  return success();
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, 0); }
// The stream stays in memory, so that no later one has the same handle.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const RuntimeLock lock;
  Stream* const found = find(stream);
  if (!found || found == &default_stream) return refuse_stream("cudaStreamDestroy");
  found->run();
  created.erase(found);
  return success();
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const RuntimeLock lock;
  if (breaks_capture("cudaStreamSynchronize")) return cudaErrorStreamCaptureUnsupported;
  ++calls.waits;
  Stream* const found = find(stream);
  if (!found) return refuse_stream("cudaStreamSynchronize");
  found->run();
  return success();
}
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  const RuntimeLock lock;
  const Stream* const found = find(stream);
  if (!found) return refuse_stream("cudaStreamGetDevice");
  *device = found == &default_stream ? current_gpu : found->gpu;
  return success();
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const RuntimeLock lock;
  Stream* const found = find(stream);
  if (!found) return refuse_stream("cudaStreamWaitEvent");
  if (is_refused_in_capture(*found, "cudaStreamWaitEvent")) return cudaErrorStreamCaptureUnsupported;
  if (event_of(event).stream != found) run_until(event_of(event));
  return success();
}
cudaError_t cudaDeviceSynchronize() {
  const RuntimeLock lock;
  if (breaks_capture("cudaDeviceSynchronize")) return cudaErrorStreamCaptureUnsupported;
  ++calls.waits;
  run_all_streams();
  return success();
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const RuntimeLock lock;
  Stream* const found = find(stream);
  if (!found || found == &default_stream) return refuse_stream("cudaStreamBeginCapture");
  if (found->captured) return refuse(cudaErrorIllegalState, "cudaStreamBeginCapture: the stream captures already");
  found->captured = std::make_unique<Graph>();
  return success();
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const RuntimeLock lock;
  *graph = nullptr;
  Stream* const found = find(stream);
  if (!found || !found->captured)
    return refuse(cudaErrorIllegalState, "cudaStreamEndCapture: the stream captures nothing");
  std::unique_ptr<Graph> captured = std::move(found->captured);
  if (!captured->is_valid) return fail(cudaErrorStreamCaptureInvalidated);
  *graph = reinterpret_cast<cudaGraph_t>(captured.release());
  return success();
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  const RuntimeLock lock;
  *executable = reinterpret_cast<cudaGraphExec_t>(new Nodes(reinterpret_cast<Graph*>(graph)->nodes));
  return success();
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  const RuntimeLock lock;
  Stream* const found = find(stream);
  if (!found) return refuse_stream("cudaGraphLaunch");
  if (is_refused_in_capture(*found, "cudaGraphLaunch")) return cudaErrorStreamCaptureUnsupported;
  ++calls.graphs;
  for (const auto& node : *reinterpret_cast<Nodes*>(executable))
    if (const cudaError_t error = enqueue(stream, node); error != cudaSuccess) return error;
  return success();
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const RuntimeLock lock;
  delete reinterpret_cast<Graph*>(graph);
  return success();
}
// Enqueued launches of the graph have copies of its work.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  const RuntimeLock lock;
  delete reinterpret_cast<Nodes*>(executable);
  return success();
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new Event);
  return success();
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete &event_of(event);
  return success();
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const RuntimeLock lock;
  Stream* const found = find(stream);
  if (!found) return refuse_stream("cudaEventRecord");
  if (is_refused_in_capture(*found, "cudaEventRecord")) return cudaErrorStreamCaptureUnsupported;
  const int gpu = event_of(event).gpu;
  if (!is_stream_of(stream, gpu))
    return refuse(cudaErrorInvalidResourceHandle, "cudaEventRecord: the event and the stream belong to two GPUs");
  event_of(event) = {gpu, found, std::chrono::steady_clock::now()};
  return success();
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const RuntimeLock lock;
  if (breaks_capture("cudaEventSynchronize")) return cudaErrorStreamCaptureUnsupported;
  ++calls.waits;
  run_until(event_of(event));
  return success();
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaEventSynchronize(event); }
// The time between the calls that recorded the events.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t first, cudaEvent_t last) {
  *milliseconds = std::chrono::duration<float, std::milli>(event_of(last).time - event_of(first).time).count();
  return success();
}

}  // extern "C"
