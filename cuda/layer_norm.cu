// layer_norm on the GPU. Formulas: include/heddle/ops/layer_norm.hpp. device/norm_forward.cuh and
// norm_backward.cuh describe the partition.
//
//   forward     x is read once and y is written once. Rows that do not fit into registers are read twice more, from
//               cache.
//   backward    dy and x are read once and dx is written once. dy and x of rows that do not fit into registers are read
//               twice more.
#include "device/norm_backward.cuh"
#include "device/norm_forward.cuh"

namespace heddle::kernel {
namespace {

// The rows of x.
template <class T>
struct GivenRows {
  View<const T, 2> x;

  bool aligned() const { return cuda::aligned<cuda::eight>(x.data); }
  template <class L>
  __device__ void read(const L& layout, Index n, typename L::Column first, typename L::Column end,
                       float (&row)[L::values]) const {
    cuda::Eight<T> xn[L::groups];
    layout.load(x.data + n * x.extent[1], first, end, xn);
    for (int i = 0; i < L::values; ++i) row[i] = xn[i / cuda::eight][i % cuda::eight];
  }
  template <class L>
  __device__ void make(const L& layout, Index n, typename L::Column first, typename L::Column end,
                       float (&row)[L::values]) const {
    read(layout, n, first, end, row);
  }
};

struct NoBranch {
  static bool aligned() { return true; }
  template <bool vectors, class T>
  __device__ void store(Index, Index, const cuda::Eight<T>&) const {}
};

}  // namespace

template <OnGpu T>
void layer_norm(Cuda, View<const T, 2> x, View<const T, 1> gamma, View<const T, 1> beta, double eps, View<T, 2> y,
                View<float, 1> mean, View<float, 1> rstd) {
  cuda::launch_norm(GivenRows<T>{x}, gamma, beta, eps, y, mean, rstd);
}

template <OnGpu T>
void layer_norm_backward(Cuda, View<const T, 2> dy, View<const T, 2> x, View<const T, 1> gamma,
                         View<const float, 1> mean, View<const float, 1> rstd, View<T, 2> dx, View<T, 1> dgamma,
                         View<T, 1> dbeta) {
  cuda::launch_norm_backward(NoBranch(), cuda::NormGradient<T>{dy, x, gamma, mean, rstd}, dx, dgamma, dbeta);
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
