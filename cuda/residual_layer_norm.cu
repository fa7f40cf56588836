// residual_layer_norm on the GPU. Formulas: include/heddle/ops/residual_layer_norm.hpp, layer_norm.hpp.
// device/norm_forward.cuh and norm_backward.cuh describe the partition.
//
//   forward     Each row is computed as x + dropout(branch), rounded and stored in `sum`; the stored row is normalized.
//               x and branch are read once; sum and y are written once. One call of Philox decides eight elements:
//               those of a thread in bf16, of two threads in float. A thread makes two calls for eight elements if it
//               moves them one by one.
//   backward    Computes dx, the gradient of `sum`. dbranch is computed from dx as stored, with the same draws, and
//               written together with it. Without dropout, dbranch is dx itself, and layer_norm's backward does
//               everything.
#include "device/instances.cuh"
#include "device/norm_backward.cuh"
#include "device/norm_forward.cuh"

namespace heddle::kernel {
namespace {

// The rows of x + dropout(branch), which are kept in `sum`.
template <class T>
struct SummedRows {
  ElementDropout drop;
  View<const T, 2> x, branch;
  View<T, 2> sum;

  bool aligned() const { return cuda::aligned<cuda::vector_width<T>>(x.data, branch.data, sum.data); }
  template <class L>
  __device__ void make(const L& layout, Index n, typename L::Column first, typename L::Column end,
                       float (&row)[L::values]) const {
    const Index begin = n * x.extent[1];
    typename L::Packed xn[L::groups], bn[L::groups];
    layout.load(x.data + begin, first, end, xn);
    layout.load(branch.data + begin, first, end, bn);
    cuda::unrolled<L::groups>([&](int g) {
      const auto d = first + layout.column(g);
      float values[L::width];
      for (float& factor : values) factor = 1;
      if (drop.rule.threshold) cuda::dropout_factors<L::vectors>(drop, begin + d, values);
      for (int i = 0; i < L::width; ++i) values[i] = xn[g][i] + bn[g][i] * values[i];
      const auto stored = L::Packed::rounded(values);
      cuda::store_packed<L::vectors>(sum.data + begin + d, end - d, stored);
      for (int i = 0; i < L::width; ++i) row[g * L::width + i] = stored[i];
    });
  }
  // Reads the sums that this thread wrote.
  template <class L>
  __device__ void read(const L& layout, Index n, typename L::Column first, typename L::Column end,
                       float (&row)[L::values]) const {
    typename L::Packed made[L::groups];
    layout.load(static_cast<const T*>(sum.data) + n * x.extent[1], first, end, made);
    for (int i = 0; i < L::values; ++i) row[i] = made[i / L::width][i % L::width];
  }
};

// The writer of dbranch, which is computed from dx as stored.
template <class T>
struct DroppedBranch {
  ElementDropout drop;
  View<T, 2> dbranch;

  bool aligned() const { return cuda::aligned<cuda::vector_width<T>>(dbranch.data); }
  template <bool vectors, class I, int count>
  __device__ void complete(const T*, I, float (&)[count]) const {}
  template <bool vectors, class I, int count>
  __device__ void store(Index e, I valid, const cuda::Packed<T, count>& dx) const {
    float values[count];
    cuda::dropout_factors<vectors>(drop, e, values);
    for (int i = 0; i < count; ++i) values[i] *= dx[i];
    cuda::store_packed<vectors>(dbranch.data + e, valid, cuda::Packed<T, count>::rounded(values));
  }
};

}  // namespace

template <OnGpu T>
void residual_layer_norm(Cuda, const ElementDropout& drop, const ElementDropout& result, View<const T, 2> x,
                         View<const T, 2> branch, View<const T, 1> gamma, View<const T, 1> beta, double eps,
                         View<T, 2> sum, View<T, 2> y, View<float, 1> mean, View<float, 1> rstd) {
  cuda::with_norm_result(result, [&](const auto& kept) {
    cuda::launch_norm(SummedRows<T>{drop, x, branch, sum}, cuda::LayerNormOperands<T>{gamma, beta, mean, rstd}, eps,
                      kept, y);
  });
}

template <OnGpu T, OnGpu E>
void residual_layer_norm_backward(Cuda device, const ElementDropout& drop, const ElementDropout& result,
                                  View<const T, 2> dy, View<const T, 2> sum, View<const T, 1> gamma,
                                  View<const float, 1> mean, View<const float, 1> rstd, View<T, 2> dx,
                                  View<T, 2> dbranch, View<E, 1> dgamma, View<E, 1> dbeta) {
  if (!dbranch.data)
    return layer_norm_backward(device, result, dy, sum, gamma, mean, rstd, dx, Into::set, dgamma, dbeta);
  cuda::with_norm_result(result, [&]<class Result>(const Result& kept) {
    const cuda::LayerNormGradient<T, Result> of{dy, sum, gamma, mean, rstd, kept};
    cuda::launch_norm_backward(DroppedBranch<T>{drop, dbranch}, of, dx, dgamma, dbeta);
  });
}

[[maybe_unused, gnu::used]] constexpr auto residual_layer_norm_instances =
    cuda::instances<float, bf16>([]<class T>(cuda::Type<T>) {
      return std::tuple(&residual_layer_norm<T>, &residual_layer_norm_backward<T, T>,
                        &residual_layer_norm_backward<T, float>);
    });

}  // namespace heddle::kernel
