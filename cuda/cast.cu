// cast: converts each element to another type. Definitions: include/heddle/ops/cast.hpp, base/number_types.hpp.
//
// A thread owns vectors of 16 bytes of the wider type (device/elementwise.cuh). x is read once, y written once.
#include <heddle/base/number_types.hpp>

#include "device/elementwise.cuh"
#include "device/instances.cuh"

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

template <class T, class... Us>
constexpr auto casts = std::tuple(&cast<T, Us>...);
[[maybe_unused, gnu::used]] constexpr auto cast_instances = std::tuple(
    casts<float, bf16, std::int32_t, std::int64_t, bool>, casts<bf16, std::int32_t, std::int64_t, bool, float>,
    casts<std::int32_t, std::int64_t, bool, float, bf16>, casts<std::int64_t, bool, float, bf16, std::int32_t>,
    casts<bool, float, bf16, std::int32_t, std::int64_t>);

}  // namespace heddle::kernel
