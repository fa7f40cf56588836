// Tests of the device functions in cuda/device, called from small kernels.
#include "device/mma.cuh"
#include "device/warp.cuh"

#include <heddle/base/bf16.hpp>

#include "../catch.hpp"
#include "device_array.hpp"

namespace {

using namespace heddle::cuda;
using heddle::bf16;

using heddle::testing::DeviceArray;

// Runs a kernel of one warp on the inputs, and returns its output.
template <auto kernel, class T, class... Inputs>
std::vector<T> result_of(std::size_t count, const std::vector<Inputs>&... inputs) {
  const DeviceArray<T> y(count);
  launch<kernel>(1, warp_size, 0, nullptr, DeviceArray(inputs).data()..., y.data());
  return y.host();
}

// Computes d [16, 8] = a [16, 16] b [16, 8]. All are stored by rows; ldmatrix loads a and b.
__global__ void product(const bf16* a, const bf16* b, float* d) {
  auto& rows = shared<bf16[16][16]>();
  auto& columns = shared<bf16[16][8]>();
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < 256; i += warp_size) rows[i / 16][i % 16] = a[i];
  for (int i = lane; i < 128; i += warp_size) columns[i / 8][i % 8] = b[i];
  __syncwarp();
  std::uint32_t fragment_a[4], both[4];
  // The four 8x8 quarters of a: top left, bottom left, top right, bottom right.
  load_matrices(fragment_a, &rows[lane % 8 + lane / 8 % 2 * 8][lane / 16 * 8]);
  load_matrices<true>(both, &columns[lane % 16][0]);
  const std::uint32_t fragment_b[2] = {both[0], both[1]};
  float sum[4] = {};
  mma_bf16(sum, fragment_a, fragment_b);
  const int row = lane / 4, column = lane % 4 * 2;
  for (int i = 0; i < 4; ++i) d[(row + i / 2 * 8) * 8 + column + i % 2] = sum[i];
}

// Computes d [16, 8] = 1 + a [16, 8] b [8, 8] in tf32.
__global__ void product_tf32(const float* a, const float* b, float* d) {
  const int lane = static_cast<int>(threadIdx.x), group = lane / 4, t = lane % 4;
  std::uint32_t fragment_a[4], fragment_b[2];
  for (int i = 0; i < 4; ++i)
    fragment_a[i] = __builtin_bit_cast(std::uint32_t, a[(group + i % 2 * 8) * 8 + t + i / 2 * 4]);
  for (int i = 0; i < 2; ++i) fragment_b[i] = __builtin_bit_cast(std::uint32_t, b[(t + i * 4) * 8 + group]);
  float sum[4] = {1, 1, 1, 1};
  mma_tf32(sum, fragment_a, fragment_b);
  for (int i = 0; i < 4; ++i) d[(group + i / 2 * 8) * 8 + t * 2 + i % 2] = sum[i];
}

__global__ void reductions(const float* x, float* y) {
  const int lane = static_cast<int>(threadIdx.x);
  y[lane] = warp_sum(x[lane]);
  y[warp_size + lane] = warp_max(x[lane]);
}

constexpr int static_floats = 24 * 1024 / sizeof(float),
              dynamic_floats = static_floats + 4;  // together more than 48 KiB

// Fills a static and a dynamic array with 1 and writes the sum of their last elements to y.
__global__ void static_and_dynamic(float* y) {
  auto& fixed = shared<float[static_floats]>();
  float* const dynamic = SharedArrays().take<float>(dynamic_floats);
  for (int i = static_cast<int>(threadIdx.x); i < static_floats; i += warp_size) fixed[i] = 1;
  for (int i = static_cast<int>(threadIdx.x); i < dynamic_floats; i += warp_size) dynamic[i] = 1;
  __syncwarp();
  if (threadIdx.x == 0) y[0] = fixed[static_floats - 1] + dynamic[dynamic_floats - 1];
}

// Returns whole numbers from -6 to 6, whose sums of products are exact.
template <class T>
std::vector<T> whole_numbers(int count, int step) {
  std::vector<T> values;
  for (int i = 0; i < count; ++i) values.push_back(T(static_cast<float>(i * step % 13 - 6)));
  return values;
}

template <class T>
std::vector<float> plain_product(const std::vector<T>& a, const std::vector<T>& b, int k, float start) {
  std::vector<float> d(16 * 8, start);
  for (int m = 0; m < 16; ++m)
    for (int n = 0; n < 8; ++n)
      for (int i = 0; i < k; ++i)
        d[static_cast<std::size_t>(m * 8 + n)] +=
            float(a[static_cast<std::size_t>(m * k + i)]) * float(b[static_cast<std::size_t>(i * 8 + n)]);
  return d;
}

}  // namespace

TEST_CASE("device: ldmatrix and mma multiply matrices of bf16") {
  const auto a = whole_numbers<bf16>(256, 5), b = whole_numbers<bf16>(128, 7);
  CHECK(result_of<product, float>(128, a, b) == plain_product(a, b, 16, 0));
}

TEST_CASE("device: mma multiplies matrices of tf32 and ignores the last 13 bits of each float") {
  auto a = whole_numbers<float>(128, 5);
  const auto b = whole_numbers<float>(64, 7);
  const auto exact = plain_product(a, b, 8, 1);
  a[3] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(a[3]) | 0x1fffu);
  CHECK(result_of<product_tf32, float>(128, a, b) == exact);
}

TEST_CASE("device: sums and maxima reach all lanes of a warp") {
  const auto x = whole_numbers<float>(32, 3);
  float sum = 0, largest = x[0];
  for (const float value : x) sum += value, largest = std::max(largest, value);
  const auto y = result_of<reductions, float>(64, x);
  for (std::size_t lane = 0; lane < 32; ++lane) {
    CHECK(y[lane] == sum);
    CHECK(y[32 + lane] == largest);
  }
}

TEST_CASE("device: static and dynamic shared memory may exceed 48 KiB together") {
  const DeviceArray<float> y(1);
  launch<static_and_dynamic>(1, warp_size, dynamic_floats * sizeof(float), nullptr, y.data());
  CHECK(y.host() == std::vector<float>{2});
}

TEST_CASE("device: an invalid launch throws CudaError with the kernel's name, and the next launch works") {
  // CUDA 13.0 calls it an invalid argument, earlier versions an invalid configuration argument.
  CHECK_THROWS_WITH((launch<reductions>(1, 2048, 64, nullptr, nullptr, nullptr)),
                    heddle::testing::ContainsSubstring(
                        "reductions: grid (1, 1, 1), block (2048, 1, 1), 64 bytes of shared memory: invalid "));
  CHECK_THROWS_AS((launch<reductions>(1, 32, 300 * 1024, nullptr, nullptr, nullptr)), heddle::CudaError);
  CHECK(cudaGetLastError() == cudaSuccess);
  launch<reductions>(0, 32, 0, nullptr, nullptr, nullptr);
  CHECK(result_of<reductions, float>(64, whole_numbers<float>(32, 3)).size() == 64);
}
