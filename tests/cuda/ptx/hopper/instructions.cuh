// Hopper's asynchronous instructions as functions, and tensor maps (PTX ISA, "Parallel Synchronization and
// Communication Instructions: mbarrier", "Data Movement and Conversion Instructions: Asynchronous copy", "Asynchronous
// Warpgroup Level Matrix Multiply-Accumulate Instructions").
#pragma once
#include <cuda.h>

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "../../device_array.hpp"

namespace heddle::testing::hopper {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = unsigned long long;

__device__ __forceinline__ u32 shared_address(const void* pointer) {
  return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void mbarrier_init(u32 mbarrier, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(mbarrier), "r"(count) : "memory");
}
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void mbarrier_arrive(u32 mbarrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(mbarrier) : "memory");
}
__device__ __forceinline__ void mbarrier_arrive_expect_tx(u32 mbarrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(mbarrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void mbarrier_wait(u32 mbarrier, u32 parity) {
  asm volatile(
      "{\n.reg .pred done;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@done bra DONE;\n"
      "bra WAIT;\nDONE:\n}\n" ::"r"(mbarrier),
      "r"(parity)
      : "memory");
}
__device__ __forceinline__ bool mbarrier_test(u32 mbarrier, u32 parity) {
  u32 result;
  asm volatile(
      "{\n.reg .pred done;\nmbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\nselp.u32 %0, 1, 0, done;\n}\n"
      : "=r"(result)
      : "r"(mbarrier), "r"(parity)
      : "memory");
  return result;
}
__device__ __forceinline__ void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ __forceinline__ bool elect() {
  u32 result;
  asm volatile("{\n.reg .pred leads;\nelect.sync _|leads, 0xffffffff;\nselp.u32 %0, 1, 0, leads;\n}\n" : "=r"(result));
  return result;
}
__device__ __forceinline__ void bar_sync(u32 id, u32 threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

__device__ __forceinline__ void load_tile(u32 to, const CUtensorMap* map, int x, int y, u32 mbarrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
          "r"(to),
      "l"(map), "r"(x), "r"(y), "r"(mbarrier)
      : "memory");
}
__device__ __forceinline__ void store_tile(const CUtensorMap* map, int x, int y, u32 from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(x),
               "r"(y), "r"(from)
               : "memory");
}
__device__ __forceinline__ void bulk_commit_group() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ __forceinline__ void bulk_wait_group() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
__device__ __forceinline__ void bulk_wait_group_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

using Sizes = std::vector<cuuint64_t>;

// Returns the map of a tensor, whose first dimension is contiguous. `strides` are the bytes between the elements of the
// others.
inline CUtensorMap tensor_map(CUtensorMapDataType type, void* data, const Sizes& sizes, Sizes strides,
                              const std::vector<cuuint32_t>& box, CUtensorMapSwizzle swizzle,
                              bool fills_with_nan = false) {
  strides.resize(sizes.size());  // not empty, because the driver refuses a null pointer
  using Encode = decltype(&cuTensorMapEncodeTiled);
  static Encode encode = nullptr;
  cudaDriverEntryPointQueryResult status;
  if (!encode)
    cuda::check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", reinterpret_cast<void**>(&encode), 12000,
                                                 cudaEnableDefault, &status),
                "cudaGetDriverEntryPointByVersion");
  const auto fill =
      fills_with_nan ? CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA : CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
  const std::vector<cuuint32_t> element_strides(sizes.size(), 1);
  CUtensorMap map;
  const CUresult result =
      encode(&map, type, static_cast<cuuint32_t>(sizes.size()), data, sizes.data(), strides.data(), box.data(),
             element_strides.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE, fill);
  if (result != CUDA_SUCCESS) throw std::runtime_error("cuTensorMapEncodeTiled returns " + std::to_string(result));
  return map;
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int groups>
__device__ __forceinline__ void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(groups) : "memory");
}

// Keep accesses to registers on their side of a fence or a wait. The compiler does not know that wgmma
// accesses them later.
template <int n>
__device__ __forceinline__ void keep_in_place(float (&values)[n]) {
  for (int i = 0; i < n; ++i) asm volatile("" : "+f"(values[i])::"memory");
}
template <int n>
__device__ __forceinline__ void keep_in_place(u32 (&values)[n]) {
  for (int i = 0; i < n; ++i) asm volatile("" : "+r"(values[i])::"memory");
}

// The layouts of matrix descriptors.
enum Swizzle : u32 { no_swizzle, swizzle_128, swizzle_64, swizzle_32 };

__host__ __device__ constexpr u64 matrix_descriptor(u32 address, u32 leading_offset, u32 stride_offset,
                                                    Swizzle swizzle) {
  return (address & 0x3ffff) >> 4 | static_cast<u64>(leading_offset >> 4) << 16 |
         static_cast<u64>(stride_offset >> 4) << 32 | static_cast<u64>(swizzle) << 62;
}

// The product of A [64, 16] and B [64, 16], which both are K-major.
__device__ __forceinline__ void wgmma_m64n64k16(float (&d)[32], u64 a, u64 b, bool accumulates) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1, 0, 0;\n}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
        "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),
        "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
        "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulates)));
}

// Adds the product of A [64, 16] in registers and B [16, 64], which is MN-major.
__device__ __forceinline__ void wgmma_m64n64k16(float (&d)[32], const u32 (&a)[4], u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
        "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),
        "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
        "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

// The row and the column of accumulator i of a thread.
struct AccumulatorPlace {
  __host__ __device__ constexpr AccumulatorPlace(int thread, int i)
      : row(thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8), column(i / 4 * 8 + thread % 4 * 2 + i % 2) {}
  int row, column;
};

}  // namespace heddle::testing::hopper
