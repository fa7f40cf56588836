// map<F>, which applies F::f to each element, and its backward. Functions: include/heddle/base/scalar_functions.hpp;
// definitions: include/heddle/ops/map.hpp.
//
// A thread owns vectors of 16 bytes (device/elementwise.cuh). The forward reads x once and writes y once; the backward
// reads dy and the operands of the derivative (x or y), and writes dx.
#include "device/elementwise.cuh"
#include "device/fast_normal.cuh"
#include "device/instances.cuh"

namespace heddle::kernel {
namespace {

template <class F, class T>
struct Mapped {
  __device__ float operator()(float x) const { return F::f(x); }
};

template <class F, class T>
struct MappedBackward {
  __device__ float operator()(float dy, float x, float y) const { return dy * F::df(x, y); }
};

template <>
struct Mapped<Gelu, bf16> {
  __device__ float operator()(float x) const { return x * cuda::FastNormal(x).distribution(); }
};
template <>
struct MappedBackward<Gelu, bf16> {
  __device__ float operator()(float dy, float x, float) const {
    const cuda::FastNormal normal(x);
    return dy * (normal.distribution() + x * normal.density());
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

[[maybe_unused, gnu::used]] constexpr auto map_instances =
    cuda::instances<Exp, Log, Sqrt, Tanh, Relu, Sigmoid, Gelu, Abs, Log1p, Erf, Softplus, Silu, GeluTanh>(
        []<class F>(cuda::Type<F>) {
          return cuda::instances<float, bf16>(
              []<class T>(cuda::Type<T>) { return std::tuple(&map<F, T>, &map_backward<F, T>); });
        });

}  // namespace heddle::kernel
