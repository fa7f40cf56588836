// Checks async.cpp: Hopper's instructions against plain loops, and planted errors, each of which must be found.
//   hopper              all features
//   hopper NAME         one erroneous kernel; the caller looks for the message, or for "wrong"
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "wgmma.inc"

using u8 = std::uint8_t;
using u32 = std::uint32_t;
using u64 = unsigned long long;
static int failures = 0;
#define CHECK(x)                                                              \
  do {                                                                        \
    if (!(x)) {                                                               \
      if (++failures < 20) std::printf("FAILED line %d: %s\n", __LINE__, #x); \
    }                                                                         \
  } while (0)

template <class T>
struct Array {
  T* p;
  std::size_t n;
  explicit Array(std::size_t n) : n(n) {
    if (cudaMalloc(reinterpret_cast<void**>(&p), n * sizeof(T)) != cudaSuccess) std::exit(3);
  }
  explicit Array(const std::vector<T>& v) : Array(v.size()) {
    cudaMemcpy(p, v.data(), n * sizeof(T), cudaMemcpyHostToDevice);
  }
  ~Array() { cudaFree(p); }
  std::vector<T> host() const {
    std::vector<T> v(n);
    if (cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost) != cudaSuccess ||
        cudaDeviceSynchronize() != cudaSuccess || cudaGetLastError() != cudaSuccess)
      ++failures;
    return v;
  }
};

// --- device wrappers ---
__device__ __forceinline__ u32 shared(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }
__device__ __forceinline__ void mb_init(u32 b, u32 n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(b), "r"(n) : "memory");
}
__device__ __forceinline__ void mb_fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void mb_arrive(u32 b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(b) : "memory");
}
__device__ __forceinline__ void mb_expect(u32 b, u32 n) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(b), "r"(n) : "memory");
}
__device__ __forceinline__ void mb_wait(u32 b, u32 parity) {
  asm volatile(
      "{\n.reg .pred P1;\nLAB_WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n@P1 bra DONE;\nbra "
      "LAB_WAIT;\nDONE:\n}\n" ::"r"(b),
      "r"(parity)
      : "memory");
}
__device__ __forceinline__ bool mb_test(u32 b, u32 parity) {
  u32 r;
  asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}\n"
               : "=r"(r)
               : "r"(b), "r"(parity)
               : "memory");
  return r;
}
__device__ __forceinline__ bool elected() {
  u32 r;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}\n" : "=r"(r));
  return r;
}
__device__ __forceinline__ void proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void tma_2d(u32 to, const CUtensorMap* m, int x, int y, u32 b) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
          "r"(to),
      "l"(m), "r"(x), "r"(y), "r"(b)
      : "memory");
}
__device__ __forceinline__ void wg_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wg_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int n>
__device__ __forceinline__ void wg_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory");
}
template <int n>
__device__ __forceinline__ void pin(float (&d)[n]) {
  for (int i = 0; i < n; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
template <int n>
__device__ __forceinline__ void pin(u32 (&d)[n]) {
  for (int i = 0; i < n; ++i) asm volatile("" : "+r"(d[i])::"memory");
}
__device__ __forceinline__ void named(u32 id, u32 n) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n) : "memory"); }
// mode: 0 none, 1 128 bytes, 2 64, 3 32
__host__ __device__ inline u64 descriptor(u32 at, u32 lbo, u32 sbo, u64 mode) {
  return (at & 0x3ffff) >> 4 | u64(lbo >> 4) << 16 | u64(sbo >> 4) << 32 | mode << 62;
}

// --- tensor maps ---
using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*,
                            const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                            CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
static CUtensorMap map_of(CUtensorMapDataType type, void* p, std::vector<cuuint64_t> dim,
                          std::vector<cuuint64_t> strides, std::vector<cuuint32_t> box, CUtensorMapSwizzle swizzle,
                          bool nan = false) {
  static Encode encode = nullptr;
  if (!encode) {
    cudaDriverEntryPointQueryResult r;
    cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", reinterpret_cast<void**>(&encode), 12000,
                                     cudaEnableDefault, &r);
  }
  alignas(64) CUtensorMap m;
  const std::vector<cuuint32_t> ones(5, 1);
  if (encode(&m, type, static_cast<cuuint32_t>(dim.size()), p, dim.data(), strides.data(), box.data(), ones.data(),
             CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
             nan ? CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA : CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) !=
      CUDA_SUCCESS) {
    std::printf("FAILED: no tensor map\n");
    std::exit(4);
  }
  return m;
}

