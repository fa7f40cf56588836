// Checks the interpreter itself: instructions against plain C++, and planted errors, each of which must be found.
//   selftest            the instructions
//   selftest NAME       runs one erroneous kernel; the caller looks for the message
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

static int failures = 0;
#define CHECK(x)                                         \
  do {                                                   \
    if (!(x)) {                                          \
      ++failures;                                        \
      std::printf("FAILED line %d: %s\n", __LINE__, #x); \
    }                                                    \
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
  std::vector<T> host() const {
    std::vector<T> v(n);
    cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost);
    return v;
  }
};

// --- instructions ---
// The fragments of PTX ISA 9.7.14.5 (m16n8k16): row and column of element i of a lane, written from the manual's formulas.
__global__ void mma_bf16(const __nv_bfloat16* A, const __nv_bfloat16* B, const float* C, float* D) {
  const int lane = threadIdx.x, groupID = lane >> 2, tig = lane % 4;
  __nv_bfloat16 a[8], b[4];
  float c[4];
  for (int i = 0; i < 8; ++i) {
    const int row = (i < 2 || (i >= 4 && i < 6)) ? groupID : groupID + 8;
    const int col = tig * 2 + (i & 1) + (i >= 4 ? 8 : 0);
    a[i] = A[row * 16 + col];
  }
  for (int i = 0; i < 4; ++i) b[i] = B[(tig * 2 + (i & 1) + (i >= 2 ? 8 : 0)) * 8 + groupID];
  for (int i = 0; i < 4; ++i) c[i] = C[(i < 2 ? groupID : groupID + 8) * 8 + tig * 2 + (i & 1)];
  const auto* x = reinterpret_cast<const unsigned*>(a);
  const auto* y = reinterpret_cast<const unsigned*>(b);
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
  for (int i = 0; i < 4; ++i) D[(i < 2 ? groupID : groupID + 8) * 8 + tig * 2 + (i & 1)] = c[i];
}
__global__ void integers(const int* x, const int* y, int* out, long long* wide, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int a = x[i], b = y[i];
  const unsigned u = a, v = b;
  int* o = out + i * 16;
  o[0] = a + b;
  o[1] = a * b;
  o[2] = b ? a / b : 7;
  o[3] = b ? a % b : 7;
  o[4] = __mulhi(a, b);
  o[5] = __umulhi(u, v);
  o[6] = a >> (b & 31);
  o[7] = u >> (v & 31);
  o[8] = __popc(u);
  o[9] = __clz(a);
  o[10] = __brev(u);
  o[11] = __byte_perm(u, v, 0x7351);
  o[12] = __funnelshift_l(u, v, 5);
  o[13] = __funnelshift_r(u, v, 37);
  o[14] = min(a, b);
  o[15] = max(u, v);
  wide[i * 3] = static_cast<long long>(a) * b;
  wide[i * 3 + 1] = static_cast<long long>(u) * v;
  wide[i * 3 + 2] = b ? (static_cast<long long>(a) << 20) / b : 7;
}
__global__ void floats(const float* x, const float* y, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float a = x[i], b = y[i];
  float* o = out + i * 16;
  o[0] = a + b;
  o[1] = a * b;
  o[2] = a / b;
  o[3] = fmaf(a, b, 1.f);
  o[4] = sqrtf(fabsf(a));
  o[5] = fminf(a, b);
  o[6] = fmaxf(a, b);
  o[7] = expf(a);
  o[8] = logf(fabsf(a));
  o[9] = __int2float_rn(__float2int_rz(a));
  o[10] = __bfloat162float(__float2bfloat16_rn(a));
  o[11] = __half2float(__float2half_rn(a));
  o[12] = rintf(a);
  o[13] = floorf(a);
  o[14] = tanhf(a);
  o[15] = erff(a);
}
__global__ void warps(int* out) {
  const int lane = threadIdx.x;
  int* o = out + lane * 12;
  o[0] = __shfl_xor_sync(~0u, lane * 3, 5);
  o[1] = __shfl_up_sync(~0u, lane, 3);
  o[2] = __shfl_down_sync(~0u, lane, 4);
  o[3] = __shfl_sync(~0u, lane, 9);
  o[4] = __shfl_xor_sync(~0u, lane, 1, 8);
  o[5] = __shfl_sync(~0u, lane, 2, 8);
  o[6] = __ballot_sync(~0u, lane % 3 == 0);
  o[7] = __any_sync(~0u, lane == 31);
  o[8] = __all_sync(~0u, lane < 31);
  o[9] = __match_any_sync(~0u, lane / 5);
  int sum = 0;
  for (int i = 0; i < lane; ++i) sum += i;  // diverges
  if (lane & 1) sum += __shfl_xor_sync(0xaaaaaaaau, lane, 2);
  o[10] = sum;
  o[11] = __reduce_add_sync(~0u, lane);
}
// cp.async and ldmatrix: copies 32 rows of 16 bytes, the last one only in part, and reads them transposed.
__global__ void copies(const unsigned short* x, unsigned* out) {
  __shared__ __align__(16) unsigned short tile[32][8];
  const int lane = threadIdx.x;
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(tile[lane]));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(x + lane * 8), "r"(lane == 31 ? 6 : 16)
               : "memory");
  asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  unsigned w[4];
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
               : "r"(to)
               : "memory");
  for (int i = 0; i < 4; ++i) out[lane * 4 + i] = w[i];
}

