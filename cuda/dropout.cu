// dropout on the GPU. Formula: include/heddle/ops/dropout.hpp.
//
//   A thread owns eight elements: one vector of 16 bytes in bf16, two in float. The vectors of a block are contiguous.
//   x is read once and y written once. Where an address is not aligned, a thread moves its elements one by one. One
//   call of Philox decides eight neighboring elements; in float, two threads make the same call.
#include "device/instances.cuh"
#include "device/packed.cuh"
#include "device/workspace.cuh"

namespace heddle::kernel {
namespace {

constexpr int drop_threads = cuda::block_threads(256);

template <class T>
__global__ __launch_bounds__(drop_threads) void drop_elements(View<const T, 1> x, ElementDropout drop, bool aligned,
                                                              View<T, 1> y) {
  constexpr int width = cuda::vector_width<T>, vectors = cuda::eight / width;
  const auto position = [](int v) { return ((Index{blockIdx.x} * vectors + v) * drop_threads + threadIdx.x) * width; };
  const auto is_whole = [&](Index e) { return aligned && e + width <= x.extent[0]; };
  cuda::Packed<T, width> before[vectors];
  cuda::unrolled<vectors>([&](int v) {
    const Index e = position(v), valid = x.extent[0] - e;
    before[v] = is_whole(e) ? cuda::load_packed<true, width>(x.data + e, valid)
                            : cuda::load_packed<false, width>(x.data + e, valid);
  });
  cuda::unrolled<vectors>([&](int v) {
    const Index e = position(v), left = x.extent[0] - e;
    float values[width];
    cuda::dropout_factors<true>(drop, e, values);
    for (int i = 0; i < width; ++i) values[i] *= before[v][i];
    const auto after = cuda::Packed<T, width>::rounded(values);
    is_whole(e) ? cuda::store_packed<true>(y.data + e, left, after)
                : cuda::store_packed<false>(y.data + e, left, after);
  });
}

}  // namespace

template <OnGpu T>
void dropout(Cuda, View<const T, 1> x, ElementDropout drop, View<T, 1> y) {
  const unsigned blocks = cuda::blocks_for(x.extent[0], drop_threads * cuda::eight);
  cuda::launch<drop_elements<T>>(blocks, drop_threads, 0, cuda::current_stream(), x, drop,
                                 cuda::aligned<cuda::vector_width<T>>(x.data, y.data), y);
}

[[maybe_unused, gnu::used]] constexpr auto dropout_instances =
    cuda::instances<float, bf16>([]<class T>(cuda::Type<T>) { return std::tuple(&dropout<T>); });

}  // namespace heddle::kernel
