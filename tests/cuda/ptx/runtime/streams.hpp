// Streams. Work runs when it is enqueued, or, with PTX_LAZY=1, when a call waits for it. A
// stream that captures runs no work, but adds it to a graph.
#pragma once
#include <cuda_runtime_api.h>

#include <functional>

namespace heddle::ptx {

// Returns whether a stream exists and takes work from a thread with this current GPU. The default stream takes all.
bool is_stream_of(cudaStream_t stream, int gpu);
// Enqueues work. Returns an error if the stream does not exist.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work);
// Whether a stream captures the work that is enqueued on it.
bool is_capturing(cudaStream_t stream);
// Returns whether a stream captures for the calling thread. If so, invalidates the capture and refuses `call`, which no
// capture allows.
bool breaks_capture(const char* call);
// Runs the enqueued work of a stream that exists.
void run_stream(cudaStream_t stream);
void run_all_streams();

}  // namespace heddle::ptx
