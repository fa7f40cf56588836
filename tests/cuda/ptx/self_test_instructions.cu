// Compares instructions with plain C++. Each kernel stands above its check.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstdint>
#include <iterator>

#include "../device_array.hpp"
#include "self_test.hpp"
#include "self_test_instructions.hpp"

namespace heddle::testing {

namespace {

constexpr int warp = 32;

// Returns "name of 3".
std::string named(const char* name, int i) { return std::string(name) + " of " + std::to_string(i); }

// --- integers ---

constexpr int integer_results = 16, wide_results = 3;

__global__ void compute_integers(const int* x, const int* y, int* results, long long* wide, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;
  const int a = x[i], b = y[i];
  const unsigned u = static_cast<unsigned>(a), v = static_cast<unsigned>(b);
  int* out = results + i * integer_results;
  *out++ = static_cast<int>(u + v);
  *out++ = static_cast<int>(u * v);
  *out++ = b ? a / b : 7;
  *out++ = b ? a % b : 7;
  *out++ = __mulhi(a, b);
  *out++ = static_cast<int>(__umulhi(u, v));
  *out++ = a >> (b & 31);
  *out++ = static_cast<int>(u >> (v & 31));
  *out++ = __popc(u);
  *out++ = __clz(a);
  *out++ = static_cast<int>(__brev(u));
  *out++ = static_cast<int>(__byte_perm(u, v, 0x7351));
  *out++ = static_cast<int>(__funnelshift_l(u, v, 5));
  *out++ = static_cast<int>(__funnelshift_r(u, v, 37));
  *out++ = min(a, b);
  *out++ = static_cast<int>(max(u, v));
  wide[i * wide_results] = static_cast<long long>(a) * b;
  wide[i * wide_results + 1] = static_cast<long long>(static_cast<unsigned long long>(u) * v);
  wide[i * wide_results + 2] = b ? (static_cast<long long>(a) << 20) / b : 7;
}

unsigned reversed_bits(unsigned u) {
  unsigned reversed = 0;
  for (int bit = 0; bit < 32; ++bit) reversed |= (u >> bit & 1) << (31 - bit);
  return reversed;
}
// Returns bytes 1, 5, 3 and 7 of the eight bytes of u and v.
unsigned permuted_bytes(unsigned u, unsigned v) {
  const std::uint64_t both = std::uint64_t{v} << 32 | u;
  const auto byte = [&](int i) { return static_cast<unsigned>(both >> 8 * i & 255); };
  return byte(1) | byte(5) << 8 | byte(3) << 16 | byte(7) << 24;
}

// The names and the expected values of compute_integers, in the order of its results.
void expect_integers(int a, int b, const int* got, const long long* wide) {
  const unsigned u = static_cast<unsigned>(a), v = static_cast<unsigned>(b);
  const std::int64_t wide_a = a, wide_b = b;
  const std::uint64_t wide_u = u;
  const auto expect = [&](const char* name, std::uint64_t expected) {
    expect_equal(named(name, a) + " and " + std::to_string(b), *got++, static_cast<int>(expected));
  };
  const auto bits = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  expect("add", u + v);
  expect("mul.lo", u * v);
  expect("div", bits(b ? wide_a / wide_b : 7));
  expect("rem", bits(b ? wide_a % wide_b : 7));
  expect("mul.hi.s32", bits(wide_a * wide_b >> 32));
  expect("mul.hi.u32", wide_u * v >> 32);
  expect("shr.s32", bits(a >> (b & 31)));
  expect("shr.u32", u >> (v & 31));
  expect("popc", bits(__builtin_popcount(u)));
  expect("clz", bits(a ? __builtin_clz(u) : 32));
  expect("brev", reversed_bits(u));
  expect("prmt", permuted_bytes(u, v));
  expect("shf.l", v << 5 | u >> 27);
  expect("shf.r", u >> 5 | v << 27);
  expect("min.s32", bits(std::min(a, b)));
  expect("max.u32", std::max(u, v));
  expect_equal<std::int64_t>(named("mul.wide.s32", a), wide[0], wide_a * wide_b);
  expect_equal(named("mul.wide.u32", a), static_cast<std::uint64_t>(wide[1]), wide_u * v);
  expect_equal<std::int64_t>(named("div.s64", a), wide[2], b ? (wide_a << 20) / wide_b : 7);
}

void check_integers() {
  constexpr int n = 1000;
  std::vector<int> x{0, -1, 2147483647}, y{0, 1, -1};
  unsigned word = 1;
  const auto next = [&] { return static_cast<int>(word = word * 1664525u + 1013904223u); };
  for (int i = 3; i < n; ++i) {
    x.push_back(next() >> i % 31);
    y.push_back(next() >> i * 7 % 31);
  }
  const DeviceArray<int> results(n * integer_results);
  const DeviceArray<long long> wide(n * wide_results);
  compute_integers<<<(n + 127) / 128, 128>>>(DeviceArray<int>(x).data(), DeviceArray<int>(y).data(), results.data(),
                                             wide.data(), n);
  const auto got = results.host();
  const auto got_wide = wide.host();
  for (std::size_t i = 0; i < n; ++i)
    expect_integers(x[i], y[i], got.data() + i * integer_results, got_wide.data() + i * wide_results);
}

// --- floating point ---

constexpr int float_results = 16;

__global__ void compute_floats(const float* x, const float* y, float* results, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;
  const float a = x[i], b = y[i];
  float* out = results + i * float_results;
  *out++ = a + b;
  *out++ = a * b;
  *out++ = a / b;
  *out++ = fmaf(a, b, 1.f);
  *out++ = sqrtf(fabsf(a));
  *out++ = fminf(a, b);
  *out++ = fmaxf(a, b);
  *out++ = __int2float_rn(__float2int_rz(a));
  *out++ = __bfloat162float(__float2bfloat16_rn(a));
  *out++ = __half2float(__float2half_rn(a));
  *out++ = rintf(a);
  *out++ = floorf(a);
  *out++ = expf(a);
  *out++ = logf(fabsf(a));
  *out++ = tanhf(a);
  *out++ = erff(a);
}

// The functions that nvcc builds from approximations have errors of up to `last_bits` last bits (CUDA programming
// guide, "Mathematical Functions").
void expect_near(const std::string& what, float actual, double expected, double last_bits) {
  const double accepted = last_bits * 0x1p-23 * std::fabs(expected);
  if (std::fabs(actual - expected) <= accepted || static_cast<double>(actual) == expected) return;
  expect_equal<double>(what, actual, expected);
}

void expect_floats(float a, float b, const float* got) {
  const auto expect = [&](const char* name, float expected) {
    expect_equal(std::string(name) + " of " + std::to_string(a), *got++, expected);
  };
  expect("add", a + b);
  expect("mul", a * b);
  expect("div", a / b);
  expect("fma", std::fma(a, b, 1.f));
  expect("sqrt", std::sqrt(std::fabs(a)));
  expect("min", std::fmin(a, b));
  expect("max", std::fmax(a, b));
  expect("cvt.rzi", std::trunc(a));
  expect("cvt.rn.bf16", __bfloat162float(__float2bfloat16_rn(a)));
  expect("cvt.rn.f16", __half2float(__float2half_rn(a)));
  expect("cvt.rni", std::rint(a));
  expect("cvt.rmi", std::floor(a));
  const double wide = a;
  expect_near("exp", *got++, std::exp(wide), 2);
  expect_near("log", *got++, std::log(std::fabs(wide)), 2);
  expect_near("tanh", *got++, std::tanh(wide), 3);
  expect_near("erf", *got++, std::erf(wide), 3);
}

void check_floats() {
  constexpr int n = 400;
  std::vector<float> x, y;
  for (int i = 0; i < n; ++i) {
    x.push_back(static_cast<float>(i - n / 2) * 0.0371f);
    y.push_back(static_cast<float>(i * 7 % 53 + 1) * 0.11f);
  }
  const DeviceArray<float> results(n * float_results);
  compute_floats<<<4, 100>>>(DeviceArray<float>(x).data(), DeviceArray<float>(y).data(), results.data(), n);
  const auto got = results.host();
  for (std::size_t i = 0; i < n; ++i) expect_floats(x[i], y[i], got.data() + i * float_results);
}

// --- lanes ---

constexpr int lane_results = 13;

__global__ void exchange(int* results) {
  const int lane = static_cast<int>(threadIdx.x);
  int* out = results + lane * lane_results;
  *out++ = __shfl_xor_sync(~0u, lane * 3, 5);
  *out++ = __shfl_up_sync(~0u, lane, 3);
  *out++ = __shfl_down_sync(~0u, lane, 4);
  *out++ = __shfl_sync(~0u, lane, 9);
  *out++ = __shfl_xor_sync(~0u, lane, 1, 8);
  *out++ = __shfl_sync(~0u, lane, 2, 8);
  *out++ = static_cast<int>(__ballot_sync(~0u, lane % 3 == 0));
  *out++ = __any_sync(~0u, lane == 31);
  *out++ = __all_sync(~0u, lane < 31);
  *out++ = static_cast<int>(__match_any_sync(~0u, lane / 5));
  *out++ = __reduce_add_sync(~0u, lane);
  int sum = 0;
  for (int i = 0; i < lane; ++i) sum += i;  // the lanes diverge
  *out++ = sum;
  *out++ = lane & 1 ? __shfl_xor_sync(0xaaaaaaaau, lane, 2) : 0;
}

// Returns a mask of the lanes for which f is true.
template <class F>
int mask_of(F f) {
  unsigned mask = 0;
  for (int lane = 0; lane < warp; ++lane) mask |= static_cast<unsigned>(f(lane)) << lane;
  return static_cast<int>(mask);
}

void check_lanes() {
  const DeviceArray<int> results(warp * lane_results);
  exchange<<<1, warp>>>(results.data());
  const auto all = results.host();
  const int* got = all.data();
  for (int lane = 0; lane < warp; ++lane) {
    const auto expect = [&](const char* name, int expected) { expect_equal(named(name, lane), *got++, expected); };
    expect("shfl.bfly", (lane ^ 5) * 3);
    expect("shfl.up", lane >= 3 ? lane - 3 : lane);
    expect("shfl.down", lane + 4 < warp ? lane + 4 : lane);
    expect("shfl.idx", 9);
    expect("shfl.bfly within 8 lanes", lane ^ 1);
    expect("shfl.idx within 8 lanes", lane / 8 * 8 + 2);
    expect("vote.ballot", mask_of([](int other) { return other % 3 == 0; }));
    expect("vote.any", 1);
    expect("vote.all", 0);
    expect("match.any", mask_of([&](int other) { return other / 5 == lane / 5; }));
    expect("redux.add", 496);
    expect("a loop", lane * (lane - 1) / 2);
    expect("shfl among odd lanes", lane & 1 ? lane ^ 2 : 0);
  }
}

// --- tensor cores and asynchronous copies ---

constexpr int M = 16, N = 8, K = 16;

// Computes d = a b + c. The row and the column of element i of a lane are the formulas of the PTX manual for
// mma.m16n8k16.
__global__ void multiply(const __nv_bfloat16* a, const __nv_bfloat16* b, const float* c, float* d) {
  const int lane = static_cast<int>(threadIdx.x), group = lane >> 2, thread = lane % 4;
  const auto upper = [&](bool is_lower) { return group + (is_lower ? 8 : 0); };
  __nv_bfloat16 of_a[8], of_b[4];
  float sum[4];
  for (int i = 0; i < 8; ++i) of_a[i] = a[upper(i % 4 >= 2) * K + thread * 2 + i % 2 + (i >= 4 ? 8 : 0)];
  for (int i = 0; i < 4; ++i) of_b[i] = b[(thread * 2 + i % 2 + (i >= 2 ? 8 : 0)) * N + group];
  for (int i = 0; i < 4; ++i) sum[i] = c[upper(i >= 2) * N + thread * 2 + i % 2];
  const auto* x = reinterpret_cast<const unsigned*>(of_a);
  const auto* y = reinterpret_cast<const unsigned*>(of_b);
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
  for (int i = 0; i < 4; ++i) d[upper(i >= 2) * N + thread * 2 + i % 2] = sum[i];
}

void check_mma() {
  std::vector<__nv_bfloat16> a, b;
  std::vector<float> c;
  // All products and sums are exact in float.
  for (int i = 0; i < M * K; ++i) a.push_back(__float2bfloat16(static_cast<float>(i * 37 % 101 - 50) / 8));
  for (int i = 0; i < K * N; ++i) b.push_back(__float2bfloat16(static_cast<float>(i * 53 % 97 - 48) / 4));
  for (int i = 0; i < M * N; ++i) c.push_back(static_cast<float>(i));
  const DeviceArray<float> d(M * N);
  multiply<<<1, warp>>>(DeviceArray(a).data(), DeviceArray(b).data(), DeviceArray(c).data(), d.data());
  const auto got = d.host();
  for (std::size_t m = 0; m < M; ++m)
    for (std::size_t n = 0; n < N; ++n) {
      float sum = c[m * N + n];
      for (std::size_t k = 0; k < K; ++k) sum += __bfloat162float(a[m * K + k]) * __bfloat162float(b[k * N + n]);
      expect_equal(named("mma", static_cast<int>(m * N + n)), got[m * N + n], sum);
    }
}

// Copies 32 rows of 16 bytes, but only 6 bytes of the last one, and loads their transposes.
__global__ void copy_and_transpose(const unsigned short* x, unsigned* words) {
  __shared__ __align__(16) unsigned short tile[warp][8];
  const int lane = static_cast<int>(threadIdx.x);
  const unsigned row = static_cast<unsigned>(__cvta_generic_to_shared(tile[lane]));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(row), "l"(x + lane * 8), "r"(lane == 31 ? 6 : 16)
               : "memory");
  asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  unsigned loaded[4];
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(loaded[0]), "=r"(loaded[1]), "=r"(loaded[2]), "=r"(loaded[3])
               : "r"(row)
               : "memory");
  for (int i = 0; i < 4; ++i) words[lane * 4 + i] = loaded[i];
}

