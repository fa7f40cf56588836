// Size classes and statistics, which the memory caches of the host and of the GPU share.
#pragma once
#include <bit>
#include <cstddef>
#include <ostream>
#include <string>

namespace heddle {

/// The memory statistics of one device's tensors, over all threads.
struct MemoryStats {
  std::size_t in_use = 0;  ///< bytes handed out, rounded up to their size class
  std::size_t cached = 0;  ///< bytes kept for the next request
  std::size_t peak = 0;    ///< the largest `in_use` so far
};

/// Prints "4096 bytes in use (peak 8192), 1024 cached".
inline std::ostream& operator<<(std::ostream& out, const MemoryStats& stats) {
  return out << std::to_string(stats.in_use) + " bytes in use (peak " + std::to_string(stats.peak) + "), " +
                    std::to_string(stats.cached) + " cached";
}

namespace detail {

// Whether released blocks are kept for reuse. They are not under AddressSanitizer, so that it detects every use after a
// release.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool memory_is_cached = false;
#elif defined(__has_feature)
inline constexpr bool memory_is_cached = !__has_feature(address_sanitizer);
#else
inline constexpr bool memory_is_cached = true;
#endif

// A size that blocks are rounded up to: four per power of two, so that at most a fifth of a block is wasted.
struct SizeClass {
  std::size_t index, bytes;
};

// Returns the smallest class that holds `bytes`, which is in [5, 2^62].
inline SizeClass size_class(std::size_t bytes) {
  const auto power = static_cast<std::size_t>(std::bit_width(bytes - 1));  // bytes <= 2^power
  const std::size_t step = (std::size_t{1} << power) / 8;
  const std::size_t steps = (bytes + step - 1) / step;  // 5 to 8
  return {power * 4 + steps - 5, steps * step};
}

}  // namespace detail
}  // namespace heddle
