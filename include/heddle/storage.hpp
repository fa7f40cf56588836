// Storage: the block of memory that the handles of a tensor share, and the count of writes to it.
#pragma once
#include <heddle/memory.hpp>
#ifdef HEDDLE_CUDA
#include <heddle/cuda_calls.hpp>
#endif

namespace heddle {

// Memory on a device from its cache. Throws OutOfMemory, and Error for a device that this build does not have.
inline void* allocate_on([[maybe_unused]] Device device, std::size_t bytes) {
#ifdef HEDDLE_CUDA
  if (device == Device::cuda) return cuda::allocate(bytes);
#endif
  return HostPool::instance().allocate(bytes);
}
inline void release_on([[maybe_unused]] Device device, void* memory, std::size_t bytes) noexcept {
#ifdef HEDDLE_CUDA
  if (device == Device::cuda) return cuda::release(memory, bytes);
#endif
  HostPool::instance().release(memory, bytes);
}

// Of its own, or the user's.
struct Storage {
  void* const memory;
  const std::size_t bytes;
  const Device device;
  const bool owned;
  std::uint64_t version = 0;

  // Takes `size` bytes of the device, or the user's at `wrapped`, which stay his. Throws OutOfMemory.
  Storage(void* wrapped, std::size_t size, Device where)
      : memory(wrapped ? wrapped : allocate_on(where, size)), bytes(size), device(where), owned(!wrapped) {}
  Storage(const Storage&) = delete;
  ~Storage() {
    if (owned) release_on(device, memory, bytes);
  }
};

}  // namespace heddle