// --- wgmma with operands placed by the host ---
// The byte of element (r, k) of an operand of `rows` rows and `ks` columns, from the figures of the manual: rows of 16-byte chunks that
// change places. mode as in the descriptor.
struct Layout {
  u64 mode;
  bool mn;
  int rows, ks, size;
};
static int span(u64 mode) { return mode == 0 ? 16 : mode == 1 ? 128 : mode == 2 ? 64 : 32; }
static int place(const Layout& l, int r, int k) {
  const int w = span(l.mode), line = l.mn ? k : r, along = (l.mn ? r : k) * l.size, lines = l.mn ? l.ks : l.rows;
  const int panel = along / w, chunk = along % w / 16;
  const int moved = l.mode == 1   ? chunk ^ line % 8
                    : l.mode == 2 ? chunk ^ line / 2 % 4
                    : l.mode == 3 ? chunk ^ line / 4 % 2
                                  : 0;
  return panel * lines * w + line * w + moved * 16 + along % 16;
}
static u64 describe(const Layout& l, u32 at, int k) {  // k: the first column of this instruction
  const int w = span(l.mode), lines = l.mn ? l.ks : l.rows;
  if (l.mode == 0) {
    // Core matrices of 8 lines of 16 bytes.
    if (!l.mn) return descriptor(at + k * l.size / 16 * lines * 16, lines * 16, 128, 0);
    return descriptor(at + k * 16, 128, lines * 16, 0);
  }
  if (!l.mn) return descriptor(at + k * l.size / w * lines * w + k * l.size % w, 16, 8 * w, l.mode);
  return descriptor(at + k * w, lines * w, 8 * w, l.mode);
}
struct Job {
  u64 a[16], b[16];
  int steps, bytes, accumulate, bug;
};
enum Type { bf16, f16, tf32 };
template <int N, Type type, int TA, int TB, int SA>
__global__ void __launch_bounds__(128) product(const uint4* image, const u32* a, Job job, float* out) {
  extern __shared__ __align__(1024) u8 memory[];
  for (int i = threadIdx.x; i < job.bytes / 16; i += 128) reinterpret_cast<uint4*>(memory)[i] = image[i];
  if (job.bug != 1) proxy_fence();
  __syncthreads();
  const u64 base = shared(memory) >> 4;
  float d[N / 2];
  for (int i = 0; i < N / 2; ++i) d[i] = float(i + threadIdx.x);
  u32 r[4];
  pin(d);
  for (int s = 0; s < job.steps; ++s) {
    if (a)
      for (int i = 0; i < 4; ++i) r[i] = a[(s * 4 + i) * 128 + threadIdx.x];
    if (a) pin(r);
    wg_fence();
    const int scale = s > 0 || job.accumulate;
    if constexpr (type == bf16) {
      if (a)
        wgmma_bf16<SA, 1, TB>(d, r, job.b[s] + base, scale);
      else
        wgmma_bf16<SA, 1, TA, TB>(d, job.a[s] + base, job.b[s] + base, scale);
    }
    if constexpr (type == f16) {
      if (a)
        wgmma_f16<SA, 1, TB>(d, r, job.b[s] + base, scale);
      else
        wgmma_f16<SA, 1, TA, TB>(d, job.a[s] + base, job.b[s] + base, scale);
    }
    if constexpr (type == tf32) {
      if (a)
        wgmma_tf32<SA>(d, r, job.b[s] + base, scale);
      else
        wgmma_tf32<SA>(d, job.a[s] + base, job.b[s] + base, scale);
    }
    wg_commit();
    if (a && job.bug != 2) wg_wait<0>();
  }
  wg_wait<0>();
  pin(d);
  for (int i = 0; i < N / 2; ++i) out[i * 128 + threadIdx.x] = d[i];
}
static int value(int i, int seed) { return int((u32(i) * 2654435761u + u32(seed) * 40503u) >> 20) % 17 - 8; }
static void put(u8* p, Type t, float x) {
  if (t == bf16) {
    const __nv_bfloat16 h = __float2bfloat16(x);
    std::memcpy(p, &h, 2);
  } else if (t == f16) {
    const __half h = __float2half(x);
    std::memcpy(p, &h, 2);
  } else
    std::memcpy(p, &x, 4);
}
template <int N, Type type = bf16, int TA = 0, int TB = 0, int SA = 1>
void wgmma_case(u64 mode_a, u64 mode_b, bool registers, bool accumulate, int ks = 64, int bug = 0) {
  const int size = type == tf32 ? 4 : 2, step = type == tf32 ? 8 : 16;
  const Layout la{mode_a, TA != 0, 64, ks, size}, lb{mode_b, TB != 0, N, ks, size};
  // An operand whose rows do not fill the swizzle of an MN-major layout has room for them.
  const int bytes_a = 64 * ks * size,
            rows_b = TB ? (N * size + span(mode_b) - 1) / span(mode_b) * span(mode_b) / size : N,
            bytes_b = (rows_b * ks * size + 1023) / 1024 * 1024;
  std::vector<u8> image(bytes_a + bytes_b, 0xff);
  std::vector<int> a(64 * ks), b(N * ks);
  for (int i = 0; i < 64 * ks; ++i) a[i] = value(i, 1);
  for (int i = 0; i < N * ks; ++i) b[i] = value(i, 2);
  for (int r = 0; r < 64; ++r)
    for (int k = 0; k < ks; ++k) put(&image[place(la, r, k)], type, float(a[r * ks + k]));
  for (int r = 0; r < N; ++r)
    for (int k = 0; k < ks; ++k) put(&image[bytes_a + place(lb, r, k)], type, float(b[r * ks + k]));
  Job job{};
  job.steps = ks / step;
  job.bytes = bytes_a + bytes_b;
  job.accumulate = accumulate;
  job.bug = bug;
  for (int s = 0; s < job.steps; ++s) job.a[s] = describe(la, 0, s * step), job.b[s] = describe(lb, bytes_a, s * step);
  std::vector<u32> fragments(job.steps * 4 * 128);
  for (int s = 0; s < job.steps; ++s)
    for (int i = 0; i < 4; ++i)
      for (int t = 0; t < 128; ++t) {
        u8 w[4];
        const int row = t / 32 * 16 + t % 32 / 4 + i % 2 * 8;
        if (type == tf32)
          put(w, type, float(a[row * ks + s * 8 + t % 4 + i / 2 * 4]));
        else
          for (int h = 0; h < 2; ++h) put(w + 2 * h, type, float(a[row * ks + s * 16 + t % 4 * 2 + h + i / 2 * 8]));
        std::memcpy(&fragments[(s * 4 + i) * 128 + t], w, 4);
      }
  const std::vector<uint4> words(reinterpret_cast<const uint4*>(image.data()),
                                 reinterpret_cast<const uint4*>(image.data()) + image.size() / 16);
  Array<uint4> I(words);
  Array<u32> F(fragments);
  Array<float> D(N / 2 * 128);
  cudaFuncSetAttribute(product<N, type, TA, TB, SA>, cudaFuncAttributeMaxDynamicSharedMemorySize, job.bytes);
  product<N, type, TA, TB, SA><<<1, 128, job.bytes>>>(I.p, registers ? F.p : nullptr, job, D.p);
  const auto d = D.host();
  int wrong = 0;
  for (int i = 0; i < N / 2; ++i)
    for (int t = 0; t < 128; ++t) {
      const int row = t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8, col = i / 4 * 8 + t % 4 * 2 + i % 2;
      int sum = 0;
      for (int k = 0; k < ks; ++k) sum += a[row * ks + k] * b[col * ks + k];
      wrong += d[i * 128 + t] != float(SA * sum + (accumulate ? i + t : 0));
    }
  if (wrong) {
    ++failures;
    std::printf("FAILED: wgmma N %d, type %d, modes %d %d, MN-major %d %d, %s: %d wrong\n", N, type, int(mode_a),
                int(mode_b), TA, TB, registers ? "registers" : "shared", wrong);
  }
}
template <int N>
void all_n() {
  wgmma_case<N>(1, 1, N % 16 != 0, N % 24 == 0);
  if constexpr (N > 8) all_n<N - 8>();
}

