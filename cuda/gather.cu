// The positions of gathered elements in memory. Definitions: include/heddle/ops/gather.hpp. take_rows (cuda/move.cu)
// copies the rows and elements themselves.
//
// A thread owns one id: it reads the id and writes the element's position once.
#include "device/instances.cuh"
#include "device/workspace.cuh"

namespace heddle::kernel {
namespace {

constexpr int gather_threads = cuda::block_threads(256);

template <Label I>
__global__ __launch_bounds__(gather_threads) void write_positions(View<const I, 3> ids, Index extent,
                                                                  View<Index, 3> position) {
  const Index at = Index{blockIdx.x} * gather_threads + threadIdx.x, inner = ids.extent[2];
  if (at >= ids.extent[0] * ids.extent[1] * inner) return;
  const Index o = at / (ids.extent[1] * inner);
  position.data[at] = (o * extent + static_cast<Index>(ids.data[at])) * inner + at % inner;
}

}  // namespace

template <Label I>
void element_positions(Cuda, View<const I, 3> ids, Index extent, View<Index, 3> position) {
  const Index count = ids.extent[0] * ids.extent[1] * ids.extent[2];
  cuda::launch<write_positions<I>>(cuda::blocks_for(count, gather_threads), gather_threads, 0, cuda::current_stream(),
                                   ids, extent, position);
}

[[maybe_unused, gnu::used]] constexpr auto gather_instances =
    std::tuple(&element_positions<std::int32_t>, &element_positions<std::int64_t>);

}  // namespace heddle::kernel
