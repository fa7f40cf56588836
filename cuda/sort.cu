// Sorts pairs with CUB. No other file includes CUB. The emulator uses emulator/sort.cpp instead. CUB's radix sort is
// stable and the keys are integers, so the result is a function of the input.
#include <cub/device/device_radix_sort.cuh>

#include "device/sort.cuh"
#include "device/workspace.cuh"

void heddle::cuda::sort_pairs(Pairs from, Pairs to, Index count, int bits) {
  const auto sort = [&](void* memory, std::size_t& bytes) {
    check(cub::DeviceRadixSort::SortPairs(memory, bytes, from.keys, to.keys, from.values, to.values,
                                          static_cast<unsigned>(count), 0, bits, current_stream()),
          "cub::DeviceRadixSort::SortPairs");
  };
  std::size_t bytes = 0;
  sort(nullptr, bytes);  // sets `bytes`
  const Workspace<char> memory(static_cast<Index>(bytes));
  sort(memory.data(), bytes);
  if (synchronizes_each_launch()) synchronize();
}
