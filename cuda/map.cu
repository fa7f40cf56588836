// map<F>, which applies F::f to each element, and its backward. Functions: include/heddle/base/scalar_functions.hpp; definitions:
// include/heddle/ops/map.hpp.
//
// A thread owns vectors of 16 bytes (device/elementwise.cuh). The forward reads x once and writes y once; the backward reads dy and the
// operands of the derivative (x or y), and writes dx.
#include "device/elementwise.cuh"

namespace heddle::kernel {
namespace {

template <class F, class T>
struct Mapped {
  __device__ T operator()(T x) const { return T(F::f(static_cast<float>(x))); }
};

template <class F, class T>
struct MappedBackward {
  __device__ T operator()(T dy, T x, T y) const {
    return T(static_cast<float>(dy) * F::df(static_cast<float>(x), static_cast<float>(y)));
  }
};

}  // namespace

template <class F, OnGpu T>
void map(Cuda, F, View<const T, 1> x, View<T, 1> y) {
  cuda::for_each_element(Mapped<F, T>{}, x.extent[0], y.data, x.data);
}

template <class F, OnGpu T>
void map_backward(Cuda, F, View<const T, 1> dy, View<const T, 1> x, View<const T, 1> y, View<T, 1> dx) {
  cuda::for_each_element(MappedBackward<F, T>{}, x.extent[0], dx.data, dy.data, x.data, y.data);
}

#define HEDDLE_MAP(F, T)                                    \
  template void map(Cuda, F, View<const T, 1>, View<T, 1>); \
  template void map_backward(Cuda, F, View<const T, 1>, View<const T, 1>, View<const T, 1>, View<T, 1>);
#define HEDDLE_MAPS(T)    \
  HEDDLE_MAP(Exp, T)      \
  HEDDLE_MAP(Log, T)      \
  HEDDLE_MAP(Sqrt, T)     \
  HEDDLE_MAP(Tanh, T)     \
  HEDDLE_MAP(Relu, T)     \
  HEDDLE_MAP(Sigmoid, T)  \
  HEDDLE_MAP(Gelu, T)     \
  HEDDLE_MAP(Abs, T)      \
  HEDDLE_MAP(Log1p, T)    \
  HEDDLE_MAP(Erf, T)      \
  HEDDLE_MAP(Softplus, T) \
  HEDDLE_MAP(Silu, T)     \
  HEDDLE_MAP(GeluTanh, T)
HEDDLE_MAPS(float)
HEDDLE_MAPS(bf16)
#undef HEDDLE_MAPS
#undef HEDDLE_MAP

}  // namespace heddle::kernel
