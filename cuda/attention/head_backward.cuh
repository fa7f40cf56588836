// The backward of attention in which a block owns a head. head_backward.cu defines it; backward.cu calls it.
#pragma once
#include "plan.cuh"

namespace heddle::cuda {

// Computes dq, dk and dv in one kernel, with the bits of backward.cu's kernels. Returns false and computes nothing for
// heads with masks, biases or limited distances, for more than 64 columns, for more than 256 queries or keys (128 if
// there are up to 32 columns), if a gradient has no data, if a block has too little shared memory, and if the heads do
// not fill the GPU.
bool compute_head_gradients(const kernel::AttentionPlan<bf16>& plan, const BackwardInputs<bf16>& x,
                            MatrixView<const bf16> y, MatrixView<bf16> dq, MatrixView<bf16> dk, MatrixView<bf16> dv);

}  // namespace heddle::cuda