// --- copies ---
struct Copy {
  int rank, at[5], bytes;
};
__global__ void load_tile(const __grid_constant__ CUtensorMap m, Copy c, uint4* out) {
  extern __shared__ __align__(1024) u8 memory[];
  __shared__ u64 barrier;
  const u32 b = shared(&barrier), to = shared(memory);
  if (threadIdx.x == 0) {
    mb_init(b, 1);
    mb_fence_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&m) : "memory");
    mb_expect(b, c.bytes);
#define TILE(d, list, ...)                                                                                            \
  asm volatile("cp.async.bulk.tensor." d ".shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, " list \
               "], [%2];" ::"r"(to),                                                                                  \
               "l"(&m), "r"(b), __VA_ARGS__                                                                           \
               : "memory")
    if (c.rank == 1) TILE("1d", "{%3}", "r"(c.at[0]));
    if (c.rank == 2) TILE("2d", "{%3, %4}", "r"(c.at[0]), "r"(c.at[1]));
    if (c.rank == 3) TILE("3d", "{%3, %4, %5}", "r"(c.at[0]), "r"(c.at[1]), "r"(c.at[2]));
    if (c.rank == 4) TILE("4d", "{%3, %4, %5, %6}", "r"(c.at[0]), "r"(c.at[1]), "r"(c.at[2]), "r"(c.at[3]));
    if (c.rank == 5)
      TILE("5d", "{%3, %4, %5, %6, %7}", "r"(c.at[0]), "r"(c.at[1]), "r"(c.at[2]), "r"(c.at[3]), "r"(c.at[4]));
  }
  if (threadIdx.x % 2)
    mb_wait(b, 0);
  else
    while (!mb_test(b, 0))
      ;
  __syncwarp();
  for (int i = threadIdx.x; i < c.bytes / 16; i += blockDim.x) out[i] = reinterpret_cast<uint4*>(memory)[i];
}
static void tiles() {
  const int sizes[5] = {72, 11, 5, 3, 2}, boxes[5] = {0, 4, 3, 2, 2};
  for (int rank = 1; rank <= 5; ++rank)
    for (int mode = 0; mode < 4; ++mode)
      for (int edge = 0; edge < 4; ++edge)
        for (int nan = 0; nan < 2; ++nan) {
          const int w = mode == 0 ? 48 : 16 << mode, inner = w / 2;
          std::vector<cuuint64_t> dim, stride;
          std::vector<cuuint32_t> box;
          u64 step = 80 * 2;
          int elements = 1, total = 80;
          Copy c{rank, {}, 0};
          for (int d = 0; d < rank; ++d) {
            dim.push_back(sizes[d] - (d == 0 ? edge % 2 : 0));
            box.push_back(d == 0 ? inner : boxes[d]);
            elements *= box.back();
            if (d) {
              stride.push_back(step);
              step *= sizes[d];
              total *= sizes[d];
            }
            c.at[d] = edge == 0   ? (d == 0 ? 8 : 1)
                      : edge == 1 ? -3 + d
                      : edge == 2 ? sizes[d] - int(box[d]) / 2 - 1
                      : d == 0    ? 80
                                  : 0;
          }
          c.bytes = elements * 2;
          std::vector<unsigned short> x(total);
          for (int i = 0; i < total; ++i) x[i] = static_cast<unsigned short>(i * 7 + 1);
          Array<unsigned short> X(x);
          Array<uint4> O(c.bytes / 16);
          load_tile<<<1, 64, c.bytes>>>(
              map_of(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, X.p, dim, stride, box, CUtensorMapSwizzle(mode), nan), c, O.p);
          const auto o = O.host();
          const auto* got = reinterpret_cast<const unsigned short*>(o.data());
          for (int e = 0; e < elements; ++e) {
            int q = e, i[5] = {};
            long at = 0;
            bool inside = true;
            for (int d = 0; d < rank; ++d) {
              i[d] = q % int(box[d]);
              q /= int(box[d]);
              const int g = c.at[d] + i[d];
              inside &= g >= 0 && g < int(dim[d]);
              at += d ? g * long(stride[d - 1] / 2) : g;
            }
            const int line = e / inner, chunk = i[0] / 8;
            const int moved = mode == 3   ? chunk ^ line % 8
                              : mode == 2 ? chunk ^ line / 2 % 4
                              : mode == 1 ? chunk ^ line / 4 % 2
                                          : chunk;
            const unsigned short have = got[line * inner + moved * 8 + i[0] % 8];
            if (inside)
              CHECK(have == x[at]);
            else if (nan)
              CHECK((have & 0x7fff) > 0x7f80);
            else
              CHECK(have == 0);
          }
        }
}
__global__ void copy_through(const float* x, float* y, const __grid_constant__ CUtensorMap to,
                             const __grid_constant__ CUtensorMap add, int bug) {
  __shared__ __align__(128) float s[256];
  __shared__ u64 barrier;
  const u32 b = shared(&barrier), at = shared(s);
  if (threadIdx.x == 0) {
    mb_init(b, 1);
    mb_fence_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    mb_expect(b, 1024);
    for (int i = 0; i < 4; ++i)
      asm volatile(
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(at + i * 256),
          "l"(x + i * 64), "r"(256), "r"(b)
          : "memory");
  }
  mb_wait(b, 0);
  for (int i = threadIdx.x; i < 256; i += 32) s[i] += 1;
  if (bug != 1) proxy_fence();
  __syncwarp();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(y), "r"(at), "r"(1024) : "memory");
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(y + 256), "r"(at),
                 "r"(1024)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&to), "r"(-2),
                 "r"(3), "r"(at)
                 : "memory");
    asm volatile(
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&add),
        "r"(4), "r"(0), "r"(at)
        : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    if (bug != 2) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  }
  __syncwarp();
  for (int i = threadIdx.x; i < 256; i += 32) s[i] = -1;
  if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
