// Attention as Hopper's kernels compute it: 128 queries of a head of width 64, and tiles of 64 keys. One warp loads
// tiles, and each of two warpgroups attends with 64 queries. The probabilities stay in registers, and the output leaves
// through a bulk store.
#include <cuda_bf16.h>

#include <cmath>

#include "instructions.cuh"
#include "tests.hpp"

namespace heddle::testing::hopper {

namespace {

constexpr int warp = 32, warpgroup = 128, threads = 3 * warpgroup;
constexpr int stages = 3, head_width = 64, tile_queries = 128, tile_keys = 64, group_queries = 64;
constexpr int row_bytes = head_width * 2;  // a line of the 128-byte swizzle
constexpr int bytes_of_q = tile_queries * row_bytes, bytes_of_k = tile_keys * row_bytes, stage_bytes = 2 * bytes_of_k;
constexpr int bytes_of_output = group_queries * head_width * 4;
constexpr int shared_bytes = bytes_of_q + stages * stage_bytes + 2 * bytes_of_output;
constexpr u32 stride_of_groups = 8 * row_bytes;
constexpr int accumulators = 32;

// The parts of a block's shared memory, as shared addresses.
struct Pipeline {
  u32 q, full, empty, q_full;
  __device__ u32 k(int stage) const { return q + bytes_of_q + static_cast<u32>(stage * stage_bytes); }
  __device__ u32 v(int stage) const { return k(stage) + bytes_of_k; }
  __device__ u32 output(int group) const { return k(stages) + static_cast<u32>(group * bytes_of_output); }
  __device__ u32 full_mbarrier(int stage) const { return full + static_cast<u32>(stage) * 8; }
  __device__ u32 empty_mbarrier(int stage) const { return empty + static_cast<u32>(stage) * 8; }
};

__device__ void load_tiles(const Pipeline& pipeline, const CUtensorMap* q, const CUtensorMap* k, const CUtensorMap* v,
                           int tiles) {
  mbarrier_arrive_expect_tx(pipeline.q_full, bytes_of_q);
  load_tile(pipeline.q, q, 0, static_cast<int>(blockIdx.x) * tile_queries, pipeline.q_full);
  for (int tile = 0; tile < tiles; ++tile) {
    const int stage = tile % stages;
    const u32 full = pipeline.full_mbarrier(stage);
    mbarrier_wait(pipeline.empty_mbarrier(stage), static_cast<u32>(tile / stages & 1) ^ 1);
    mbarrier_arrive_expect_tx(full, stage_bytes);
    load_tile(pipeline.k(stage), k, 0, tile * tile_keys, full);
    load_tile(pipeline.v(stage), v, 0, tile * tile_keys, full);
  }
}

// A thread's part of the output: accumulators of two rows, which i / 2 % 2 tells apart.
struct OnlineSoftmax {
  float output[accumulators] = {};
  float maximum[2] = {-INFINITY, -INFINITY};
  float sum[2] = {};
};

__device__ float max_of_row(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}
__device__ float sum_of_row(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

// Replaces the scores of a tile of keys by probabilities, and scales what was accumulated before. `keys` are those from
// the tile on.
__device__ void update(OnlineSoftmax& softmax, float (&scores)[accumulators], int keys, float scale) {
  const int thread = static_cast<int>(threadIdx.x) % warpgroup;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float maximum = softmax.maximum[half];
#pragma unroll
    for (int i = 0; i < accumulators; ++i)
      if (i / 2 % 2 == half) {
        scores[i] = AccumulatorPlace(thread, i).column < keys ? scores[i] * scale : -INFINITY;
        maximum = fmaxf(maximum, scores[i]);
      }
    maximum = max_of_row(maximum);
    const float decay = exp2f(softmax.maximum[half] - maximum);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < accumulators; ++i)
      if (i / 2 % 2 == half) {
        scores[i] = exp2f(scores[i] - maximum);
        sum += scores[i];
        softmax.output[i] *= decay;
      }
    softmax.sum[half] = softmax.sum[half] * decay + sum_of_row(sum);
    softmax.maximum[half] = maximum;
  }
}

// Adds the product of the probabilities and V. The places of accumulators are those of the registers of A.
__device__ void multiply_by_v(OnlineSoftmax& softmax, const float (&probabilities)[accumulators], u32 v,
                              PipelineFault fault) {
  u32 a[4][4];
#pragma unroll
  for (int i = 0; i < 16; ++i)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;"
        : "=r"(a[i / 4][i % 4])
        : "f"(probabilities[2 * i + 1]), "f"(probabilities[2 * i]));
  keep_in_place(softmax.output);
#pragma unroll
  for (int i = 0; i < 4; ++i) keep_in_place(a[i]);
  if (fault != PipelineFault::no_wgmma_fence) wgmma_fence();
#pragma unroll
  for (u32 i = 0; i < 4; ++i)
    wgmma_m64n64k16(softmax.output, a[i],
                    matrix_descriptor(v + i * 16 * row_bytes, bytes_of_k, stride_of_groups, swizzle_128));
  wgmma_commit_group();
}

