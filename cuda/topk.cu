// topk: the largest or smallest elements of each row, in order. Definition: include/heddle/ops/topk.hpp.
//
// Two stable sorts (device/sort.cuh): first all elements by value, then the result by row. Afterwards the elements of
// each row are contiguous and in order.
//
//   write_values     A thread owns an element: it reads the element once and writes its key and its position.
//   write_rows       A thread owns a sorted pair, and writes the row of its element as the new key.
//   write_topk       A thread owns one of the results.
#include <bit>

#include "device/instances.cuh"
#include "device/sort.cuh"
#include "device/workspace.cuh"

namespace heddle::kernel {
namespace {

constexpr int topk_threads = cuda::block_threads(256);

// Maps numbers to keys of the same order; -0 is 0, and a NaN is the largest.
__device__ unsigned ordered_key(float v) {
  constexpr unsigned sign = 1u << 31;
  if (v != v) return ~0u;
  const auto bits = __builtin_bit_cast(unsigned, v + 0.f);
  return bits & sign ? ~bits : bits | sign;
}

template <class T>
__global__ __launch_bounds__(topk_threads) void write_values(View<const T, 2> x, bool largest, cuda::Pairs pairs) {
  const Index at = Index{blockIdx.x} * topk_threads + threadIdx.x;
  if (at >= x.extent[0] * x.extent[1]) return;
  const unsigned key = ordered_key(static_cast<float>(x.data[at]));
  pairs.keys[at] = largest ? ~key : key;
  pairs.values[at] = static_cast<unsigned>(at);
}

__global__ __launch_bounds__(topk_threads) void write_rows(cuda::Pairs pairs, Index count, Index n) {
  const Index at = Index{blockIdx.x} * topk_threads + threadIdx.x;
  if (at < count) pairs.keys[at] = static_cast<unsigned>(pairs.values[at] / n);
}

__global__ __launch_bounds__(topk_threads) void write_topk(cuda::Pairs sorted, Index n, View<Index, 2> position) {
  const Index at = Index{blockIdx.x} * topk_threads + threadIdx.x, k = position.extent[1];
  if (at >= position.extent[0] * k) return;
  const Index row = at / k;
  position.data[at] = static_cast<Index>(sorted.values[row * n + (at - row * k)]) - row * n;
}

}  // namespace

template <OnGpu T>
void topk(Cuda, bool largest, View<const T, 2> x, View<Index, 2> position) {
  const Index rows = x.extent[0], n = x.extent[1], count = rows * n;
  require(count < Index{1} << 32, "topk: on a GPU x must have fewer than 2^32 elements, got ", count);
  const cudaStream_t stream = cuda::current_stream();
  const cuda::Workspace<unsigned> memory(4 * count);
  unsigned* const words = memory.data();
  const cuda::Pairs pairs{words, words + count}, sorted{words + 2 * count, words + 3 * count};
  cuda::launch<write_values<T>>(cuda::blocks_for(count, topk_threads), topk_threads, 0, stream, x, largest, pairs);
  cuda::sort_pairs(pairs, sorted, count, 32);
  cuda::launch<write_rows>(cuda::blocks_for(count, topk_threads), topk_threads, 0, stream, sorted, count, n);
  cuda::sort_pairs(sorted, pairs, count, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(rows))));
  cuda::launch<write_topk>(cuda::blocks_for(position.extent[0] * position.extent[1], topk_threads), topk_threads, 0,
                           stream, pairs, n, position);
}

[[maybe_unused, gnu::used]] constexpr auto topk_instances = std::tuple(&topk<float>, &topk<bf16>);

}  // namespace heddle::kernel
