// How attention's kernels walk over tiles of rows, and how they are launched.
#pragma once
#include "not_finite.cuh"
#include "score_tile.cuh"
#include "workspace.cuh"

namespace heddle::cuda {

// Tiles [first, last): load(tile, stage) begins its copies, and use(tile, stage) follows when they are there. With s stages,
// 1, 2 or 4, the next s - 1 tiles are loaded meanwhile. All threads of the block come.
template <class Load, class Use>
__device__ __forceinline__ void walk(int first, int last, int stages, Load load, Use use) {
  for (int tile = first - stages; tile < last; ++tile) {
    const int stage = (tile - first) & (stages - 1);
    if (tile >= first) {
      if (stages == 1)
        wait_copies<0>();
      else if (stages == 2)
        wait_copies<1>();
      else
        wait_copies<3>();
      __syncthreads();
      use(tile, stage);
      __syncthreads();
    }
    if (tile + stages < last) load(tile + stages, stage);
    commit_copies();
  }
}

constexpr Index widest_head = 128;  // whose tiles fit on chip

inline int device_attribute(cudaDeviceAttr which) {
  int device = 0, value = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

// A grid's y for so many heads of all sequences; blocks go on to those for which it is not high enough.
inline unsigned grid_height(Index heads) {
  return static_cast<unsigned>(std::min<Index>(heads, device_attribute(cudaDevAttrMaxGridDimY)));
}

// Threads and shared memory of a kernel whose warps own rows. What it computes depends on none of them.
struct AttentionLaunch {
  int warps, stages;
  std::size_t shared_bytes;

  int rows() const { return warps * own_rows; }
  template <class T>
  dim3 grid(const kernel::AttentionPlan<T>& plan, Index longest_own) const {
    return {blocks_for(longest_own, rows()), grid_height(head_count(plan))};
  }
};

// As many warps as rows ask for, up to Tile::warps. All of up to 128 other rows are held at once where a multiprocessor's
// shared memory has room for as many such blocks as its registers have (`blocks`), else two tiles; fewer warps and
// tiles where a block may not have so much. `bytes(warps, stages)` says how much that is.
template <class Tile, class Bytes>
AttentionLaunch fitting_launch(Index longest_own, Index longest_other, int blocks, Bytes bytes) {
  constexpr int least = 2;                // warps; own keys are shared by pairs
  constexpr Index held_at_once = 128;     // other rows
  constexpr std::size_t reserved = 1024;  // bytes of each block that are CUDA's
  const Index wanted = (longest_own + least * own_rows - 1) / (least * own_rows) * least;
  AttentionLaunch launch{static_cast<int>(std::clamp<Index>(wanted, least, Tile::warps)),
                         longest_other > Tile::others ? 2 : 1, 0};
  const auto fit = [&](int count, std::size_t limit) {
    launch.shared_bytes = bytes(launch.warps, launch.stages);
    return static_cast<std::size_t>(count) * (launch.shared_bytes + reserved) <= limit;
  };
  if (longest_other > 2 * Tile::others && longest_other <= held_at_once) {
    launch.stages = held_at_once / Tile::others;
    if (!fit(blocks, static_cast<std::size_t>(device_attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor))))
      launch.stages = 2;
  }
  const std::size_t of_block =
      static_cast<std::size_t>(device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin)) + reserved;
  while (!fit(1, of_block) && launch.warps > least) launch.warps = std::max(least, launch.warps / (2 * least) * least);
  if (!fit(1, of_block)) launch.stages = 1;
  fit(1, of_block);
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

// Calls f with the arithmetic of a plan, as row_products.cuh names it.
template <class T, class F>
void with_math(const kernel::AttentionPlan<T>& plan, F&& f) {
  if constexpr (std::is_same_v<T, float>)
    if (plan.tf32) return f.template operator()<Tf32>();
  f.template operator()<T>();
}
// The same, with a width of tiles as above.
template <class T, class F>
void with_tile(const kernel::AttentionPlan<T>& plan, Index widest, F&& f) {
  with_math(plan,
            [&]<class Math>() { with_tile_width(widest, [&](auto width) { f.template operator()<Math, width>(); }); });
}

}  // namespace heddle::cuda
