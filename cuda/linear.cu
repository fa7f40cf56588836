// What linear layers do beside their products, on the GPU. Formulas: include/heddle/ops/linear.hpp, linear_gelu.hpp.
//
//   sum_rows     A sum along the first axis: reduce.cu.
//   bias_gelu    A thread owns two vectors of neighbours; those of a block lie side by side. z is read once, z and y are
//                written once, z only where there is a bias, which comes from cache.
#include "device/elementwise.cuh"
#include "device/unrolled.cuh"

namespace heddle::kernel {
namespace {

using Tile = cuda::ElementTile;

// y is made of z as it is stored: of the rounded sum.
template <class T>
__global__ __launch_bounds__(Tile::threads) void add_and_activate(View<const T, 1> bias, Index size, bool wide, T* z,
                                                                  T* y) {
  constexpr int width = cuda::vector_width<T>;
  cuda::Stretch at[Tile::vectors];
  for (int v = 0; v < Tile::vectors; ++v) {
    const Index first = ((Index{blockIdx.x} * Tile::vectors + v) * Tile::threads + threadIdx.x) * width;
    at[v] = {first, size, 1, wide && first + width <= size};
  }
  auto held = cuda::load_all<width>(z, at);
  cuda::unrolled<Tile::vectors>([&](int v) {
    auto& sum = held.vector[v];
    Index d = bias.data ? at[v].first % bias.extent[0] : 0;
    cuda::Vector<T, width> result;
    cuda::unrolled<width>([&](int i) {
      if (bias.data) sum.at[i] = T(static_cast<float>(sum.at[i]) + static_cast<float>(bias(d)));
      if (++d == bias.extent[0]) d = 0;
      result.at[i] = T(Gelu::f(static_cast<float>(sum.at[i])));
    });
    if (bias.data) at[v].store(z, sum);
    at[v].store(y, result);
  });
}

}  // namespace

template <OnGpu T>
void sum_rows(Cuda device, View<const T, 2> dy, View<T, 1> dbias) {
  const auto [N, D] = dy.extent;
  sum(device, View<const T, 3>{dy.data, {1, N, D}}, 1.f, View<T, 2>{dbias.data, {1, D}});
}

template <OnGpu T>
void bias_gelu(Cuda, View<const T, 1> bias, View<T, 2> z, View<T, 2> y) {
  constexpr int width = cuda::vector_width<T>;
  const Index size = z.extent[0] * z.extent[1];
  cuda::launch<add_and_activate<T>>(cuda::blocks_for(size, Tile::vectors * Tile::threads * width), Tile::threads, 0,
                                    cuda::current_stream(), bias, size, cuda::aligned<width>(z.data, y.data), z.data,
                                    y.data);
}

#define HEDDLE_LINEAR(T)                                      \
  template void sum_rows(Cuda, View<const T, 2>, View<T, 1>); \
  template void bias_gelu(Cuda, View<const T, 1>, View<T, 2>, View<T, 2>);
HEDDLE_LINEAR(float)
HEDDLE_LINEAR(bf16)
#undef HEDDLE_LINEAR

}  // namespace heddle::kernel
