// Copies from global to shared memory that bypass the registers (cp.async, sm_80). They are issued in groups, and are
// complete after wait_copies(). A thread may read the copies of other threads only after a barrier that follows their
// wait_copies().
#pragma once
#include "launch.cuh"

namespace heddle::cuda {

// Starts a copy of 16 bytes between addresses that are multiples of 16. Reads only the first `valid` bytes; the rest
// become zero.
__device__ inline void copy_async(void* to, const void* from, int valid = 16) {
#ifdef __CUDACC__
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(valid) : "memory");
#else
  emulator::copy_async(to, from, 16, static_cast<std::size_t>(valid), emulator::Where::current());
#endif
}

// Starts a copy of one number between addresses that are multiples of 4. Reads it only if it is valid; otherwise it
// becomes zero.
__device__ inline void copy_number_async(float* to, const float* from, bool is_valid) {
  const int valid = is_valid ? 4 : 0;
#ifdef __CUDACC__
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(from), "r"(valid) : "memory");
#else
  emulator::copy_async(to, from, 4, static_cast<std::size_t>(valid), emulator::Where::current());
#endif
}

// Closes a group of copies: all that were issued since the last call.
__device__ inline void commit_copies() {
#ifdef __CUDACC__
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  emulator::commit_copies();
#endif
}

// Waits until all but the last `groups` groups of this thread are complete.
template <int groups>
__device__ void wait_copies() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
#else
  emulator::wait_copies(groups);
#endif
}

}  // namespace heddle::cuda
