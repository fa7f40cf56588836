// A matrix product as Hopper's kernels compute it: one warp loads tiles into a ring of stages, and two warpgroups
// multiply them.
#include <cuda_bf16.h>

#include <cmath>

#include "instructions.cuh"
#include "tests.hpp"

namespace heddle::testing::hopper {

namespace {

constexpr int warp = 32, warpgroup = 128, threads = 3 * warpgroup;
constexpr int stages = 3, tile_rows = 128, tile_columns = 64, tile_depth = 64, depth_of_wgmma = 16;
constexpr int row_bytes = tile_depth * 2;  // of a tile: a line of the 128-byte swizzle
constexpr int bytes_of_a = tile_rows * row_bytes, bytes_of_b = tile_columns * row_bytes;
constexpr int stage_bytes = bytes_of_a + bytes_of_b;
constexpr u32 group_bytes = 8 * row_bytes;  // the stride between groups of 8 rows

// The parts of a block's shared memory, as shared addresses.
struct Pipeline {
  u32 data, full, empty;
  __device__ u32 a(int stage) const { return data + static_cast<u32>(stage * stage_bytes); }
  __device__ u32 b(int stage) const { return a(stage) + bytes_of_a; }
  __device__ u32 full_mbarrier(int stage) const { return full + static_cast<u32>(stage) * 8; }
  __device__ u32 empty_mbarrier(int stage) const { return empty + static_cast<u32>(stage) * 8; }
};

__device__ void load_tiles(const Pipeline& pipeline, const CUtensorMap* a, const CUtensorMap* b, int tiles,
                           PipelineFault fault) {
  const int row = static_cast<int>(blockIdx.y) * tile_rows, column = static_cast<int>(blockIdx.x) * tile_columns;
  const int announced = fault == PipelineFault::few_bytes    ? bytes_of_a
                        : fault == PipelineFault::many_bytes ? stage_bytes + 16
                                                             : stage_bytes;
  for (int tile = 0; tile < tiles; ++tile) {
    const int stage = tile % stages;
    const u32 full = pipeline.full_mbarrier(stage);
    mbarrier_wait(pipeline.empty_mbarrier(stage), static_cast<u32>(tile / stages & 1) ^ 1);
    mbarrier_arrive_expect_tx(full, static_cast<u32>(announced));
    load_tile(pipeline.a(stage), a, tile * tile_depth, row, full);
    load_tile(pipeline.b(stage), b, tile * tile_depth, column, full);
  }
}

__device__ void multiply_tile(float (&d)[32], u32 a, u32 b, bool accumulates, PipelineFault fault) {
  const Swizzle swizzle = fault == PipelineFault::wrong_swizzle ? swizzle_64 : swizzle_128;
  const bool disagrees = fault == PipelineFault::disagree && threadIdx.x / warp == 6;
  constexpr u32 step_bytes = depth_of_wgmma * 2;
#pragma unroll
  for (u32 step = 0; step < tile_depth / depth_of_wgmma; ++step)
    wgmma_m64n64k16(d,
                    matrix_descriptor(a + step * step_bytes + (disagrees ? step_bytes : 0), 16, group_bytes, swizzle),
                    matrix_descriptor(b + step * step_bytes, 16, group_bytes, swizzle), accumulates || step > 0);
}

// Multiplies the tiles of a warpgroup: 64 rows of A, and all of B.
__device__ void multiply_tiles(float (&d)[32], const Pipeline& pipeline, int group, int tiles, PipelineFault fault) {
  const bool is_first_thread = threadIdx.x % warpgroup == 0;
  for (int tile = 0; tile < tiles; ++tile) {
    const int stage = tile % stages;
    const u32 parity = static_cast<u32>(tile / stages & 1) ^ (fault == PipelineFault::wrong_phase);
    if (fault != PipelineFault::no_wait || tile != 1) mbarrier_wait(pipeline.full_mbarrier(stage), parity);
    if (fault == PipelineFault::no_wgmma_fence)
      for (float& x : d) x = tile ? x * 1.5f : 0.f;
    keep_in_place(d);
    if (fault != PipelineFault::no_wgmma_fence || tile == 0) wgmma_fence();
    const u32 a = pipeline.a(stage) + static_cast<u32>(group * 64 * row_bytes);
    if (fault != PipelineFault::three_warps || threadIdx.x / warp != 6)
      multiply_tile(d, a, pipeline.b(stage), tile > 0, fault);
    if (fault != PipelineFault::no_commit) wgmma_commit_group();
    if (fault == PipelineFault::early_release && is_first_thread) mbarrier_arrive(pipeline.empty_mbarrier(stage));
    // One tile's products stay in flight. The stage before is free.
    wgmma_wait_group<1>();
    if (fault != PipelineFault::early_release && tile > 0 && is_first_thread)
      mbarrier_arrive(pipeline.empty_mbarrier((tile - 1) % stages));
  }
  if (fault != PipelineFault::no_wgmma_wait) wgmma_wait_group<0>();
  keep_in_place(d);
}

__global__ void __launch_bounds__(threads, 1)
    gemm(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float* c, int tiles, int columns,
         PipelineFault fault) {
  extern __shared__ __align__(1024) u8 memory[];
  __shared__ u64 full[stages], empty[stages];
  const Pipeline pipeline{shared_address(memory), shared_address(full), shared_address(empty)};
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < stages; ++stage) {
      mbarrier_init(pipeline.full_mbarrier(stage), 1);
      mbarrier_init(pipeline.empty_mbarrier(stage), 2);
    }
    fence_mbarrier_init();
  }
  if (fault != PipelineFault::no_init_sync) __syncthreads();
  if (threadIdx.x < warpgroup) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x < warp && elect()) load_tiles(pipeline, &a, &b, tiles, fault);
    return;
  }
  if (fault == PipelineFault::too_many_registers)
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
  else
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  const int group = static_cast<int>(threadIdx.x) / warpgroup - 1;
  float d[32];
  multiply_tiles(d, pipeline, group, tiles, fault);
  const int row = static_cast<int>(blockIdx.y) * tile_rows + group * 64;
  const int column = static_cast<int>(blockIdx.x) * tile_columns;
  for (int i = 0; i < 32; ++i) {
    const AccumulatorPlace at(static_cast<int>(threadIdx.x) % warpgroup, i);
    c[(row + at.row) * columns + column + at.column] = d[i];
  }
}

