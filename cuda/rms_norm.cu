// rms_norm on the GPU. Formulas: include/heddle/ops/rms_norm.hpp. device/norm_forward.cuh and norm_backward.cuh
// describe the partition.
//
//   forward     x is read once and y is written once. Rows that do not fit into registers are read once more, from
//               cache.
//   backward    As in layer_norm.cu.
#include "device/instances.cuh"
#include "device/norm_backward.cuh"
#include "device/norm_forward.cuh"

namespace heddle::kernel {

template <OnGpu T>
void rms_norm(Cuda, View<const T, 2> x, View<const T, 1> gamma, double eps, View<T, 2> y, View<float, 1> rstd) {
  cuda::launch_norm(cuda::GivenRows<T>{x}, cuda::RmsNormOperands<T>{gamma, rstd}, eps, cuda::WholeResult(), y);
}

template <OnGpu T, OnGpu E>
void rms_norm_backward(Cuda, View<const T, 2> dy, View<const T, 2> x, View<const T, 1> gamma, View<const float, 1> rstd,
                       View<T, 2> dx, Into into, View<E, 1> dgamma) {
  const cuda::RmsNormGradient<T> of{dy, x, gamma, {}, rstd};
  cuda::launch_norm_backward(cuda::NoBranch{into == Into::add}, of, dx, dgamma, View<E, 1>{});
}

[[maybe_unused, gnu::used]] constexpr auto rms_norm_instances =
    cuda::instances<float, bf16>([]<class T>(cuda::Type<T>) {
      return std::tuple(&rms_norm<T>, &rms_norm_backward<T, T>, &rms_norm_backward<T, float>);
    });

}  // namespace heddle::kernel
