// Loads and stores of neighboring elements at once, in accesses of up to 16 bytes.
#pragma once
#include <algorithm>
#include <heddle/base/bf16.hpp>

#include "unrolled.cuh"

namespace heddle::cuda {

inline constexpr int access_bytes = 16;  // the widest access of a thread

template <class T, int count>
struct alignas(sizeof(T) * count) Vector {
  T at[count];
};

// The number of elements of the widest of these types in one 16-byte access. Kernels with operands of several types use
// it for all of them.
template <class... T>
inline constexpr int vector_width = access_bytes / static_cast<int>(std::max({sizeof(T)...}));

// Stops the grid with a fault if an access is misaligned, in the emulator only. On a GPU, such an access destroys the
// context.
template <int count, class T>
__device__ void require_aligned([[maybe_unused]] const T* address) {
#ifndef __CUDACC__
  if (reinterpret_cast<std::uintptr_t>(address) % (sizeof(T) * count))
    emulator::fault("an access of several elements is misaligned", emulator::Where::current());
#endif
}

// Loads or stores a vector, in accesses of up to 16 bytes. The address must be aligned to the size of the vector.
template <int count, class T>
__device__ Vector<T, count> load_vector(const T* from) {
  require_aligned<count>(from);
  return *reinterpret_cast<const Vector<T, count>*>(from);
}
template <int count, class T>
__device__ void store_vector(T* to, const Vector<T, count>& values) {
  require_aligned<count>(to);
  *reinterpret_cast<Vector<T, count>*>(to) = values;
}

// Stores a vector in global memory as store_vector() does, but in whole accesses: nvcc 13.0 splits some of
// store_vector()'s into single elements.
template <int count, class T>
__device__ void store_global(T* to, const Vector<T, count>& values) {
#ifdef __CUDACC__
  constexpr int bytes = sizeof(T) * count, word = sizeof(std::uint32_t);
  if constexpr (bytes % (2 * word) == 0) {
    const auto w = __builtin_bit_cast(Vector<std::uint32_t, bytes / word>, values);
    const std::size_t at = __cvta_generic_to_global(to);
    unrolled<bytes / access_bytes>([&](int i) {
      asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(at + i * access_bytes), "r"(w.at[4 * i]),
                   "r"(w.at[4 * i + 1]), "r"(w.at[4 * i + 2]), "r"(w.at[4 * i + 3])
                   : "memory");
    });
    if constexpr (bytes % access_bytes > 0)
      asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(at), "r"(w.at[0]), "r"(w.at[1]) : "memory");
    return;
  }
#endif
  store_vector(to, values);
}

// Copies 16 bytes between aligned addresses, in one access. nvcc 13.0 sometimes splits that of a Vector.
template <class T>
__device__ void copy_access(T* to, const T* from) {
  constexpr int count = access_bytes / static_cast<int>(sizeof(T));
  require_aligned<count>(from);
  require_aligned<count>(to);
#ifdef __CUDACC__
  *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
#else
  std::memcpy(to, from, access_bytes);
#endif
}

// Returns whether vectors of `width` elements may begin at each of the pointers.
template <int width, class... T>
bool aligned(const T*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % (sizeof(T) * width) == 0) && ...);
}

// Adds 1 to a number in the GPU's memory and returns the old value. If thread B gets a larger value than thread A, B
// sees the writes that A made before its call; after a barrier the other threads of B's block see them, too.
__device__ inline unsigned count_after_writes(unsigned* number) {
#ifdef __CUDACC__
  unsigned before;
  asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;" : "=r"(before) : "l"(number) : "memory");
  return before;
#else
  return __atomic_fetch_add(number, 1u, __ATOMIC_ACQ_REL);
#endif
}

// Returns two floats, each rounded to bf16, in one word. The first is the lower half.
__device__ inline std::uint32_t round_pair(float first, float second) {
#ifdef __CUDACC__
  std::uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
  return word;
#else
  return bf16(first).bits | std::uint32_t{bf16(second).bits} << 16;
#endif
}

// Returns byte `from` of each half of x, from 0 or 1, as the bytes of a half.
__device__ inline std::uint32_t byte_of_halves(std::uint32_t x, int from) {
#ifdef __CUDACC__
  return __byte_perm(x, 0, from == 0 ? 0x4420 : 0x4431);
#else
  return (x >> 8 * from & 0xffu) | (x >> (8 + 8 * from) & 0xff00u);
#endif
}

// Returns a word whose halves have the top bit of the halves of x in all bits.
__device__ inline std::uint32_t spread_signs(std::uint32_t x) {
#ifdef __CUDACC__
  std::uint32_t word;
  asm("prmt.b32 %0, %1, 0, 0xbb99;" : "=r"(word) : "r"(x));
  return word;
#else
  return (x >> 31) * 0xffff0000u | (x >> 15 & 1) * 0xffffu;
#endif
}

}  // namespace heddle::cuda
