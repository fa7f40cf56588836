// The attention functions that keep scores in memory or take heads of any width. wide.cu defines them; forward.cu and
// backward.cu call them.
#pragma once
#include "plan.cuh"

namespace heddle::cuda {

// Computes kernel::attention for heads that are too wide for the tiles of forward.cu.
template <kernel::OnGpu T>
void attend_wide(const kernel::AttentionPlan<T>& plan, MatrixView<const T> q, MatrixView<const T> k,
                 MatrixView<const T> v, MatrixView<T> y, View<float, 2> lse);
// Computes dq, dk and dv for such heads; skips a gradient without data.
template <kernel::OnGpu T>
void attend_wide_backward(const kernel::AttentionPlan<T>& plan, const BackwardInputs<T>& x, MatrixView<T> dq,
                          MatrixView<T> dk, MatrixView<T> dv);

// Computes the gradient of the bias for heads of any width.
template <kernel::OnGpu T>
void sum_bias_gradient(const kernel::AttentionPlan<T>& plan, const BackwardInputs<T>& x, kernel::PerScore<float> dbias);

}  // namespace heddle::cuda
