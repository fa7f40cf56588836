// mbarriers, named barriers, clusters, and cp.async that arrives at an mbarrier.
#include "instructions.cuh"
#include "tests.hpp"

namespace heddle::testing::hopper {

namespace {

constexpr int warp = 32;

// Warps 0 to 2 arrive at one mbarrier, and wait for the phase of their arrivals. Warp 3 arrives at another one for two
// threads.
__global__ void wait_in_many_ways(u32* out) {
  __shared__ u64 barriers[2];
  __shared__ u32 data[3];
  const u32 first = shared_address(barriers), second = shared_address(barriers + 1), warp_id = threadIdx.x / warp;
  if (threadIdx.x == 0) {
    mbarrier_init(first, 3 * warp);
    mbarrier_init(second, 2);
    fence_mbarrier_init();
  }
  __syncthreads();
  if (warp_id < 3) {
    if (threadIdx.x % warp == 0) data[warp_id] = warp_id + 10;
    __syncwarp();
    u64 state;
    asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(first) : "memory");
    asm volatile(
        "{\n.reg .pred done;\nWAIT:\nmbarrier.try_wait.shared::cta.b64 done, [%0], %1;\n@!done bra WAIT;\n}\n" ::"r"(
            first),
        "l"(state)
        : "memory");
    if (warp_id == 0) asm volatile("bar.arrive 3, 64;" ::: "memory");
  } else {
    if (elect()) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], 2;" ::"r"(second) : "memory");
    mbarrier_wait(second, 0);
    asm volatile("bar.sync 3, 64;" ::: "memory");
  }
  if (warp_id != 1) out[threadIdx.x] = data[0] + data[1] + data[2];
  if (warp_id == 0) asm volatile("bar.sync 4, 96;" ::: "memory");
  if (warp_id == 1 || warp_id == 2) asm volatile("bar.arrive 4, 96;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(first) : "memory");
    mbarrier_init(first, 1);
  }
}

// Waits for an arrival that only the thread itself can make, which it does later, or not at all if `spins`. Sets `out`
// to 1 if the wait succeeds before. On an H200 the first test after the arrival may fail.
__global__ void wait_alone(u32* out, bool spins) {
  __shared__ u64 barrier;
  const u32 mbarrier = shared_address(&barrier);
  if (threadIdx.x != 0) return;
  mbarrier_init(mbarrier, 1);
  u32 succeeds;
  asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\nselp.u32 %0, 1, 0, p;\n}\n"
               : "=r"(succeeds)
               : "r"(mbarrier)
               : "memory");
  if (!spins) mbarrier_arrive(mbarrier);
  while (!mbarrier_test(mbarrier, 0)) continue;
  out[0] = succeeds;
}

constexpr int copied_words = 512, stored_words = 192;

__device__ void store_matrices(u32 to, u32 lane) {
  const u32 row = to + lane * 16;
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(lane),
               "r"(lane + 100), "r"(lane + 200), "r"(lane + 300)
               : "memory");
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(row + 512),
               "r"(lane | lane << 16), "r"(lane + 500)
               : "memory");
}

// Warp 0 copies, and arrives with its copies and, through the address in the cluster, with four threads. Warp 1 waits.
__global__ void copy_and_arrive(const u32* x, u32* out) {
  __shared__ __align__(128) u32 copied[copied_words], stored[stored_words];
  __shared__ u64 barrier;
  const u32 mbarrier = shared_address(&barrier), to = shared_address(copied), lane = threadIdx.x % warp;
  u32 rank, cluster_mbarrier;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(cluster_mbarrier) : "r"(mbarrier), "r"(rank));
  if (threadIdx.x == 0) {
    mbarrier_init(mbarrier, warp + 4);
    fence_mbarrier_init();
  }
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  if (threadIdx.x < warp) {
    for (u32 i = lane; i < copied_words / 4; i += warp)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + i * 16), "l"(x + i * 4) : "memory");
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(mbarrier) : "memory");
    if (lane < 4)
      asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(cluster_mbarrier) : "memory");
    return;
  }
  mbarrier_wait(mbarrier, 0);
  for (u32 i = lane; i < copied_words; i += warp) out[i] = copied[i];
  store_matrices(shared_address(stored), lane);
  __syncwarp();
  for (u32 i = lane; i < stored_words; i += warp) out[copied_words + i] = stored[i];
}

// Compares two transposed matrices of 16-bit elements with what store_matrices() stores: element (r, c) comes from half
// r % 2 of lane 4 c + r / 2.
void compare_transposed(const u16* stored) {
  for (int row = 0; row < 8; ++row)
    for (int column = 0; column < 8; ++column) {
      const int lane = column * 4 + row / 2, at = row * 8 + column;
      expect_equal("an element of the first transposed matrix", stored[at], lane);
      expect_equal("an element of the second transposed matrix", stored[64 + at], row % 2 ? 0 : lane + 500);
    }
}

}  // namespace

void check_mbarriers() {
  const int threads = 4 * warp;
  const DeviceArray<u32> out(std::vector<u32>(threads, 0));
  wait_in_many_ways<<<1, threads>>>(out.data());
  cuda::check(cudaGetLastError(), "launch");
  const std::vector<u32> sums = out.host();
  for (int i = 0; i < threads; ++i)
    expect_equal("the sum of thread " + std::to_string(i), sums[size_of(i)], i / warp == 1 ? 0u : 33u);
}

void check_cp_async_arrival() {
  std::vector<u32> values;
  for (u32 i = 0; i < copied_words; ++i) values.push_back(i * 3 + 1);
  const DeviceArray<u32> x(values), out(copied_words + stored_words);
  copy_and_arrive<<<1, 2 * warp>>>(x.data(), out.data());
  cuda::check(cudaGetLastError(), "launch");
  const std::vector<u32> words = out.host();
  for (int i = 0; i < copied_words; ++i) expect_equal("a copied word", words[size_of(i)], values[size_of(i)]);
  for (int i = 0; i < 128; ++i)
    expect_equal("a word of stmatrix", words[size_of(copied_words + i)], static_cast<u32>(i % warp + i / warp * 100));
  compare_transposed(reinterpret_cast<const u16*>(words.data() + copied_words + 128));
}

void check_failing_wait(bool spins) {
  const DeviceArray<u32> out(1);
  wait_alone<<<1, 2 * warp>>>(out.data(), spins);
  cuda::check(cudaGetLastError(), "launch");
  expect_equal("whether a wait succeeds before the arrival", out.host()[0], 0u);
}

}  // namespace heddle::testing::hopper
