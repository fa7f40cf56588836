// oneDNN's matrix products, where the build has HEDDLE_ONEDNN: BLAS's sgemm, which has no cost of setting up, and for bf16 a
// compiled kernel for each kind of product, whose sizes are given when it runs. Each call stays on the thread that makes it:
// how work is split is heddle's own choice, so that results do not depend on the number of threads.
#pragma once
#ifdef HEDDLE_ONEDNN
#include <dnnl.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include <heddle/error.hpp>
#include <heddle/view.hpp>

namespace heddle::kernel::onednn {

// While one lives, oneDNN sees a single thread.
class OneThread {
 public:
#ifdef _OPENMP
  OneThread() { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }

 private:
  int before_ = omp_get_max_threads();
#endif
};

// c [M, N] = a b, or c += a b; a transposed operand is stored as [K, M], or [N, K].
inline void product(bool transpose_a, bool transpose_b, Columns<const float> a, Columns<const float> b,
                    Columns<float> c, bool add) {
  const OneThread alone;
  const dnnl_status_t status =
      dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', c.rows, c.width, transpose_a ? a.rows : a.width, 1.f,
                 a.data, a.stride, b.data, b.stride, add ? 1.f : 0.f, c.data, c.stride);
  require<OutOfMemory>(status != dnnl_out_of_memory, "out of memory: oneDNN's product of ", c.rows, " x ", c.width);
  require(status == dnnl_success, "oneDNN's product failed with status ", static_cast<int>(status));
}

}  // namespace heddle::kernel::onednn
#endif