static void instructions() {
  {
    std::vector<__nv_bfloat16> a(256), b(128);
    std::vector<float> c(128);
    for (int i = 0; i < 256; ++i) a[i] = __float2bfloat16(float(i * 37 % 101 - 50) / 8);
    for (int i = 0; i < 128; ++i) b[i] = __float2bfloat16(float(i * 53 % 97 - 48) / 4), c[i] = float(i);
    Array<__nv_bfloat16> A(a), B(b);
    Array<float> C(c), D(128);
    mma_bf16<<<1, 32>>>(A.p, B.p, C.p, D.p);
    const auto d = D.host();
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < 8; ++j) {
        float s = c[i * 8 + j];
        for (int k = 0; k < 16; ++k) s += __bfloat162float(a[i * 16 + k]) * __bfloat162float(b[k * 8 + j]);
        CHECK(d[i * 8 + j] == s);
      }
  }
  {
    const int n = 1000;
    std::vector<int> x(n), y(n);
    unsigned s = 1;
    for (int i = 0; i < n; ++i) {
      s = s * 1664525u + 1013904223u;
      x[i] = int(s) >> (i % 31);
      s = s * 1664525u + 1013904223u;
      y[i] = int(s) >> (i * 7 % 31);
    }
    x[0] = 0, y[0] = 0;
    x[1] = -1, y[1] = 1;
    x[2] = 2147483647, y[2] = -1;
    Array<int> X(x), Y(y), O(16 * n);
    Array<long long> W(3 * n);
    integers<<<(n + 127) / 128, 128>>>(X.p, Y.p, O.p, W.p, n);
    const auto o = O.host();
    const auto w = W.host();
    for (int i = 0; i < n; ++i) {
      const int a = x[i], b = y[i];
      const unsigned u = a, v = b;
      const int* r = o.data() + 16 * i;
      const std::int64_t la = a, lb = b;
      CHECK(r[0] == int(u + v));
      CHECK(r[1] == int(u * v));
      CHECK(r[2] == (b ? int(la / lb) : 7));
      CHECK(r[3] == (b ? int(la % lb) : 7));
      CHECK(r[4] == int(la * lb >> 32));
      CHECK(unsigned(r[5]) == unsigned(std::uint64_t(u) * v >> 32));
      CHECK(r[6] == a >> (b & 31));
      CHECK(unsigned(r[7]) == u >> (v & 31));
      CHECK(r[8] == __builtin_popcount(u));
      CHECK(r[9] == (a ? __builtin_clz(u) : 32));
      unsigned rev = 0;
      for (int k = 0; k < 32; ++k) rev |= (u >> k & 1) << (31 - k);
      CHECK(unsigned(r[10]) == rev);
      const std::uint64_t both = std::uint64_t(v) << 32 | u;
      const auto byte = [&](int k) { return unsigned(both >> 8 * k & 255); };
      CHECK(unsigned(r[11]) == (byte(1) | byte(5) << 8 | byte(3) << 16 | byte(7) << 24));
      CHECK(unsigned(r[12]) == (v << 5 | u >> 27));
      CHECK(unsigned(r[13]) == (u >> 5 | v << 27));
      CHECK(r[14] == (a < b ? a : b));
      CHECK(unsigned(r[15]) == (u > v ? u : v));
      CHECK(w[3 * i] == la * lb);
      CHECK(std::uint64_t(w[3 * i + 1]) == std::uint64_t(u) * v);
      CHECK(w[3 * i + 2] == (b ? (la << 20) / lb : 7));
    }
  }
  {
    const int n = 400;
    std::vector<float> x(n), y(n);
    for (int i = 0; i < n; ++i) x[i] = float(i - 200) * 0.0371f, y[i] = float(i * 7 % 53 + 1) * 0.11f;
    Array<float> X(x), Y(y), O(16 * n);
    floats<<<4, 100>>>(X.p, Y.p, O.p, n);
    const auto o = O.host();
    for (int i = 0; i < n; ++i) {
      const float a = x[i], b = y[i];
      const float* r = o.data() + 16 * i;
      const auto near = [](float g, double w, double ulps) {
        return std::fabs(g - w) <= ulps * 1.2e-7 * std::fabs(w) + 1e-30 || (std::isinf(w) && g == w);
      };
      CHECK(r[0] == a + b);
      CHECK(r[1] == a * b);
      CHECK(r[2] == a / b);
      CHECK(r[3] == std::fma(a, b, 1.f));
      CHECK(r[4] == std::sqrt(std::fabs(a)));
      CHECK(r[5] == std::fmin(a, b));
      CHECK(r[6] == std::fmax(a, b));
      CHECK(near(r[7], std::exp(double(a)), 2));
      CHECK(near(r[8], std::log(std::fabs(double(a))), 2));
      CHECK(r[9] == std::trunc(a));
      CHECK(r[10] == __bfloat162float(__float2bfloat16_rn(a)));
      CHECK(r[11] == __half2float(__float2half_rn(a)));
      CHECK(r[12] == std::rint(a));
      CHECK(r[13] == std::floor(a));
      CHECK(near(r[14], std::tanh(double(a)), 3));
      CHECK(near(r[15], std::erf(double(a)), 3));
    }
  }
  {
    Array<int> O(32 * 12);
    warps<<<1, 32>>>(O.p);
    const auto o = O.host();
    for (int l = 0; l < 32; ++l) {
      const int* r = o.data() + 12 * l;
      CHECK(r[0] == (l ^ 5) * 3);
      CHECK(r[1] == (l >= 3 ? l - 3 : l));
      CHECK(r[2] == (l + 4 < 32 ? l + 4 : l));
      CHECK(r[3] == 9);
      CHECK(r[4] == (l ^ 1));
      CHECK(r[5] == l / 8 * 8 + 2);
      unsigned ballot = 0, match = 0;
      for (int k = 0; k < 32; ++k) {
        if (k % 3 == 0) ballot |= 1u << k;
        if (k / 5 == l / 5) match |= 1u << k;
      }
      CHECK(unsigned(r[6]) == ballot);
      CHECK(r[7] == 1);
      CHECK(r[8] == 0);
      CHECK(unsigned(r[9]) == match);
      CHECK(r[10] == l * (l - 1) / 2 + (l & 1 ? (l ^ 2) : 0));
      CHECK(r[11] == 496);
    }
  }
  {
    std::vector<unsigned short> x(256);
    for (int i = 0; i < 256; ++i) x[i] = static_cast<unsigned short>(1000 + i);
    Array<unsigned short> X(x);
    Array<unsigned> O(128);
    copies<<<1, 32>>>(X.p, O.p);
    const auto o = O.host();
    for (int l = 0; l < 32; ++l)
      for (int m = 0; m < 4; ++m) {
        const auto at = [&](int r, int c) { return m * 8 + r == 31 && c >= 3 ? 0u : unsigned(x[(m * 8 + r) * 8 + c]); };
        CHECK(o[l * 4 + m] == (at(l % 4 * 2, l / 4) | at(l % 4 * 2 + 1, l / 4) << 16));
      }
  }
}