void check_copies() {
  std::vector<unsigned short> x;
  for (int i = 0; i < warp * 8; ++i) x.push_back(static_cast<unsigned short>(1000 + i));
  const DeviceArray<unsigned> words(warp * 4);
  copy_and_transpose<<<1, warp>>>(DeviceArray(x).data(), words.data());
  const auto got = words.host();
  const auto copied = [&](int row, int column) {
    return row == 31 && column >= 3 ? 0u : unsigned{x[static_cast<std::size_t>(row * 8 + column)]};
  };
  for (int lane = 0; lane < warp; ++lane)
    for (int matrix = 0; matrix < 4; ++matrix) {
      const int row = matrix * 8 + lane % 4 * 2, column = lane / 4;
      expect_equal(named("ldmatrix.trans", lane), got[static_cast<std::size_t>(lane * 4 + matrix)],
                   copied(row, column) | copied(row + 1, column) << 16);
    }
}

// --- atomics ---

__global__ void count(int* in_global, unsigned* last) {
  __shared__ int in_shared;
  if (threadIdx.x == 0) in_shared = 0;
  __syncthreads();
  atomicAdd(&in_shared, 1);
  atomicMax(last, blockIdx.x * blockDim.x + threadIdx.x);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(in_global, in_shared);
}

void check_atomics() {
  const DeviceArray<int> sum(std::vector<int>{0});
  const DeviceArray<unsigned> last(std::vector<unsigned>{0});
  count<<<3, 100>>>(sum.data(), last.data());
  expect_equal("a sum of atom.add", sum.host()[0], 300);
  expect_equal("a maximum of atom.max", last.host()[0], 299u);
}

}  // namespace

void check_instructions() {
  check_integers();
  check_floats();
  check_lanes();
  check_mma();
  check_copies();
  check_atomics();
}

}  // namespace heddle::testing