static bool copies(int bug) {
  std::vector<float> x(256), y(512, 5.f), t(12 * 20, 100.f);
  for (int i = 0; i < 256; ++i) x[i] = float(i);
  Array<float> X(x), Y(y), T(t), A(t);
  const CUtensorMap to = map_of(CU_TENSOR_MAP_DATA_TYPE_FLOAT32, T.p, {18, 11}, {80}, {16, 16},
                                CU_TENSOR_MAP_SWIZZLE_NONE),
                    add = map_of(CU_TENSOR_MAP_DATA_TYPE_FLOAT32, A.p, {18, 11}, {80}, {16, 16},
                                 CU_TENSOR_MAP_SWIZZLE_NONE);
  copy_through<<<1, 32>>>(X.p, Y.p, to, add, bug);
  const auto h = Y.host(), ht = T.host(), ha = A.host();
  int wrong = 0;
  for (int i = 0; i < 256; ++i) wrong += h[i] != i + 1.f, wrong += h[256 + i] != i + 6.f;
  for (int r = 0; r < 12; ++r)
    for (int c = 0; c < 20; ++c) {
      const bool in_map = r < 11 && c < 18;
      wrong += ht[r * 20 + c] != (in_map && r >= 3 && c + 2 < 16 ? (r - 3) * 16 + c + 2 + 1.f : 100.f);
      wrong += ha[r * 20 + c] != (in_map && c >= 4 ? 100.f + r * 16 + c - 4 + 1.f : 100.f);
    }
  return wrong == 0;
}

