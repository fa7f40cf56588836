// layer_norm on the GPU. Formulas: include/heddle/ops/layer_norm.hpp. device/norm_forward.cuh and
// norm_backward.cuh describe the partition.
//
//   forward     x is read once and y is written once, after the dropout if there is one. Rows that do not fit into
//               registers are read twice more, from cache.
//   backward    dy and x are read once and dx is written once, or also read once if it is added to. dy and x of rows
//               that do not fit into registers are read twice more.
#include "device/instances.cuh"
#include "device/norm_backward.cuh"
#include "device/norm_forward.cuh"

namespace heddle::kernel {

template <OnGpu T>
void layer_norm(Cuda, const ElementDropout& result, View<const T, 2> x, View<const T, 1> gamma, View<const T, 1> beta,
                double eps, View<T, 2> y, View<float, 1> mean, View<float, 1> rstd) {
  cuda::with_norm_result(result, [&](const auto& kept) {
    cuda::launch_norm(cuda::GivenRows<T>{x}, cuda::LayerNormOperands<T>{gamma, beta, mean, rstd}, eps, kept, y);
  });
}

template <OnGpu T, OnGpu E>
void layer_norm_backward(Cuda, const ElementDropout& result, View<const T, 2> dy, View<const T, 2> x,
                         View<const T, 1> gamma, View<const float, 1> mean, View<const float, 1> rstd, View<T, 2> dx,
                         Into into, View<E, 1> dgamma, View<E, 1> dbeta) {
  cuda::with_norm_result(result, [&]<class Result>(const Result& kept) {
    const cuda::LayerNormGradient<T, Result> of{dy, x, gamma, mean, rstd, kept};
    cuda::launch_norm_backward(cuda::NoBranch{into == Into::add}, of, dx, dgamma, dbeta);
  });
}

[[maybe_unused, gnu::used]] constexpr auto layer_norm_instances =
    cuda::instances<float, bf16>([]<class T>(cuda::Type<T>) {
      return std::tuple(&layer_norm<T>, &layer_norm_backward<T, T>, &layer_norm_backward<T, float>);
    });

}  // namespace heddle::kernel
