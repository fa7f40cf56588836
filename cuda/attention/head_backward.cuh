// The backward of attention in which a block owns a head. head_backward.cu defines it; backward.cu calls it.
#pragma once
#include "plan.cuh"

namespace heddle::cuda {

// Computes dq, dk and dv in one kernel, with the bits of backward.cu's kernels. Returns false and computes nothing for
// heads with masks, biases or limited distances, for more than 256 queries or keys or more than 64 columns, if a
// gradient has no data, and if there are too few heads for all multiprocessors.
bool compute_head_gradients(const kernel::AttentionPlan<bf16>& plan, const BackwardInputs<bf16>& x,
                            MatrixView<const bf16> y, MatrixView<bf16> dq, MatrixView<bf16> dk, MatrixView<bf16> dv);

}  // namespace heddle::cuda
