// A block's shared memory, handed out array by array, so that the emulator can check the bounds of each.
#pragma once
#include "launch.cuh"

namespace heddle::cuda {

// Returns a shared array of the block; its size is part of T. `which` distinguishes the arrays of one type in a kernel:
//   auto& partial = shared<float[warps][columns]>();
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

// Arrays of the dynamic shared memory, one after another: every thread takes the same ones in the same order. Their bytes,
// each rounded up to 16, are those that the kernel is launched with.
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
  // Returns the bytes that an array takes of the launch's shared memory.
  HEDDLE_HD static constexpr std::size_t rounded(std::size_t bytes) { return (bytes + 15) / 16 * 16; }

 private:
  [[maybe_unused]] unsigned used_ = 0;
};

}  // namespace heddle::cuda
