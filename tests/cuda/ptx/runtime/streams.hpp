// Streams. Work runs when it is enqueued, or, with PTX_LAZY=1, when a call waits for it.
#pragma once
#include <cuda_runtime_api.h>

#include <functional>

namespace heddle::ptx {

// Enqueues work. Returns an error if the stream does not exist.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work);
// Runs the enqueued work of a stream that exists.
void run_stream(cudaStream_t stream);
void run_all_streams();

}  // namespace heddle::ptx
