// Elementwise + - * /, maximum, minimum and power. Definitions: include/heddle/ops/arithmetic.hpp and
// base/binary_functions.hpp; core/move.hpp for `add`.
//
// A thread owns vectors of 16 bytes of the widest type (device/elementwise.cuh). Two tensors of equal shapes are
// read once, and y is written once; a row, column or number that is broadcast is read from cache.
#include <heddle/base/binary_functions.hpp>

#include "device/elementwise.cuh"
#include "device/instances.cuh"

namespace heddle::kernel {
namespace {

template <class F, class Y>
struct OfTwo {
  template <class A, class B>
  __device__ Y operator()(A a, B b) const {
    return Y(F::f(static_cast<float>(a), static_cast<float>(b)));
  }
};

template <class F, class T>
struct WithNumber {
  float number;
  __device__ T operator()(T x) const { return T(F::f(static_cast<float>(x), number)); }
};

}  // namespace

template <class F, OnGpu A, OnGpu B, OnGpu Y>
void combine(Cuda, F, const BroadcastPlan<2>& plan, const A* a, const B* b, Y* y) {
  cuda::for_broadcast_elements(OfTwo<F, Y>{}, plan, y, a, b);
}

template <class F, OnGpu T>
void combine(Cuda, F, View<const T, 1> x, float number, View<T, 1> y) {
  cuda::for_each_element(WithNumber<F, T>{number}, x.extent[0], y.data, x.data);
}

template <OnGpu T>
void add(Cuda, View<const T, 1> a, View<const T, 1> b, View<T, 1> y) {
  cuda::for_each_element(OfTwo<Add, T>{}, y.extent[0], y.data, a.data, b.data);
}

[[maybe_unused, gnu::used]] constexpr auto combine_instances = cuda::instances<float, bf16>([]<class T>(cuda::Type<T>) {
  return std::tuple(cuda::instances<Add, Sub, Mul, Div, Larger, Smaller>(
                        []<class F>(cuda::Type<F>) { return std::tuple(&combine<F, T, T, T>, &combine<F, T>); }),
                    &combine<Swapped<Sub>, T>, &combine<Swapped<Div>, T>, &add<T>);
});
[[maybe_unused, gnu::used]] constexpr auto power_instances =
    std::tuple(&combine<Power, float, float, float>, &combine<Power, float>, &combine<Swapped<Power>, float>);
[[maybe_unused, gnu::used]] constexpr auto mixed_type_instances =
    std::tuple(&combine<Mul, bf16, bf16, float>, &combine<Mul, float, bf16, float>, &combine<Mul, float, bf16, bf16>,
               &combine<Div, bf16, bf16, float>);

}  // namespace heddle::kernel