// --- mbarriers and named barriers ---
__global__ void barriers(u32* out) {
  __shared__ u64 b[2];
  __shared__ u32 data[4];
  const u32 b0 = shared(b), b1 = shared(b + 1), warp = threadIdx.x / 32;
  if (threadIdx.x == 0) {
    mb_init(b0, 96);
    mb_init(b1, 2);
    mb_fence_init();
  }
  __syncthreads();
  if (warp < 3) {
    if (threadIdx.x % 32 == 0) data[warp] = warp + 10;
    __syncwarp();
    u64 state;
    asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(b0) : "memory");
    asm volatile("{\n.reg .pred p;\nW: mbarrier.try_wait.shared::cta.b64 p, [%0], %1;\n@!p bra W;\n}\n" ::"r"(b0),
                 "l"(state)
                 : "memory");
    if (warp == 0) asm volatile("bar.arrive 3, 64;" ::: "memory");
  } else {
    if (elected()) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], 2;" ::"r"(b1) : "memory");
    mb_wait(b1, 0);
    asm volatile("bar.sync 3, 64;" ::: "memory");
  }
  if (warp != 1) out[threadIdx.x] = data[0] + data[1] + data[2];
  if (warp == 0) asm volatile("bar.sync 4, 96;" ::: "memory");
  if (warp == 1 || warp == 2) asm volatile("bar.arrive 4, 96;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(b0) : "memory");
    mb_init(b0, 1);
  }
}

// One try_wait that only the thread's own later arrival could satisfy, which must give up; and a test_wait that spins for ever.
__global__ void peek(u32* out, bool for_ever) {
  __shared__ u64 b;
  const u32 at = shared(&b);
  if (threadIdx.x == 0) {
    mb_init(at, 1);
    u32 early;
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\nselp.u32 %0, 1, 0, p;\n}\n"
                 : "=r"(early)
                 : "r"(at)
                 : "memory");
    if (!for_ever) mb_arrive(at);
    while (!mb_test(at, 0)) ++early;
    out[0] = early;
  }
}

// cp.async that arrives at an mbarrier; a cluster of one block; stmatrix, read by wgmma's neighbour ldmatrix.
__global__ void others(const u32* x, u32* out) {
  __shared__ __align__(128) u32 s[512], t[512];
  __shared__ u64 b;
  u32 rank, at = shared(&b), own = shared(s), far;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far) : "r"(at), "r"(rank));
  if (threadIdx.x == 0) {
    mb_init(at, 32 + 4);
    mb_fence_init();
  }
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp == 0) {
    for (int i = 0; i < 4; ++i)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(own + (i * 32 + lane) * 16),
                   "l"(x + (i * 32 + lane) * 4)
                   : "memory");
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(at) : "memory");
    if (lane < 4) asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(far) : "memory");
  } else {
    mb_wait(at, 0);
    for (int i = lane; i < 512; i += 32) out[i] = s[i];
    if (warp == 1) {
      // Rows of 8 matrices of 8 x 8: one through stmatrix.trans, and back.
      const u32 row = shared(t) + lane * 16;
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(lane),
                   "r"(lane + 100), "r"(lane + 200), "r"(lane + 300)
                   : "memory");
      asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(row + 512),
                   "r"(lane | lane << 16), "r"(lane + 500)
                   : "memory");
      __syncwarp();
      for (int i = lane; i < 192; i += 32) out[512 + i] = t[i];
    }
  }
}

