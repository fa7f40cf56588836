#include "streams.hpp"

#include <chrono>
#include <set>
#include <utility>
#include <vector>

#include "counts.hpp"
#include "environment.hpp"
#include "errors.hpp"

namespace heddle::ptx {

namespace {

struct Stream {
  std::vector<std::function<void()>> work;

  void run() {
    for (auto& part : std::exchange(work, {})) part();
  }
};

struct Event {
  Stream* stream = nullptr;  // the one that has recorded it, or null
  std::chrono::steady_clock::time_point time;
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

Event& event_of(cudaEvent_t event) { return *reinterpret_cast<Event*>(event); }

// Runs the work that was enqueued before an event, and perhaps later work of its stream. A stream may be gone by now.
void run_until(const Event& event) {
  if (event.stream == &default_stream || created.contains(event.stream)) event.stream->run();
}

}  // namespace

cudaError_t enqueue(cudaStream_t stream, std::function<void()> work) {
  Stream* const found = find(stream);
  if (!found) return refuse_stream("a launch or a copy");
  if (runtime_options.lazy_streams)
    found->work.push_back(std::move(work));
  else
    work();
  return success();
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
  ++calls.waits;
  Stream* const found = find(stream);
  if (!found) return refuse_stream("cudaStreamSynchronize");
  found->run();
  return success();
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const RuntimeLock lock;
  Stream* const found = find(stream);
  if (!found) return refuse_stream("cudaStreamWaitEvent");
  if (event_of(event).stream != found) run_until(event_of(event));
  return success();
}
cudaError_t cudaDeviceSynchronize() {
  const RuntimeLock lock;
  ++calls.waits;
  run_all_streams();
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
  event_of(event) = {found, std::chrono::steady_clock::now()};
  return success();
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const RuntimeLock lock;
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