// --- planted errors ---
__global__ void beyond(float* x, int n) { x[threadIdx.x + n] = 1; }
__global__ void vectors(float* x) { reinterpret_cast<float4*>(x + 1)[threadIdx.x] = make_float4(1, 2, 3, 4); }
__global__ void race(float* y) {
  __shared__ float s[64];
  s[threadIdx.x] = threadIdx.x;
  y[threadIdx.x] = s[63 - threadIdx.x];
}
__global__ void lanes(float* y) {
  __shared__ float s[32];
  s[threadIdx.x] = threadIdx.x;
  y[threadIdx.x] = s[31 - threadIdx.x];
}
__global__ void blocks(float* y) { y[threadIdx.x] = blockIdx.x; }
__global__ void hang(float* y) {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    while (y[0] != 5) __syncwarp(0xffffffffu), y[0] = threadIdx.x >= 32 ? 5.f : 0.f;
  __syncthreads();
  if (threadIdx.x == 0) asm volatile("bar.sync 3, 64;");
}
__global__ void shared_end(float* y) {
  extern __shared__ float t[];
  t[threadIdx.x + 1] = 1;
  __syncthreads();
  y[threadIdx.x] = t[threadIdx.x];
}
template <bool waits>
__global__ void stale(const float* x, float* y) {
  __shared__ __align__(16) float s[128];
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(s + threadIdx.x * 4));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\ncp.async.commit_group;" ::"r"(to), "l"(x + threadIdx.x * 4)
               : "memory");
  if (waits)
    asm volatile("cp.async.wait_group 0;" ::: "memory");
  else
    asm volatile("cp.async.wait_group 1;" ::: "memory");
  __syncthreads();
  y[threadIdx.x] = s[127 - threadIdx.x];
}

