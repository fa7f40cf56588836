// layer_norm on the GPU. Formulas: include/heddle/ops/layer_norm.hpp.
//
//   forward             One warp owns a row. Up to 1024 columns it keeps the row in registers and reads x once; wider rows are
//                       read three times, the second and third from cache. y is written once.
//   backward            Up to 1024 columns. A warp walks down rows; it reads dy and x once and writes dx once. The sums of
//                       dgamma and dbeta stay in its registers, and are written once a block: 1/16 of what it reads or less.
//   backward_wide       One warp owns a row of dx; dy and x are read twice, the second time from cache.
//   parameters_wide     One block owns 32 columns of dgamma and dbeta and walks down all rows; dy and x are read once.
//   add_blocks          One thread owns a column and adds what the blocks of `backward` left, in their order.
//
// No atomics: results do not depend on the schedule, nor on how many multiprocessors there are.
#include "device/warp.cuh"
#include "device/workspace.cuh"

namespace heddle::kernel {
namespace {

using cuda::warp_size;

constexpr int warps = 4;  // of a block; each owns a row
constexpr int threads = warps * warp_size;
constexpr Index most_blocks = 256;        // of `backward`: two or more for each multiprocessor
constexpr Index widest = 32 * warp_size;  // columns that fit into a warp's registers

__device__ int lane() { return static_cast<int>(threadIdx.x) % warp_size; }
__device__ int warp() { return static_cast<int>(threadIdx.x) / warp_size; }

// The columns of a lane: d = lane + 32 i, i < each. Those from D on are 0.
template <int each, class T>
__device__ void load_row(const T* row, int D, float (&values)[each]) {
  for (int i = 0; i < each; ++i) {
    const int d = lane() + i * warp_size;
    values[i] = d < D ? static_cast<float>(row[d]) : 0.f;
  }
}

template <int each, class T>
__global__ __launch_bounds__(threads) void forward(View<const T, 2> x, View<const T, 1> gamma, View<const T, 1> beta,
                                                   float eps, View<T, 2> y, View<float, 1> mean, View<float, 1> rstd) {
  const Index n = Index{blockIdx.x} * warps + warp();
  if (n >= x.extent[0]) return;  // whole warps leave together
  const int D = static_cast<int>(x.extent[1]);
  float xn[each];  // [D / 32]
  load_row(&x(n, 0), D, xn);

  float sum = 0;
  for (int i = 0; i < each; ++i) sum += xn[i];
  const float m = cuda::warp_sum(sum) / static_cast<float>(D);

  float squares = 0;
  for (int i = 0; i < each; ++i) {
    const float apart = lane() + i * warp_size < D ? xn[i] - m : 0.f;
    squares += apart * apart;
  }
  const float r = rsqrtf(cuda::warp_sum(squares) / static_cast<float>(D) + eps);

  for (int i = 0; i < each; ++i) {
    const int d = lane() + i * warp_size;
    if (d < D) y(n, d) = T((xn[i] - m) * r * static_cast<float>(gamma(d)) + static_cast<float>(beta(d)));
  }
  if (lane() > 0) return;
  mean(n) = m;
  rstd(n) = r;
}

template <class T>
__global__ __launch_bounds__(threads) void forward_wide(View<const T, 2> x, View<const T, 1> gamma,
                                                        View<const T, 1> beta, float eps, View<T, 2> y,
                                                        View<float, 1> mean, View<float, 1> rstd) {
  const Index n = Index{blockIdx.x} * warps + warp(), D = x.extent[1];
  if (n >= x.extent[0]) return;
  float sum = 0;
  for (Index d = lane(); d < D; d += warp_size) sum += static_cast<float>(x(n, d));
  const float m = cuda::warp_sum(sum) / static_cast<float>(D);

  float squares = 0;
  for (Index d = lane(); d < D; d += warp_size) {
    const float apart = static_cast<float>(x(n, d)) - m;
    squares += apart * apart;
  }
  const float r = rsqrtf(cuda::warp_sum(squares) / static_cast<float>(D) + eps);

  for (Index d = lane(); d < D; d += warp_size)
    y(n, d) = T((static_cast<float>(x(n, d)) - m) * r * static_cast<float>(gamma(d)) + static_cast<float>(beta(d)));
  if (lane() > 0) return;
  mean(n) = m;
  rstd(n) = r;
}

// `sums` [blocks, 2, D] receives the block's part of dgamma and of dbeta.
template <int each, class T>
__global__ __launch_bounds__(threads) void backward(View<const T, 2> dy, View<const T, 2> x, View<const T, 1> gamma,
                                                    View<const float, 1> mean, View<const float, 1> rstd, View<T, 2> dx,
                                                    View<float, 3> sums) {
  auto& partial = cuda::shared<float[warps][2][each * warp_size]>();
  const int D = static_cast<int>(x.extent[1]);
  float g[each] = {}, b[each] = {};  // [D / 32]
  for (Index n = Index{blockIdx.x} * warps + warp(); n < x.extent[0]; n += Index{gridDim.x} * warps) {
    float dyn[each], h[each];  // [D / 32]
    load_row(&dy(n, 0), D, dyn);
    load_row(&x(n, 0), D, h);
    const float m = mean(n), r = rstd(n);
    float sum_dh = 0, sum_dh_h = 0;
    for (int i = 0; i < each; ++i) {
      h[i] = (h[i] - m) * r;
      g[i] += dyn[i] * h[i];
      b[i] += dyn[i];
      const int d = lane() + i * warp_size;
      dyn[i] *= d < D ? static_cast<float>(gamma(d)) : 0.f;
      sum_dh += dyn[i];
      sum_dh_h += dyn[i] * h[i];
    }
    const float mean_dh = cuda::warp_sum(sum_dh) / static_cast<float>(D);
    const float mean_dh_h = cuda::warp_sum(sum_dh_h) / static_cast<float>(D);
    for (int i = 0; i < each; ++i) {
      const int d = lane() + i * warp_size;
      if (d < D) dx(n, d) = T(r * (dyn[i] - mean_dh - h[i] * mean_dh_h));
    }
  }
  for (int i = 0; i < each; ++i) {
    partial[warp()][0][lane() + i * warp_size] = g[i];
    partial[warp()][1][lane() + i * warp_size] = b[i];
  }
  __syncthreads();
  for (int k = static_cast<int>(threadIdx.x); k < 2 * D; k += threads) {
    float sum = 0;
    for (int w = 0; w < warps; ++w) sum += partial[w][k / D][k % D];
    sums(blockIdx.x, k / D, k % D) = sum;
  }
}

template <class T>
__global__ __launch_bounds__(threads) void add_blocks(View<const float, 3> sums, View<T, 1> dgamma, View<T, 1> dbeta) {
  const Index d = Index{blockIdx.x} * threads + threadIdx.x;
  if (d >= dgamma.extent[0]) return;
  float g = 0, b = 0;
  for (Index block = 0; block < sums.extent[0]; ++block) {
    g += sums(block, 0, d);
    b += sums(block, 1, d);
  }
  dgamma(d) = T(g);
  dbeta(d) = T(b);
}

template <class T>
__global__ __launch_bounds__(threads) void backward_wide(View<const T, 2> dy, View<const T, 2> x,
                                                         View<const T, 1> gamma, View<const float, 1> mean,
                                                         View<const float, 1> rstd, View<T, 2> dx) {
  const Index n = Index{blockIdx.x} * warps + warp(), D = x.extent[1];
  if (n >= x.extent[0]) return;
  const float m = mean(n), r = rstd(n);
  float sum_dh = 0, sum_dh_h = 0;
  for (Index d = lane(); d < D; d += warp_size) {
    const float dh = static_cast<float>(dy(n, d)) * static_cast<float>(gamma(d));
    sum_dh += dh;
    sum_dh_h += dh * (static_cast<float>(x(n, d)) - m) * r;
  }
  const float mean_dh = cuda::warp_sum(sum_dh) / static_cast<float>(D);
  const float mean_dh_h = cuda::warp_sum(sum_dh_h) / static_cast<float>(D);
  for (Index d = lane(); d < D; d += warp_size) {
    const float h = (static_cast<float>(x(n, d)) - m) * r;
    dx(n, d) = T(r * (static_cast<float>(dy(n, d)) * static_cast<float>(gamma(d)) - mean_dh - h * mean_dh_h));
  }
}

// A warp for each walker: lanes are neighbouring columns.
template <class T>
__global__ __launch_bounds__(threads) void parameters_wide(View<const T, 2> dy, View<const T, 2> x,
                                                           View<const float, 1> mean, View<const float, 1> rstd,
                                                           View<T, 1> dgamma, View<T, 1> dbeta) {
  auto& partial = cuda::shared<float[2][warps][warp_size]>();
  const Index d = Index{blockIdx.x} * warp_size + lane();
  const bool inside = d < x.extent[1];
  float g = 0, b = 0;
  for (Index n = warp(); inside && n < x.extent[0]; n += warps) {
    const float dyn = static_cast<float>(dy(n, d));
    g += dyn * (static_cast<float>(x(n, d)) - mean(n)) * rstd(n);
    b += dyn;
  }
  partial[0][warp()][lane()] = g;
  partial[1][warp()][lane()] = b;
  __syncthreads();
  if (warp() > 0 || !inside) return;
  for (int w = 1; w < warps; ++w) {
    g += partial[0][w][lane()];
    b += partial[1][w][lane()];
  }
  dgamma(d) = T(g);
  dbeta(d) = T(b);
}

// Calls f with the number of a lane's columns, as a type: a power of two, so that few kernels serve all widths.
template <class F>
void with_each(Index D, F&& f) {
  if (D <= 2 * warp_size) return f(std::integral_constant<int, 2>());
  if (D <= 4 * warp_size) return f(std::integral_constant<int, 4>());
  if (D <= 8 * warp_size) return f(std::integral_constant<int, 8>());
  if (D <= 16 * warp_size) return f(std::integral_constant<int, 16>());
  f(std::integral_constant<int, 32>());
}

}  // namespace

template <class T>
void layer_norm(Cuda, View<const T, 2> x, View<const T, 1> gamma, View<const T, 1> beta, double eps, View<T, 2> y,
                View<float, 1> mean, View<float, 1> rstd) {
  const auto [N, D] = x.extent;
  if (D == 0) return;
  const cudaStream_t stream = cuda::current_stream();
  const unsigned blocks = cuda::blocks_for(N, warps);
  const float small = static_cast<float>(eps);
  if (D > widest)
    return cuda::launch<forward_wide<T>>(blocks, threads, 0, stream, x, gamma, beta, small, y, mean, rstd);
  with_each(D, [&]<int each>(std::integral_constant<int, each>) {
    cuda::launch<forward<each, T>>(blocks, threads, 0, stream, x, gamma, beta, small, y, mean, rstd);
  });
}

template <class T>
void layer_norm_backward(Cuda, View<const T, 2> dy, View<const T, 2> x, View<const T, 1> gamma,
                         View<const float, 1> mean, View<const float, 1> rstd, View<T, 2> dx, View<T, 1> dgamma,
                         View<T, 1> dbeta) {
  const auto [N, D] = x.extent;
  if (D == 0) return;
  const cudaStream_t stream = cuda::current_stream();
  if (D > widest) {
    cuda::launch<backward_wide<T>>(cuda::blocks_for(N, warps), threads, 0, stream, dy, x, gamma, mean, rstd, dx);
    cuda::launch<parameters_wide<T>>(cuda::blocks_for(D, warp_size), threads, 0, stream, dy, x, mean, rstd, dgamma,
                                     dbeta);
    return;
  }
  const Index blocks = std::min<Index>(cuda::blocks_for(N, warps), most_blocks);
  const cuda::Workspace<float> memory(blocks * 2 * D);
  const View<float, 3> sums{memory.data(), {blocks, 2, D}};
  with_each(D, [&]<int each>(std::integral_constant<int, each>) {
    cuda::launch<backward<each, T>>(static_cast<unsigned>(blocks), threads, 0, stream, dy, x, gamma, mean, rstd, dx,
                                    sums);
  });
  const View<const float, 3> made{memory.data(), {blocks, 2, D}};
  cuda::launch<add_blocks<T>>(cuda::blocks_for(D, threads), threads, 0, stream, made, dgamma, dbeta);
}

#define HEDDLE_LAYER_NORM(T)                                                                                          \
  template void layer_norm(Cuda, View<const T, 2>, View<const T, 1>, View<const T, 1>, double, View<T, 2>,            \
                           View<float, 1>, View<float, 1>);                                                           \
  template void layer_norm_backward(Cuda, View<const T, 2>, View<const T, 2>, View<const T, 1>, View<const float, 1>, \
                                    View<const float, 1>, View<T, 2>, View<T, 1>, View<T, 1>);
HEDDLE_LAYER_NORM(float)
HEDDLE_LAYER_NORM(bf16)
#undef HEDDLE_LAYER_NORM

}  // namespace heddle::kernel