// --- a matrix product: one producer warp, three stages, two consumer warpgroups ---
constexpr int stages = 3, stage_bytes = 32768;
enum Bug {
  none,
  no_wait,
  wrong_phase,
  few_bytes,
  many_bytes,
  no_wgmma_wait,
  wrong_swizzle,
  early_release,
  disagree,
  no_fence,
  too_many_registers,
  no_init_sync,
  no_proxy_fence,
  no_store_wait,
  no_commit,
  three_warps
};
__global__ void __launch_bounds__(384, 1)
    gemm(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float* c, int tiles, int ldc,
         int bug) {
  extern __shared__ __align__(1024) u8 memory[];
  __shared__ u64 full[stages], empty[stages];
  const int group = threadIdx.x / 128, row = blockIdx.y * 128, col = blockIdx.x * 128;
  const u32 at = shared(memory);
  if (threadIdx.x == 0) {
    for (int s = 0; s < stages; ++s) mb_init(shared(full + s), 1), mb_init(shared(empty + s), 2);
    mb_fence_init();
  }
  if (bug != no_init_sync) __syncthreads();
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x < 32 && elected())
      for (int t = 0; t < tiles; ++t) {
        const int s = t % stages;
        mb_wait(shared(empty + s), (t / stages & 1) ^ 1);
        mb_expect(shared(full + s), bug == few_bytes    ? stage_bytes / 2
                                    : bug == many_bytes ? stage_bytes + 16
                                                        : stage_bytes);
        tma_2d(at + s * stage_bytes, &a, t * 64, row, shared(full + s));
        tma_2d(at + s * stage_bytes + 16384, &b, t * 64, col, shared(full + s));
      }
  } else {
    if (bug == too_many_registers)
      asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    else
      asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    float d[64];
    for (int t = 0; t < tiles; ++t) {
      const int s = t % stages;
      if (bug != no_wait || t != 1) mb_wait(shared(full + s), (t / stages & 1) ^ (bug == wrong_phase));
      const u32 sa = at + s * stage_bytes + (group - 1) * 8192, sb = at + s * stage_bytes + 16384;
      if (bug == no_fence)
        for (int i = 0; i < 64; ++i) d[i] = t ? d[i] * 1.5f : 0.f;
      pin(d);
      if (bug != no_fence || t == 0) wg_fence();
      if (bug != three_warps || threadIdx.x / 32 != 6)
        for (int k = 0; k < 4; ++k) {
          const u64 mode = bug == wrong_swizzle ? 2 : 1;
          wgmma_bf16<1, 1, 0, 0>(
              d, descriptor(sa + k * 32 + (bug == disagree && threadIdx.x / 32 == 6 ? 32 : 0), 16, 1024, mode),
              descriptor(sb + k * 32, 16, 1024, mode), t > 0 || k > 0);
        }
      if (bug != no_commit) wg_commit();
      if (bug == early_release) {
        if (threadIdx.x % 128 == 0) mb_arrive(shared(empty + s));
        wg_wait<1>();
        continue;
      }
      // One product stays in flight; the stage before is free.
      wg_wait<1>();
      if (t > 0 && threadIdx.x % 128 == 0) mb_arrive(shared(empty + (t - 1) % stages));
    }
    if (bug != no_wgmma_wait) wg_wait<0>();
    pin(d);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    for (int i = 0; i < 64; ++i)
      c[(row + (group - 1) * 64 + warp * 16 + lane / 4 + i / 2 % 2 * 8) * ldc + col + i / 4 * 8 + lane % 4 * 2 +
        i % 2] = d[i];
  }
}
static bool gemms(int bug) {
  const int m = 256, n = 128, k = 360;  // the last tile reaches beyond the end
  std::vector<__nv_bfloat16> a(m * k), b(n * k);
  for (int i = 0; i < m * k; ++i) a[i] = __float2bfloat16(float(value(i, 3)) / 8);
  for (int i = 0; i < n * k; ++i) b[i] = __float2bfloat16(float(value(i, 4)) / 8);
  Array<__nv_bfloat16> A(a), B(b);
  Array<float> C(m * n);
  const auto ma = map_of(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, A.p, {k, m}, {k * 2}, {64, 128}, CU_TENSOR_MAP_SWIZZLE_128B),
             mb = map_of(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, B.p, {k, n}, {k * 2}, {64, 128}, CU_TENSOR_MAP_SWIZZLE_128B);
  cudaFuncSetAttribute(gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, stages * stage_bytes);
  gemm<<<dim3(1, 2), 384, stages * stage_bytes>>>(ma, mb, C.p, (k + 63) / 64, n, bug);
  const auto c = C.host();
  int wrong = 0;
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double s = 0;
      for (int x = 0; x < k; ++x) s += double(__bfloat162float(a[i * k + x])) * double(__bfloat162float(b[j * k + x]));
      wrong += !(std::fabs(c[i * n + j] - s) <= 1e-5 * std::fabs(s) + 1e-5);
    }
  return wrong == 0;
}