int main(int argc, char** argv) {
  if (argc < 2) {
    instructions();
    std::printf("%s: %d failures\n", failures ? "FAILED" : "ok", failures);
    return failures != 0;
  }
  const std::string name = argv[1];
  Array<float> x(100), y(128);
  if (name == "beyond") beyond<<<1, 32>>>(x.p, 70);
  if (name == "freed") {
    cudaFree(x.p);
    beyond<<<1, 32>>>(x.p, 0);
  }
  if (name == "host") {
    static float z[64];
    beyond<<<1, 32>>>(z, 0);
  }
  if (name == "vectors") vectors<<<1, 2>>>(x.p);
  if (name == "race") race<<<1, 64>>>(y.p);
  if (name == "lanes") lanes<<<1, 32>>>(y.p);
  if (name == "blocks") blocks<<<2, 32>>>(y.p);
  if (name == "hang") hang<<<1, 64>>>(y.p);
  if (name == "shared_end") shared_end<<<1, 32, 128>>>(y.p);
  if (name == "too_much_shared") {
    shared_end<<<1, 32, 100000>>>(y.p);
    if (cudaGetLastError() == cudaErrorInvalidValue) std::printf("refused\n");
  }
  if (name == "stale" || name == "waits") {
    std::vector<float> v(128);
    for (int i = 0; i < 128; ++i) v[i] = float(i);
    Array<float> in(v);
    if (name == "stale")
      stale<false><<<1, 32>>>(in.p, y.p);
    else
      stale<true><<<1, 32>>>(in.p, y.p);
    const auto r = y.host();
    std::printf("%s\n", r[5] == 122.f ? "copied" : "stale");
  }
  if (name == "host_reads") {
    std::printf("%f\n", y.p[0]);
  }
  const cudaError_t e = cudaDeviceSynchronize();
  std::printf("%s\n", cudaGetErrorString(e));
}
