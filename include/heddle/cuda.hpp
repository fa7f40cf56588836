// The seam: everything that the CUDA backend provides, on one page. Defined in cuda/*.cu; plain C++ for whoever includes it.
// Every function is called on the host. Work is queued on the calling thread's stream, and functions return before it is done
// unless they say that they wait. They throw CudaError for what CUDA reports.
#pragma once
#include <string>

#include <heddle/memory.hpp>
#include <heddle/view.hpp>

namespace heddle::cuda {

// Empty where there is a GPU that this build can use; else why there is none, as a sentence.
std::string unavailable();

// --- streams and memory (cuda/runtime.cu) ---

// The calling thread's stream, a cudaStream_t: one of its own, or the user's.
void* stream();
// A null pointer goes back to the thread's own. What was queued before is not waited for.
void set_stream(void* stream);
// Waits for all that was queued on the calling thread's stream.
void synchronize();

// At least `bytes`, uninitialised and aligned to 256, for work on the calling thread's stream. Throws OutOfMemory.
void* allocate(std::size_t bytes);
// Takes back what allocate gave for as many bytes, for the next request on the stream that it was allocated for. Work that
// the calling thread has queued on another stream may still use it.
void release(void* memory, std::size_t bytes) noexcept;
// Gives all blocks that are not in use back to the system. Waits.
void trim();
// Of the GPU, in all threads.
MemoryStats memory_stats();

// The source may be used again at once.
void to_device(void* to, const void* from, std::size_t bytes);
// Waits.
void to_host(void* to, const void* from, std::size_t bytes);
void on_device(void* to, const void* from, std::size_t bytes);

}  // namespace heddle::cuda

namespace heddle::kernel {

// T is float or bf16. Shapes and formulas as of the Cpu overloads.

template <class T>
void layer_norm(Cuda, View<const T, 2> x, View<const T, 1> gamma, View<const T, 1> beta, double eps, View<T, 2> y,
                View<float, 1> mean, View<float, 1> rstd);
template <class T>
void layer_norm_backward(Cuda, View<const T, 2> dy, View<const T, 2> x, View<const T, 1> gamma,
                         View<const float, 1> mean, View<const float, 1> rstd, View<T, 2> dx, View<T, 1> dgamma,
                         View<T, 1> dbeta);

}  // namespace heddle::kernel
