// Host memory: 64-byte aligned blocks from a cache that is shared by all threads. A training step asks for the same sizes
// again and again; malloc would return large blocks to the system each time and pay for their pages anew.
#pragma once
#include <array>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <utility>

#include <heddle/error.hpp>

namespace heddle {

// Not with AddressSanitizer, which so sees every use after a release.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool memory_is_cached = false;
#elif defined(__has_feature)
inline constexpr bool memory_is_cached = !__has_feature(address_sanitizer);
#else
inline constexpr bool memory_is_cached = true;
#endif

// Of one device's tensors, in all threads.
struct MemoryStats {
  std::size_t in_use = 0;  // bytes handed out, rounded up to their size class
  std::size_t cached = 0;  // bytes kept for the next request
  std::size_t peak = 0;    // the most that was in use at once
};

// Four sizes of blocks per power of two, so that at most a fifth of a block is wasted.
struct SizeClass {
  std::size_t index, bytes;
};
// The least that holds so many bytes, of at least 5 and at most 2^62.
inline SizeClass size_class(std::size_t bytes) {
  const auto power = static_cast<std::size_t>(std::bit_width(bytes - 1));  // bytes <= 2^power
  const std::size_t step = (std::size_t{1} << power) / 8;
  const std::size_t steps = (bytes + step - 1) / step;  // 5 to 8
  return {power * 4 + steps - 5, steps * step};
}

// The cache. Every function may be called by several threads at once.
class HostPool {
 public:
  static constexpr std::size_t alignment = 64;  // a cache line, and the widest vector register

  // Never destroyed: a tensor in static storage may be released after everything else.
  static HostPool& instance() {
    static HostPool* const pool = new HostPool;
    return *pool;
  }

  // At least `bytes`, uninitialised. Throws OutOfMemory.
  void* allocate(std::size_t bytes) {
    const SizeClass size = class_of(bytes);
    {
      const std::lock_guard lock(mutex_);
      if (void* block = std::exchange(free_[size.index], next(free_[size.index]))) {
        stats_.cached -= size.bytes;
        count(size.bytes);
        return block;
      }
    }
    void* block = std::aligned_alloc(alignment, size.bytes);
    if (!block) {
      trim();
      block = std::aligned_alloc(alignment, size.bytes);
    }
    const std::lock_guard lock(mutex_);
    if (!block) fail<OutOfMemory>("out of memory: ", size.bytes, " bytes requested, ", stats_.in_use, " bytes in use");
    count(size.bytes);
    return block;
  }

  // Takes back what allocate gave for as many bytes, and keeps it for the next request.
  void release(void* block, std::size_t bytes) noexcept {
    const SizeClass size = class_of(bytes);
    const std::lock_guard lock(mutex_);
    stats_.in_use -= size.bytes;
    if constexpr (memory_is_cached) {
      *static_cast<void**>(block) = std::exchange(free_[size.index], block);
      stats_.cached += size.bytes;
    } else {
      std::free(block);
    }
  }

  // Gives all cached blocks back to the system.
  void trim() noexcept {
    const std::lock_guard lock(mutex_);
    for (void*& list : free_)
      while (list) std::free(std::exchange(list, next(list)));
    stats_.cached = 0;
  }

  MemoryStats stats() const {
    const std::lock_guard lock(mutex_);
    return stats_;
  }

 private:
  static SizeClass class_of(std::size_t bytes) {
    require<OutOfMemory>(bytes <= std::size_t{1} << 62, "out of memory: ", bytes, " bytes requested");
    return size_class(std::max(alignment, (bytes + alignment - 1) / alignment * alignment));
  }
  static void* next(void* block) { return block ? *static_cast<void**>(block) : nullptr; }
  void count(std::size_t bytes) {
    stats_.in_use += bytes;
    stats_.peak = std::max(stats_.peak, stats_.in_use);
  }

  mutable std::mutex mutex_;
  std::array<void*, 64 * 4 + 4> free_{};  // a block's first word points at the next one
  MemoryStats stats_;
};

}  // namespace heddle
