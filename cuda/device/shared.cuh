// A block's shared memory, handed out array by array, so that the emulator can check the bounds of each.
#pragma once
#include "launch.cuh"

namespace heddle::cuda {

// Returns a shared array of the block; its size is part of T:
//   auto& partial = shared<float[warps][columns]>();
// `which` distinguishes the arrays of one type in a kernel.
template <class T, int which = 0>
__device__ T& shared() {
#ifdef __CUDACC__
  __shared__ __align__(16) T array;
  return array;
#else
  static const char key = 0;
  return *static_cast<T*>(emulator::fixed_shared(&key, sizeof(T), emulator::Where::current()));
#endif
}

// The dynamic shared memory, handed out as consecutive arrays. Every thread must take the same arrays in the same
// order. The launch must reserve the sum of their sizes, each rounded up to 16 bytes.
class SharedArrays {
 public:
  template <class T>
  __device__ T* take(int count) {
    const unsigned bytes = static_cast<unsigned>(count) * static_cast<unsigned>(sizeof(T));
#ifdef __CUDACC__
    extern __shared__ __align__(128) unsigned char memory[];
    T* const array = reinterpret_cast<T*>(memory + used_);
    used_ += static_cast<unsigned>(rounded(bytes));
    return array;
#else
    return static_cast<T*>(emulator::next_shared(bytes, emulator::Where::current()));
#endif
  }
  // Returns how many bytes of the launch's shared memory an array takes.
  HEDDLE_HD static constexpr std::size_t rounded(std::size_t bytes) { return (bytes + 15) / 16 * 16; }

 private:
  [[maybe_unused]] unsigned used_ = 0;
};

}  // namespace heddle::cuda