std::vector<__nv_bfloat16> bf16_matrix(int rows, int columns, int seed) {
  std::vector<__nv_bfloat16> values;
  for (int i = 0; i < rows * columns; ++i)
    values.push_back(__float2bfloat16(static_cast<float>(small_number(i, seed)) / 8));
  return values;
}

}  // namespace

void check_gemm(PipelineFault fault) {
  constexpr int m = 256, n = 128, k = 360;  // the last tile reaches beyond the end
  const std::vector<__nv_bfloat16> a = bf16_matrix(m, k, 3), b = bf16_matrix(n, k, 4);
  const DeviceArray<__nv_bfloat16> a_on_device(a), b_on_device(b);
  const DeviceArray<float> c(m * n);
  const auto map = [](const DeviceArray<__nv_bfloat16>& matrix, int rows, cuuint32_t box_rows) {
    return tensor_map(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, matrix.data(), {k, static_cast<cuuint64_t>(rows)}, {k * 2},
                      {tile_depth, box_rows}, CU_TENSOR_MAP_SWIZZLE_128B);
  };
  cuda::check(cudaFuncSetAttribute(gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, stages * stage_bytes),
              "cudaFuncSetAttribute");
  gemm<<<dim3(n / tile_columns, m / tile_rows), threads, stages * stage_bytes>>>(
      map(a_on_device, m, tile_rows), map(b_on_device, n, tile_columns), c.data(), (k + tile_depth - 1) / tile_depth, n,
      fault);
  cuda::check(cudaGetLastError(), "launch");
  const std::vector<float> actual = c.host();
  for (int row = 0; row < m; ++row)
    for (int column = 0; column < n; ++column) {
      float expected = 0;  // exact: products are multiples of 1/64
      for (int i = 0; i < k; ++i)
        expected += __bfloat162float(a[size_of(row * k + i)]) * __bfloat162float(b[size_of(column * k + i)]);
      expect_equal("an element of the matrix product", actual[size_of(row * n + column)], expected);
    }
}

}  // namespace heddle::testing::hopper
