// The positions of tokens that are not padding. Definition: include/heddle/ops/token_positions.hpp.
//
//   count_tokens  One block owns a sequence and the rows up to the next one; the first block also owns the rows before
//                 its sequence. It reads the id of each row once, and writes the row's position once.
#include "device/instances.cuh"
#include "device/shared.cuh"
#include "device/warp.cuh"
#include "device/workspace.cuh"

namespace heddle::kernel {
namespace {

constexpr int count_threads = cuda::block_threads(128);

template <Label I>
__global__ __launch_bounds__(count_threads) void count_tokens(View<const I, 1> ids, View<const int, 1> begin,
                                                              View<const int, 1> length, Index padding_id,
                                                              View<int, 1> position) {
  constexpr int warps = count_threads / cuda::warp_size;
  auto& of_warp = cuda::shared<int[warps]>();
  const int thread = static_cast<int>(threadIdx.x), lane = thread % cuda::warp_size, warp = thread / cuda::warp_size;
  const Index b = blockIdx.x, first = begin(b), behind = first + length(b),
              last = b + 1 < begin.extent[0] ? Index{begin(b + 1)} : position.extent[0];
  int count = 0;  // tokens in the rows before
  for (Index row = b == 0 ? 0 : first; row < last; row += count_threads) {
    const Index n = row + thread;
    const bool counts = n >= first && n < behind && static_cast<Index>(ids(n)) != padding_id;
    const unsigned counted = __ballot_sync(cuda::all_lanes, counts);
    if (lane == 0) of_warp[warp] = __popc(counted);
    __syncthreads();
    int number = count + __popc(counted & ((2u << lane) - 1));
    for (int w = 0; w < warps; ++w) {
      if (w < warp) number += of_warp[w];
      count += of_warp[w];
    }
    if (n < last) position(n) = static_cast<int>(padding_id) + (counts ? number : 0);
    __syncthreads();  // all threads have read of_warp
  }
}

}  // namespace

template <Label I>
void token_positions(Cuda, View<const I, 1> ids, View<const int, 1> begin, View<const int, 1> length, Index padding_id,
                     View<int, 1> position) {
  if (begin.extent[0] == 0) return;
  cuda::launch<count_tokens<I>>(static_cast<unsigned>(begin.extent[0]), count_threads, 0, cuda::current_stream(), ids,
                                begin, length, padding_id, position);
}

[[maybe_unused, gnu::used]] constexpr auto token_position_instances =
    std::tuple(&token_positions<std::int32_t>, &token_positions<std::int64_t>);

}  // namespace heddle::kernel
