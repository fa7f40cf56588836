// How attention's kernels walk over tiles of rows, and how they are launched.
#pragma once
#include "not_finite.cuh"
#include "score_tile.cuh"
#include "workspace.cuh"

namespace heddle::cuda {

// Tiles [first, last): load(tile, stage) begins its copies, and use(tile, stage) follows when they are there; the next tile
// is loaded meanwhile where there are two stages, not one. All threads of the block come.
template <class Load, class Use>
__device__ __forceinline__ void walk(int first, int last, int stages, Load load, Use use) {
  for (int tile = first - stages; tile < last; ++tile) {
    const int stage = (tile - first) & (stages - 1);
    if (tile >= first) {
      if (stages == 1)
        wait_copies<0>();
      else
        wait_copies<1>();
      __syncthreads();
      use(tile, stage);
      __syncthreads();
    }
    if (tile + stages < last) load(tile + stages, stage);
    commit_copies();
  }
}

constexpr Index widest_head = 128;      // whose tiles fit on chip
constexpr unsigned most_heads = 65535;  // of all sequences, in a grid's y; blocks go on to further ones

// Threads and shared memory of a kernel whose warps own rows. What it computes depends on none of them.
struct AttentionLaunch {
  int warps, stages;
  std::size_t shared_bytes;

  int rows() const { return warps * own_rows; }
  template <class T>
  dim3 grid(const kernel::AttentionPlan<T>& plan, Index longest_own) const {
    const Index heads = head_count(plan);
    return {blocks_for(longest_own, rows()), static_cast<unsigned>(heads < most_heads ? heads : most_heads)};
  }
};

// As many warps as rows ask for, up to `most`, and as many stages as tiles, up to two; fewer where the GPU has less shared
// memory. `bytes(warps, stages)` says how much there must be.
template <class Bytes>
AttentionLaunch fitting_launch(Index longest_own, Index longest_other, int most, int tile_rows, Bytes bytes) {
  constexpr int least = 2;  // warps; own keys are shared by pairs
  const Index wanted = (longest_own + least * own_rows - 1) / (least * own_rows) * least;
  AttentionLaunch launch{static_cast<int>(std::clamp<Index>(wanted, least, most)), longest_other > tile_rows ? 2 : 1,
                         0};
  int device = 0, limit = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "cudaDeviceGetAttribute");
  const auto fits = [&] {
    launch.shared_bytes = bytes(launch.warps, launch.stages);
    return launch.shared_bytes <= static_cast<std::size_t>(limit);
  };
  while (!fits() && launch.warps > least) launch.warps = std::max(least, launch.warps / (2 * least) * least);
  if (!fits()) launch.stages = 1;
  fits();
  return launch;
}

// Calls f with a width of tiles, as a type, for heads that are so wide.
template <class F>
void with_tile_width(Index widest, F&& f) {
  if (widest <= 16) return f(std::integral_constant<int, 16>());
  if (widest <= 32) return f(std::integral_constant<int, 32>());
  if (widest <= 64) return f(std::integral_constant<int, 64>());
  f(std::integral_constant<int, static_cast<int>(widest_head)>());
}

// Calls f with the arithmetic of a plan, as row_products.cuh names it, and a width of tiles as above.
template <class T, class F>
void with_tile(const kernel::AttentionPlan<T>& plan, Index widest, F&& f) {
  with_tile_width(widest, [&](auto width) {
    if constexpr (std::is_same_v<T, float>)
      if (plan.tf32) return f.template operator()<Tf32, width>();
    f.template operator()<T, width>();
  });
}

}  // namespace heddle::cuda