__device__ void attend(OnlineSoftmax& softmax, const Pipeline& pipeline, int group, int keys, float scale,
                       PipelineFault fault) {
  const bool is_first_thread = threadIdx.x % warpgroup == 0;
  const u32 q = pipeline.q + static_cast<u32>(group * group_queries * row_bytes);
  mbarrier_wait(pipeline.q_full, 0);
  for (int tile = 0; tile * tile_keys < keys; ++tile) {
    const int stage = tile % stages;
    const u32 empty = pipeline.empty_mbarrier(stage);
    mbarrier_wait(pipeline.full_mbarrier(stage), static_cast<u32>(tile / stages & 1));
    float scores[accumulators];
    wgmma_fence();
#pragma unroll
    for (u32 i = 0; i < 4; ++i)
      wgmma_m64n64k16(scores, matrix_descriptor(q + i * 32, 16, stride_of_groups, swizzle_128),
                      matrix_descriptor(pipeline.k(stage) + i * 32, 16, stride_of_groups, swizzle_128), i > 0);
    wgmma_commit_group();
    wgmma_wait_group<0>();
    keep_in_place(scores);
    update(softmax, scores, keys - tile * tile_keys, scale);
    multiply_by_v(softmax, scores, pipeline.v(stage), fault);
    if (fault == PipelineFault::early_release && is_first_thread) mbarrier_arrive(empty);
    wgmma_wait_group<0>();
    keep_in_place(softmax.output);
    if (fault != PipelineFault::early_release && is_first_thread) mbarrier_arrive(empty);
  }
}

__device__ void store_output(const OnlineSoftmax& softmax, float* memory, u32 address, const CUtensorMap* map,
                             int group, PipelineFault fault) {
  const int thread = static_cast<int>(threadIdx.x) % warpgroup;
#pragma unroll
  for (int i = 0; i < accumulators; ++i) {
    const AccumulatorPlace at(thread, i);
    memory[at.row * head_width + at.column] = softmax.output[i] / softmax.sum[i / 2 % 2];
  }
  if (fault != PipelineFault::no_proxy_fence) fence_proxy_async();
  bar_sync(static_cast<u32>(group) + 1, warpgroup);
  if (thread != 0) return;
  store_tile(map, 0, static_cast<int>(blockIdx.x) * tile_queries + group * group_queries, address);
  bulk_commit_group();
  if (fault != PipelineFault::no_store_wait) bulk_wait_group_read();
}

__global__ void __launch_bounds__(threads, 1)
    attention(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap k,
              const __grid_constant__ CUtensorMap v, const __grid_constant__ CUtensorMap output, int keys, float scale,
              PipelineFault fault) {
  extern __shared__ __align__(1024) u8 memory[];
  __shared__ u64 full[stages], empty[stages], q_full;
  const Pipeline pipeline{shared_address(memory), shared_address(full), shared_address(empty), shared_address(&q_full)};
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < stages; ++stage) {
      mbarrier_init(pipeline.full_mbarrier(stage), 1);
      mbarrier_init(pipeline.empty_mbarrier(stage), 2);
    }
    mbarrier_init(pipeline.q_full, 1);
    fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x < warpgroup) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x / warp == 1 && elect()) load_tiles(pipeline, &q, &k, &v, (keys + tile_keys - 1) / tile_keys);
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
  const int group = static_cast<int>(threadIdx.x) / warpgroup - 1;
  OnlineSoftmax softmax;
  attend(softmax, pipeline, group, keys, scale, fault);
  const u32 address = pipeline.output(group);
  store_output(softmax, reinterpret_cast<float*>(memory + (address - pipeline.q)), address, &output, group, fault);
}

