// Host memory: 64-byte aligned blocks from a cache that all threads share. A training step requests the same sizes
// again and again; malloc would return large blocks to the system each time, and each new request would fault their
// pages in.
#pragma once
#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include <heddle/base/error.hpp>
#include <heddle/base/fork.hpp>
#include <heddle/base/memory_cache.hpp>

namespace heddle {

/// The cache of host memory. Its functions may be called from several threads at once.
class HostPool {
 public:
  static constexpr std::size_t alignment = 64;  ///< a cache line, and the widest vector register

  /// Returns the process's pool. It is never destroyed: a tensor in static storage may be released after everything
  /// else. A library that is unloaded returns its cached blocks.
  static HostPool& instance() {
    alignas(HostPool) static std::byte memory[sizeof(HostPool)];
    static HostPool* const pool = made(memory);
    static const Trim at_end;
    return *pool;
  }

  /// Returns at least `bytes` bytes of uninitialized memory. @throws OutOfMemory.
  void* allocate(std::size_t bytes) {
    const detail::SizeClass size = class_of(bytes);
    {
      const std::lock_guard lock(mutex_);
      if (void* block = std::exchange(free_[size.index], next(free_[size.index]))) {
        stats_.cached -= size.bytes;
        count(size.bytes);
        return block;
      }
    }
    void* block = new_block(size.bytes, bytes);
    if (!block) {
      trim();
      block = new_block(size.bytes, bytes);
    }
    const std::lock_guard lock(mutex_);
    if (!block) fail<OutOfMemory>("out of memory: ", size.bytes, " bytes requested, ", stats_.in_use, " bytes in use");
    count(size.bytes);
    return block;
  }

  /// Takes back a block of allocate(bytes) and keeps it for the next request.
  void release(void* block, std::size_t bytes) noexcept {
    const detail::SizeClass size = class_of(bytes);
    const std::lock_guard lock(mutex_);
    stats_.in_use -= size.bytes;
    if constexpr (detail::memory_is_cached) {
      *static_cast<void**>(block) = std::exchange(free_[size.index], block);
      stats_.cached += size.bytes;
    } else {
      std::free(block);
    }
  }

  /// Returns all cached blocks to the system.
  void trim() noexcept {
    const std::lock_guard lock(mutex_);
    for (void*& list : free_)
      while (list) std::free(std::exchange(list, next(list)));
    stats_.cached = 0;
  }

  /// Returns the memory statistics of the pool.
  MemoryStats stats() const {
    const std::lock_guard lock(mutex_);
    return stats_;
  }

 private:
  // Makes the pool. A fork waits until no thread uses it.
  static HostPool* made(std::byte* memory) {
    const auto unlock = []() noexcept { instance().mutex_.unlock(); };
    detail::Forks::instance().add(
        {.before = []() noexcept { instance().mutex_.lock(); }, .in_parent = unlock, .in_child = unlock});
    return new (memory) HostPool;
  }
  struct Trim {
    ~Trim() { instance().trim(); }
  };
  static detail::SizeClass class_of(std::size_t bytes) {
    require<OutOfMemory>(bytes <= std::size_t{1} << 62, "out of memory: ", bytes, " bytes requested");
    return detail::size_class(std::max(alignment, (bytes + alignment - 1) / alignment * alignment));
  }
  // Returns a block from the system, or nullptr. A large block is aligned to huge pages, and heddle requests huge pages
  // for its `used` bytes, so that reading weights needs fewer address translations.
  static void* new_block(std::size_t bytes, std::size_t used) {
    constexpr std::size_t huge_page = std::size_t{2} << 20;
    if (used < huge_page) return std::aligned_alloc(alignment, bytes);
    void* const block = std::aligned_alloc(huge_page, (bytes + huge_page - 1) / huge_page * huge_page);
#ifdef MADV_HUGEPAGE
    if (block) madvise(block, used / huge_page * huge_page, MADV_HUGEPAGE);  // a hint, which may fail
#endif
    return block;
  }
  static void* next(void* block) { return block ? *static_cast<void**>(block) : nullptr; }
  void count(std::size_t bytes) {
    stats_.in_use += bytes;
    stats_.peak = std::max(stats_.peak, stats_.in_use);
  }

  mutable std::mutex mutex_;
  std::array<void*, 64 * 4 + 4> free_{};  // one list per size class; a block's first word points at the next block
  MemoryStats stats_;
};

}  // namespace heddle
