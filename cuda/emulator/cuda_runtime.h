// Replaces NVIDIA's header of this name in builds for the emulator. Declares keywords and functions of CUDA C++ for
// kernels (more than heddle's kernels use) and the runtime's functions for host code.
#pragma once
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>

#include "grid.hpp"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__ __restrict

// --- threads of a block and of a warp -------------------------------------------------------------------------------

namespace heddle::emulator {

// Returns the bytes of a value of at most eight bytes as an integer, which shuffle() takes.
template <class T>
std::uint64_t to_bits(T value) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t) && std::is_trivially_copyable_v<T>);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}
template <class T>
T from_bits(std::uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

inline unsigned lane() { return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32; }

}  // namespace heddle::emulator

inline void __syncthreads(heddle::emulator::Where where = heddle::emulator::Where::current()) {
  heddle::emulator::barrier(where);
}
inline int __syncthreads_count(int vote, heddle::emulator::Where where = heddle::emulator::Where::current()) {
  return static_cast<int>(heddle::emulator::barrier_count(vote != 0, where));
}
inline int __syncthreads_or(int vote, heddle::emulator::Where where = heddle::emulator::Where::current()) {
  return heddle::emulator::barrier_count(vote != 0, where) > 0;
}
inline void __syncwarp(unsigned mask = ~0u, heddle::emulator::Where where = heddle::emulator::Where::current()) {
  heddle::emulator::sync_warp(mask, where);
}
inline unsigned __ballot_sync(unsigned mask, int vote,
                              heddle::emulator::Where where = heddle::emulator::Where::current()) {
  return heddle::emulator::ballot(mask, vote != 0, where);
}
inline int __any_sync(unsigned mask, int vote, heddle::emulator::Where where = heddle::emulator::Where::current()) {
  return heddle::emulator::ballot(mask, vote != 0, where) != 0;
}
inline int __all_sync(unsigned mask, int vote, heddle::emulator::Where where = heddle::emulator::Where::current()) {
  return heddle::emulator::ballot(mask, vote == 0, where) == 0;
}

// Shuffles within segments of `width` lanes. __shfl_sync wraps `source` into the lane's segment. __shfl_up_sync and
// __shfl_down_sync keep the lane's own value if the source is outside its segment; __shfl_xor_sync keeps it only if the
// source is beyond the segment's end.
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              heddle::emulator::Where where = heddle::emulator::Where::current()) {
  using namespace heddle::emulator;
  const unsigned segment = lane() & ~static_cast<unsigned>(width - 1);
  return from_bits<T>(shuffle(mask, to_bits(value),
                              segment | (static_cast<unsigned>(source) & static_cast<unsigned>(width - 1)), where));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int with, int width = 32,
                  heddle::emulator::Where where = heddle::emulator::Where::current()) {
  using namespace heddle::emulator;
  const unsigned self = lane(), source = self ^ static_cast<unsigned>(with);
  const unsigned end = (self & ~static_cast<unsigned>(width - 1)) + static_cast<unsigned>(width);
  return from_bits<T>(shuffle(mask, to_bits(value), source < end ? source : self, where));
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32,
                   heddle::emulator::Where where = heddle::emulator::Where::current()) {
  using namespace heddle::emulator;
  const unsigned self = lane(), place = self % static_cast<unsigned>(width);
  return from_bits<T>(
      shuffle(mask, to_bits(value), place + by < static_cast<unsigned>(width) ? self + by : self, where));
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32,
                 heddle::emulator::Where where = heddle::emulator::Where::current()) {
  using namespace heddle::emulator;
  const unsigned self = lane(), place = self % static_cast<unsigned>(width);
  return from_bits<T>(shuffle(mask, to_bits(value), place >= by ? self - by : self, where));
}

// --- atomics: across all blocks, with relaxed memory order -----------------------------------------------------------

template <class T>
T atomicAdd(T* address, T value) {
  if constexpr (std::is_integral_v<T>) {
    return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
  } else {
    T old, sum;
    __atomic_load(address, &old, __ATOMIC_RELAXED);
    do sum = old + value;
    while (!__atomic_compare_exchange(address, &old, &sum, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return old;
  }
}
template <class T>
T atomicOr(T* address, T value) {
  return __atomic_fetch_or(address, value, __ATOMIC_RELAXED);
}
template <class T>
T atomicExch(T* address, T value) {
  T old;
  __atomic_exchange(address, &value, &old, __ATOMIC_RELAXED);
  return old;
}
template <class T>
T atomicMax(T* address, T value) {
  T old = __atomic_load_n(address, __ATOMIC_RELAXED);
  while (old < value && !__atomic_compare_exchange_n(address, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}

// Does nothing: the emulator runs GPU threads in turn, so writes are visible at once, and its search for races ignores
// fences.
inline void __threadfence_system() {}

// --- functions ------------------------------------------------------------------------------------------------------

inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }
inline int __popc(unsigned x) { return std::popcount(x); }
template <class T>
T __ldg(const T* address) {
  return *address;
}

#include "runtime.hpp"
