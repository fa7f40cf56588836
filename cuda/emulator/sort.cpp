// Replaces cuda/sort.cu: a stable sort on the host, enqueued on the stream like a kernel.
#include "device/sort.cuh"

#include <algorithm>
#include <heddle/gpu/runtime.hpp>
#include <numeric>
#include <vector>

void heddle::cuda::sort_pairs(Pairs from, Pairs to, Index count, int bits) {
  emulator::enqueue_host_work(static_cast<cudaStream_t>(stream()), [=] {
    const auto key = [&](Index n) { return from.keys[n] & static_cast<unsigned>((std::uint64_t{1} << bits) - 1); };
    std::vector<Index> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), Index{0});
    std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return key(a) < key(b); });
    for (Index n = 0; n < count; ++n) {
      const Index source = order[static_cast<std::size_t>(n)];
      to.keys[n] = from.keys[source];
      to.values[n] = from.values[source];
    }
  });
}
