// dropout on the GPU. Formula: include/heddle/ops/dropout.hpp.
//
//   A thread owns eight neighboring elements, which one call of Philox decides. x is read once and y written once, in
//   accesses of 16 bytes where both are aligned.
#include "device/eight.cuh"
#include "device/instances.cuh"
#include "device/workspace.cuh"

namespace heddle::kernel {
namespace {

constexpr int drop_threads = cuda::block_threads(256);

template <bool vectors, class T>
__device__ void drop_eight(View<const T, 1> x, const ElementDropout& drop, Index e, View<T, 1> y) {
  const Index valid = x.extent[0] - e;
  const cuda::Eight<T> before = cuda::load_eight<vectors>(x.data + e, valid);
  float values[cuda::eight];
  cuda::dropout_factors<true>(drop, e, values);
  for (int i = 0; i < cuda::eight; ++i) values[i] *= before[i];
  cuda::store_eight<vectors>(y.data + e, valid, cuda::Eight<T>::rounded(values));
}

template <class T>
__global__ __launch_bounds__(drop_threads) void drop_elements(View<const T, 1> x, ElementDropout drop, bool aligned,
                                                              View<T, 1> y) {
  const Index e = (Index{blockIdx.x} * drop_threads + threadIdx.x) * cuda::eight;
  if (e >= x.extent[0]) return;
  if (aligned && e + cuda::eight <= x.extent[0]) return drop_eight<true>(x, drop, e, y);
  drop_eight<false>(x, drop, e, y);
}

}  // namespace

template <OnGpu T>
void dropout(Cuda, View<const T, 1> x, ElementDropout drop, View<T, 1> y) {
  const unsigned blocks = cuda::blocks_for(x.extent[0], drop_threads * cuda::eight);
  cuda::launch<drop_elements<T>>(blocks, drop_threads, 0, cuda::current_stream(), x, drop,
                                 cuda::aligned<cuda::eight>(x.data, y.data), y);
}

[[maybe_unused, gnu::used]] constexpr auto dropout_instances =
    cuda::instances<float, bf16>([]<class T>(cuda::Type<T>) { return std::tuple(&dropout<T>); });

}  // namespace heddle::kernel
