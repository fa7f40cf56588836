// Replaces cuda/gemm.cu: plain products in float, enqueued on the stream like a kernel.
#include <cuda_runtime.h>

#include <heddle/gpu/kernels.hpp>
#include <numeric>
#include <vector>

#include "device/empty_product.cuh"
#include "device/instances.cuh"

std::string heddle::cuda::products_unavailable() { return emulator::device().without_products; }

namespace heddle::kernel {
namespace {

// Returns a matrix, or its transpose, as floats in row-major order.
template <class T>
std::vector<float> by_rows(MatrixView<const T> x, bool transposed) {
  const Index rows = transposed ? x.width : x.rows, width = transposed ? x.rows : x.width;
  std::vector<float> y(static_cast<std::size_t>(rows * width));
  for (Index n = 0; n < rows; ++n)
    for (Index d = 0; d < width; ++d)
      y[static_cast<std::size_t>(n * width + d)] = static_cast<float>(transposed ? x(d, n) : x(n, d));
  return y;
}

template <class T, class E>
void multiply_one(const Product<T, E>& p, Index matrix) {
  const auto at = [&](auto x, Index next) {
    x.data += matrix * next;
    return x;
  };
  const std::vector<float> a = by_rows(at(p.a, p.next_a), p.transpose_a), b = by_rows(at(p.b, p.next_b), p.transpose_b);
  const auto c = at(p.c, p.next_c);
  const Index depth = cuda::depth_of(p);
  std::vector<float> sum(static_cast<std::size_t>(c.width));
  for (Index m = 0; m < c.rows; ++m) {
    for (Index n = 0; n < c.width; ++n) {
      sum[static_cast<std::size_t>(n)] = p.into == Into::add ? static_cast<float>(c(m, n)) : 0.f;
      if (p.bias) sum[static_cast<std::size_t>(n)] += static_cast<float>(p.bias[n]);
    }
    for (Index k = 0; k < depth; ++k) {
      const float factor = a[static_cast<std::size_t>(m * depth + k)];
      const float* const row = &b[static_cast<std::size_t>(k * c.width)];
      for (std::size_t n = 0; n < sum.size(); ++n) sum[n] += factor * row[n];
    }
    for (Index n = 0; n < c.width; ++n) c(m, n) = E(sum[static_cast<std::size_t>(n)]);
    if (p.row_sums) p.row_sums[m] = E(std::accumulate(&a[0] + m * depth, &a[0] + (m + 1) * depth, 0.f));
  }
}

}  // namespace

template <OnGpu T, OnGpu E>
void multiply(const Product<T, E>& product) {
  if (cuda::finish_if_empty(product)) return;
  emulator::enqueue_host_work(static_cast<cudaStream_t>(cuda::stream()), [product] {
    for (Index matrix = 0; matrix < product.count; ++matrix) multiply_one(product, matrix);
  });
}
[[maybe_unused, gnu::used]] constexpr auto gemm_instances =
    std::tuple(&multiply<float, float>, &multiply<bf16, bf16>, &multiply<bf16, float>);

}  // namespace heddle::kernel
