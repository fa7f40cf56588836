// Elementwise comparisons. Definitions: include/heddle/ops/compare.hpp and base/binary_functions.hpp.
//
// A thread owns vectors of 16 bytes of the operands (device/elementwise.cuh). Two tensors of equal shapes are read
// once, and y, one byte an element, is written once. A broadcast operand is read from cache.
#include "device/elementwise.cuh"

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

#define HEDDLE_COMPARE(F)                                                                     \
  template void compare(Cuda, F, const BroadcastPlan<2>&, const float*, const float*, bool*); \
  template void compare(Cuda, F, const BroadcastPlan<2>&, const std::int64_t*, const std::int64_t*, bool*);
HEDDLE_COMPARE(Equal)
HEDDLE_COMPARE(NotEqual)
HEDDLE_COMPARE(Less)
HEDDLE_COMPARE(LessEqual)
#undef HEDDLE_COMPARE

}  // namespace heddle::kernel
