// Storage: the block of memory that the handles of a tensor share, and the count of writes to it.
#pragma once
#include <heddle/memory.hpp>

namespace heddle {

// Of its own, or the user's.
struct Storage {
  void* const memory;
  const std::size_t bytes;
  const bool owned;
  std::uint64_t version = 0;

  // Takes `size` bytes of the pool, or the user's at `wrapped`, which stay his. Throws OutOfMemory.
  Storage(void* wrapped, std::size_t size)
      : memory(wrapped ? wrapped : HostPool::instance().allocate(size)), bytes(size), owned(!wrapped) {}
  Storage(const Storage&) = delete;
  ~Storage() {
    if (owned) HostPool::instance().release(memory, bytes);
  }
};

}  // namespace heddle
