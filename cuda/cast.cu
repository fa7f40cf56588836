// cast: converts each element to another type. Definitions: include/heddle/ops/cast.hpp, base/number_types.hpp.
//
// A thread owns vectors of 16 bytes of the wider type (device/elementwise.cuh). x is read once, y written once.
#include <heddle/base/number_types.hpp>

#include "device/elementwise.cuh"

namespace heddle::kernel {
namespace {

template <class T, class U>
struct Cast {
  __device__ U operator()(T x) const { return convert<U>(x); }
};

}  // namespace

template <class T, class U>
void cast(Cuda, View<const T, 1> x, View<U, 1> y) {
  cuda::for_each_element(Cast<T, U>{}, x.extent[0], y.data, x.data);
}

#define HEDDLE_CAST(T, U) template void cast(Cuda, View<const T, 1>, View<U, 1>);
#define HEDDLE_CASTS(A, B, C, D, E) HEDDLE_CAST(A, B) HEDDLE_CAST(A, C) HEDDLE_CAST(A, D) HEDDLE_CAST(A, E)
HEDDLE_CASTS(float, bf16, std::int32_t, std::int64_t, bool)
HEDDLE_CASTS(bf16, std::int32_t, std::int64_t, bool, float)
HEDDLE_CASTS(std::int32_t, std::int64_t, bool, float, bf16)
HEDDLE_CASTS(std::int64_t, bool, float, bf16, std::int32_t)
HEDDLE_CASTS(bool, float, bf16, std::int32_t, std::int64_t)
#undef HEDDLE_CASTS
#undef HEDDLE_CAST

}  // namespace heddle::kernel