// A matrix [rows, head_width] on the host and on the device.
struct Matrix {
  Matrix(int rows, int seed, float scale) : rows(rows), values(make(rows, seed, scale)), on_device(values) {}
  float at(int row, int column) const { return __bfloat162float(values[size_of(row * head_width + column)]); }
  CUtensorMap map(cuuint32_t box_rows) const {
    return tensor_map(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, on_device.data(), {head_width, static_cast<cuuint64_t>(rows)},
                      {row_bytes}, {head_width, box_rows}, CU_TENSOR_MAP_SWIZZLE_128B);
  }
  static std::vector<__nv_bfloat16> make(int rows, int seed, float scale) {
    std::vector<__nv_bfloat16> values;
    for (int i = 0; i < rows * head_width; ++i)
      values.push_back(__float2bfloat16(static_cast<float>(small_number(i, seed)) * scale));
    return values;
  }

  int rows;
  std::vector<__nv_bfloat16> values;
  DeviceArray<__nv_bfloat16> on_device;
};

// Returns a row of the output.
std::vector<double> expected_row(const Matrix& q, const Matrix& k, const Matrix& v, int row) {
  std::vector<double> weights, output(head_width, 0.0);
  double maximum = -INFINITY, sum = 0;
  for (int key = 0; key < k.rows; ++key) {
    double score = 0;
    for (int i = 0; i < head_width; ++i) score += double{q.at(row, i)} * double{k.at(key, i)};
    weights.push_back(score / 8);
    maximum = std::fmax(maximum, weights.back());
  }
  for (double& weight : weights) {
    weight = std::exp(weight - maximum);
    sum += weight;
  }
  for (int key = 0; key < k.rows; ++key)
    for (int i = 0; i < head_width; ++i) output[size_of(i)] += weights[size_of(key)] / sum * double{v.at(key, i)};
  return output;
}

}  // namespace

void check_attention(PipelineFault fault, int keys) {
  constexpr int queries = 200;
  constexpr double tolerance = 4e-3;                     // the probabilities are rounded to bf16
  constexpr float scale = 0.125f * 1.4426950408889634f;  // 1 / sqrt(head_width), in powers of 2
  const Matrix q(queries, 5, 0.125f), k(keys, 6, 0.125f), v(keys, 7, 0.25f);
  const DeviceArray<float> output(queries * head_width);
  const CUtensorMap output_map = tensor_map(CU_TENSOR_MAP_DATA_TYPE_FLOAT32, output.data(), {head_width, queries},
                                            {head_width * 4}, {head_width, group_queries}, CU_TENSOR_MAP_SWIZZLE_NONE);
  cuda::check(cudaFuncSetAttribute(attention, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes),
              "cudaFuncSetAttribute");
  attention<<<(queries + tile_queries - 1) / tile_queries, threads, shared_bytes>>>(
      q.map(tile_queries), k.map(tile_keys), v.map(tile_keys), output_map, keys, scale, fault);
  cuda::check(cudaGetLastError(), "launch");
  const std::vector<float> actual = output.host();
  for (int row = 0; row < queries; ++row) {
    const std::vector<double> expected = expected_row(q, k, v, row);
    for (int i = 0; i < head_width; ++i) {
      const float x = actual[size_of(row * head_width + i)];
      if (!(std::fabs(double{x} - expected[size_of(i)]) < tolerance))
        expect_equal("an element of attention's output", x, static_cast<float>(expected[size_of(i)]));
    }
  }
}

}  // namespace heddle::testing::hopper
