// Storage: the block of memory that the handles of a tensor share, and its version, the number of writes so far.
#pragma once
#include <cstdint>

#include <heddle/base/device.hpp>
#include <heddle/core/memory.hpp>
#include <heddle/gpu/runtime.hpp>

namespace heddle::detail {

// A memory block that is owned by heddle or borrowed from the caller. The parameter keeps the types of builds with and
// without CUDA apart.
template <bool with_cuda>
struct BasicStorage {
  void* const memory;
  const std::size_t bytes;
  const Device device;
  const int gpu;  // the number of the GPU; -1 on the CPU
  const bool owned;
  std::uint64_t version = 0;
  bool on_other_streams = false;  // whether cuda::record_stream() has named a stream that uses it

  // Allocates `size` bytes on `where`, or wraps memory owned by the caller if `wrapped` is not null. Throws
  // OutOfMemory, and Error for memory of the host that is wrapped as a GPU's.
  BasicStorage(void* wrapped, std::size_t size, Device where)
      : memory(wrapped ? wrapped : allocate(where, size)),
        bytes(size),
        device(where),
        gpu(gpu_of(wrapped, where)),
        owned(!wrapped) {}
  BasicStorage(const BasicStorage&) = delete;
  ~BasicStorage() {
    if (owned) release();
  }

 private:
  static int gpu_of([[maybe_unused]] const void* wrapped, [[maybe_unused]] Device device) {
    if constexpr (with_cuda)
      if (device == Device::cuda) return wrapped ? cuda::device_of(wrapped) : cuda::current_device();
    return -1;
  }
  static void* allocate(Device device, std::size_t bytes) {
    if constexpr (with_cuda)
      if (device == Device::cuda) return cuda::allocate(bytes);
    return HostPool::instance().allocate(bytes);
  }
  void release() const noexcept {
    if constexpr (with_cuda)
      if (device == Device::cuda) return cuda::release(memory, bytes);
    HostPool::instance().release(memory, bytes);
  }
};
using Storage = BasicStorage<has_cuda>;

}  // namespace heddle::detail
