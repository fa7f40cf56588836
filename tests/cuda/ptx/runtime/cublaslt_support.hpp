// The functions of the runtime that the interpreter's cuBLASLt, a library of its own, calls.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>

extern "C" {

// Returns where the host finds bytes of device memory, or nullptr if they are not inside one allocation.
void* heddle_ptx_host_pointer(const void* address, std::size_t bytes);
// The calling thread's GPU; whether memory is on a GPU; whether a stream takes a GPU's work.
int heddle_ptx_current_gpu();
bool heddle_ptx_is_on(const void* address, int gpu);
bool heddle_ptx_is_stream_of(cudaStream_t stream, int gpu);
// Enqueues run(data), which a graph may run many times. Calls destroy(data) when nothing can run it any more.
cudaError_t heddle_ptx_enqueue(cudaStream_t stream, void (*run)(const void*), const void* data,
                               void (*destroy)(const void*));
// Reports a fault that a GPU would have in a product's kernel.
void heddle_ptx_raise_fault(cudaError_t error, const char* what);

// The settings: whether the heuristic knows no algorithm with an epilogue (PTX_NO_EPILOGUE); whether PTX_REFUSE, which
// may change during the run, is `what`; and whether totals are printed at exit (PTX_SUMMARY).
bool heddle_ptx_lacks_epilogues();
bool heddle_ptx_refuses(const char* what);
bool heddle_ptx_prints_summary();

}  // extern "C"
