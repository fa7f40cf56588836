// Elementwise comparisons. Definitions: include/heddle/ops/compare.hpp and base/binary_functions.hpp.
//
// A thread owns vectors of 16 bytes of the operands (device/elementwise.cuh). Two tensors of equal shapes are read
// once, and y, one byte an element, is written once. A broadcast operand is read from cache.
#include "device/elementwise.cuh"
#include "device/instances.cuh"

namespace heddle::kernel {
namespace {

template <class F>
struct Compare {
  template <class T>
  __device__ bool operator()(T a, T b) const {
    return F::f(a, b);
  }
};

}  // namespace

template <class F, class T>
void compare(Cuda, F, const BroadcastPlan<2>& plan, const T* a, const T* b, bool* y) {
  cuda::for_broadcast_elements(Compare<F>{}, plan, y, a, b);
}

[[maybe_unused, gnu::used]] constexpr auto compare_instances = cuda::instances<Equal, NotEqual, Less, LessEqual>(
    []<class F>(cuda::Type<F>) { return std::tuple(&compare<F, float>, &compare<F, std::int64_t>); });

}  // namespace heddle::kernel
