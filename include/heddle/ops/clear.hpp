// clear: writes zeros into a result that a kernel fills only in part.
#pragma once
#include <heddle/base/threads.hpp>
#include <heddle/core/tensor.hpp>

namespace heddle::kernel {

template <class T>
void clear(Cpu, View<T, 1> x) {
  constexpr Index byte_grain = 1 << 18;  // clearing them takes about as long as starting a thread
  parallel(x.extent[0], byte_grain / static_cast<Index>(sizeof(T)), [&](Index first, Index last) {
    std::memset(x.data + first, 0, static_cast<std::size_t>(last - first) * sizeof(T));
  });
}

}  // namespace heddle::kernel
