// Elementwise + - * /, maximum, minimum and power. Definitions: include/heddle/ops/arithmetic.hpp and
// base/binary_functions.hpp; core/move.hpp for `add`.
//
// A thread owns vectors of 16 bytes of the widest type (device/elementwise.cuh). Two tensors of equal shapes are
// read once, and y is written once; a row, column or number that is broadcast is read from cache.
#include <heddle/base/binary_functions.hpp>

#include "device/elementwise.cuh"

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

#define HEDDLE_COMBINE(F, A, B, Y) template void combine(Cuda, F, const BroadcastPlan<2>&, const A*, const B*, Y*);
HEDDLE_COMBINE(Mul, bf16, bf16, float)
HEDDLE_COMBINE(Mul, float, bf16, float)
HEDDLE_COMBINE(Mul, float, bf16, bf16)
HEDDLE_COMBINE(Div, bf16, bf16, float)

#define HEDDLE_COMBINE_NUMBER(F, T) template void combine(Cuda, F, View<const T, 1>, float, View<T, 1>);
#define HEDDLE_ARITHMETIC(T)             \
  HEDDLE_COMBINE(Add, T, T, T)           \
  HEDDLE_COMBINE(Sub, T, T, T)           \
  HEDDLE_COMBINE(Mul, T, T, T)           \
  HEDDLE_COMBINE(Div, T, T, T)           \
  HEDDLE_COMBINE(Larger, T, T, T)        \
  HEDDLE_COMBINE(Smaller, T, T, T)       \
  HEDDLE_COMBINE_NUMBER(Add, T)          \
  HEDDLE_COMBINE_NUMBER(Sub, T)          \
  HEDDLE_COMBINE_NUMBER(Mul, T)          \
  HEDDLE_COMBINE_NUMBER(Div, T)          \
  HEDDLE_COMBINE_NUMBER(Swapped<Sub>, T) \
  HEDDLE_COMBINE_NUMBER(Swapped<Div>, T) \
  HEDDLE_COMBINE_NUMBER(Larger, T)       \
  HEDDLE_COMBINE_NUMBER(Smaller, T)      \
  template void add(Cuda, View<const T, 1>, View<const T, 1>, View<T, 1>);
HEDDLE_ARITHMETIC(float)
HEDDLE_COMBINE(Power, float, float, float)
HEDDLE_COMBINE_NUMBER(Power, float)
HEDDLE_COMBINE_NUMBER(Swapped<Power>, float)
HEDDLE_ARITHMETIC(bf16)
#undef HEDDLE_ARITHMETIC
#undef HEDDLE_COMBINE_NUMBER
#undef HEDDLE_COMBINE

}  // namespace heddle::kernel