// --- attention: 128 queries, head dimension 64, tiles of 64 keys; P stays in registers, O leaves through a bulk store ---
__global__ void __launch_bounds__(384, 1)
    attention(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap k,
              const __grid_constant__ CUtensorMap v, const __grid_constant__ CUtensorMap o, int keys, float scale,
              int bug) {
  extern __shared__ __align__(1024) u8 memory[];  // Q, then stages of K and V, then O in fp32
  __shared__ u64 full[stages], empty[stages], q_full;
  const int group = threadIdx.x / 128, tiles = (keys + 63) / 64;
  const u32 sq = shared(memory), skv = sq + 16384, so = skv + stages * 16384;
  if (threadIdx.x == 0) {
    for (int s = 0; s < stages; ++s) mb_init(shared(full + s), 1), mb_init(shared(empty + s), 2);
    mb_init(shared(&q_full), 1);
    mb_fence_init();
  }
  __syncthreads();
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x / 32 == 1 && elected()) {
      mb_expect(shared(&q_full), 16384);
      tma_2d(sq, &q, 0, blockIdx.x * 128, shared(&q_full));
      for (int t = 0; t < tiles; ++t) {
        const int s = t % stages;
        mb_wait(shared(empty + s), (t / stages & 1) ^ 1);
        mb_expect(shared(full + s), 16384);
        tma_2d(skv + s * 16384, &k, 0, t * 64, shared(full + s));
        tma_2d(skv + s * 16384 + 8192, &v, 0, t * 64, shared(full + s));
      }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const u32 mine = sq + (group - 1) * 8192;
    float acc[32], top[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
    for (int i = 0; i < 32; ++i) acc[i] = 0;
    mb_wait(shared(&q_full), 0);
    for (int t = 0; t < tiles; ++t) {
      const int s = t % stages;
      const u32 sk = skv + s * 16384, sv = sk + 8192;
      mb_wait(shared(full + s), t / stages & 1);
      float x[32];
      wg_fence();
      for (int i = 0; i < 4; ++i)
        wgmma_bf16<1, 1, 0, 0>(x, descriptor(mine + i * 32, 16, 1024, 1), descriptor(sk + i * 32, 16, 1024, 1), i > 0);
      wg_commit();
      wg_wait<0>();
      pin(x);
      for (int h = 0; h < 2; ++h) {
        float m = top[h];
        for (int i = 0; i < 32; ++i)
          if (i / 2 % 2 == h) {
            const int key = t * 64 + i / 4 * 8 + lane % 4 * 2 + i % 2;
            x[i] = key < keys ? x[i] * scale : -INFINITY;
            m = fmaxf(m, x[i]);
          }
        m = fmaxf(m, __shfl_xor_sync(~0u, m, 1));
        m = fmaxf(m, __shfl_xor_sync(~0u, m, 2));
        const float shrink = exp2f(top[h] - m);
        float part = 0;
        for (int i = 0; i < 32; ++i)
          if (i / 2 % 2 == h) {
            x[i] = exp2f(x[i] - m);
            part += x[i];
            acc[i] *= shrink;
          }
        part += __shfl_xor_sync(~0u, part, 1);
        part += __shfl_xor_sync(~0u, part, 2);
        sum[h] = sum[h] * shrink + part;
        top[h] = m;
      }
      u32 p[4][4];
#pragma unroll
      for (int i = 0; i < 16; ++i)
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(p[i / 4][i % 4]) : "f"(x[2 * i + 1]), "f"(x[2 * i]));
      pin(acc);
#pragma unroll
      for (int i = 0; i < 4; ++i) pin(p[i]);
      if (bug != no_fence) wg_fence();
#pragma unroll
      for (int i = 0; i < 4; ++i) wgmma_bf16<1, 1, 1>(acc, p[i], descriptor(sv + i * 2048, 8192, 1024, 1), 1);
      wg_commit();
      if (bug == early_release && threadIdx.x % 128 == 0) mb_arrive(shared(empty + s));
      wg_wait<0>();
      pin(acc);
      if (bug != early_release && threadIdx.x % 128 == 0) mb_arrive(shared(empty + s));
    }
    float* out = reinterpret_cast<float*>(memory + 16384 + stages * 16384) + (group - 1) * 4096;
    for (int i = 0; i < 32; ++i)
      out[(warp * 16 + lane / 4 + i / 2 % 2 * 8) * 64 + i / 4 * 8 + lane % 4 * 2 + i % 2] = acc[i] / sum[i / 2 % 2];
    if (bug != no_proxy_fence) proxy_fence();
    named(group, 128);
    if (threadIdx.x % 128 == 0) {
      asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&o), "r"(0),
                   "r"(int(blockIdx.x * 128 + (group - 1) * 64)), "r"(so + (group - 1) * 16384)
                   : "memory");
      asm volatile("cp.async.bulk.commit_group;" ::: "memory");
      if (bug != no_store_wait) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
  }
}
static bool attentions(int bug, int keys = 450) {
  const int queries = 200, d = 64;
  std::vector<__nv_bfloat16> q(queries * d), k(keys * d), v(keys * d);
  for (int i = 0; i < queries * d; ++i) q[i] = __float2bfloat16(float(value(i, 5)) / 8);
  for (int i = 0; i < keys * d; ++i)
    k[i] = __float2bfloat16(float(value(i, 6)) / 8), v[i] = __float2bfloat16(float(value(i, 7)) / 4);
  Array<__nv_bfloat16> Q(q), K(k), V(v);
  Array<float> O(queries * d);
  const auto rows = [&](void* p, int n, unsigned box) {
    return map_of(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, p, {d, cuuint64_t(n)}, {d * 2}, {64, box},
                  CU_TENSOR_MAP_SWIZZLE_128B);
  };
  const auto mo =
      map_of(CU_TENSOR_MAP_DATA_TYPE_FLOAT32, O.p, {d, queries}, {d * 4}, {64, 64}, CU_TENSOR_MAP_SWIZZLE_NONE);
  const int bytes = 16384 + stages * 16384 + 32768;
  cudaFuncSetAttribute(attention, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  attention<<<2, 384, bytes>>>(rows(Q.p, queries, 128), rows(K.p, keys, 64), rows(V.p, keys, 64), mo, keys,
                               0.125f * 1.4426950408889634f, bug);
  const auto o = O.host();
  double worst = 0;
  for (int i = 0; i < queries; ++i) {
    std::vector<double> p(keys);
    double top = -1e300, sum = 0;
    for (int j = 0; j < keys; ++j) {
      double s = 0;
      for (int c = 0; c < d; ++c) s += double(__bfloat162float(q[i * d + c])) * double(__bfloat162float(k[j * d + c]));
      p[j] = s / 8;
      top = std::max(top, p[j]);
    }
    for (double& x : p) x = std::exp(x - top), sum += x;
    for (int c = 0; c < d; ++c) {
      double s = 0;
      for (int j = 0; j < keys; ++j) s += p[j] * double(__bfloat162float(v[j * d + c]));
      const double e = std::fabs(o[i * d + c] - s / sum);
      worst = e <= worst ? worst : e == e ? e : 1e9;
    }
  }
  if (!bug) std::printf("attention: %d keys, greatest error %.1e\n", keys, worst);
  return worst < 4e-3;
}

int main(int argc, char** argv) {
  if (argc < 2) {
    all_n<256>();
    for (u64 mode = 0; mode < 4; ++mode)
      for (u64 other = 0; other < 4; ++other) {
        if (mode == other || mode == 0) {
          wgmma_case<64, bf16, 0, 0>(mode, other, false, true);
          wgmma_case<64, bf16, 0, 1>(mode, other, false, false);
          wgmma_case<64, bf16, 1, 0>(mode, other, false, false);
          wgmma_case<64, bf16, 1, 1>(mode, other, false, true, 128);
        }
        if (mode == 0) {
          wgmma_case<64, bf16, 0, 0>(mode, other, true, true);
          wgmma_case<64, bf16, 0, 1>(mode, other, true, false);
          wgmma_case<64, f16, 0, 1>(other, other, false, true);
          wgmma_case<64, f16, 0, 0>(other, other, true, false);
          wgmma_case<64, tf32, 0, 0>(other, other, false, true);
          wgmma_case<64, tf32, 0, 0>(other, other, true, false);
          wgmma_case<128, bf16, 0, 1>(1, other, false, false);
          wgmma_case<256, bf16, 0, 1>(1, other, true, false, 32);
        }
      }
    wgmma_case<64, bf16, 0, 0, -1>(1, 1, false, true);
    wgmma_case<64, bf16, 0, 0, -1>(1, 1, true, true);
    std::printf("wgmma: %d failures\n", failures);
    tiles();
    std::printf("tiles: %d failures\n", failures);
    CHECK(copies(0));
    {
      Array<u32> O(128);
      cudaMemset(O.p, 0, 512);
      barriers<<<1, 128>>>(O.p);
      const auto o = O.host();
      for (int i = 0; i < 128; ++i) CHECK(o[i] == (i / 32 == 1 ? 0u : 33u));
    }
    {
      std::vector<u32> x(512);
      for (int i = 0; i < 512; ++i) x[i] = i * 3 + 1;
      Array<u32> X(x), O(1024);
      others<<<1, 64>>>(X.p, O.p);
      const auto o = O.host();
      for (int i = 0; i < 512; ++i) CHECK(o[i] == x[i]);
      for (int i = 0; i < 128; ++i) CHECK(o[512 + i] == u32(i % 32 + i / 32 * 100));
      const auto* h = reinterpret_cast<const unsigned short*>(o.data() + 640);
      for (int m = 0; m < 2; ++m)
        for (int r = 0; r < 8; ++r)
          for (int c = 0; c < 8; ++c)
            CHECK(h[m * 64 + r * 8 + c] == (m == 0 ? c * 4 + r / 2 : r % 2 ? 0 : c * 4 + r / 2 + 500));
    }
    {
      Array<u32> O(1);
      peek<<<1, 64>>>(O.p, false);
      CHECK(O.host()[0] == 0);
    }
    CHECK(gemms(none));
    for (const int keys : {450, 1, 64, 200}) CHECK(attentions(none, keys));
    std::printf("%s: %d failures\n", failures ? "FAILED" : "ok", failures);
    return failures != 0;
  }
  const std::string name = argv[1];
  const char* const names[] = {"none",           "no_wait",       "wrong_phase",        "few_bytes",
                               "many_bytes",     "no_wgmma_wait", "wrong_swizzle",      "early_release",
                               "disagree",       "no_fence",      "too_many_registers", "no_init_sync",
                               "no_proxy_fence", "no_store_wait", "no_commit",          "three_warps"};
  bool right = true;
  for (int i = 0; i < 16; ++i)
    if (name == names[i]) right = i == no_proxy_fence || i == no_store_wait ? attentions(i) : gemms(i);
  if (name == "attention_fence") right = attentions(no_fence);
  if (name == "attention_release") right = attentions(early_release);
  if (name == "operand_fence") wgmma_case<64>(1, 1, false, false, 64, 1), right = !failures;
  if (name == "overwritten_a") wgmma_case<64>(1, 1, true, false, 64, 2), right = !failures;
  if (name == "speed") right = attentions(none, 20000);
  if (name == "spin") {
    Array<u32> O(1);
    peek<<<1, 64>>>(O.p, true);
  }
  if (name == "copy_fence") right = copies(1);
  if (name == "copy_wait") right = copies(2);
  std::printf("%s, %s\n", right ? "right" : "wrong", cudaGetErrorString(cudaDeviceSynchronize()));
}
