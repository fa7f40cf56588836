// What of attention is made from scores in memory, or for heads of any width (attention_wide.cu).
#pragma once
#include "attention_launch.cuh"
#include "softmax_rows.cuh"

namespace heddle::cuda {

// As kernel::attention and kernel::attention_backward, where a head is too wide for their tiles; delta is there already, and
// dbias is left to the next.
template <kernel::OnGpu T>
void attend_wide(const kernel::AttentionPlan<T>& plan, MatrixView<const T> q, MatrixView<const T> k,
                 MatrixView<const T> v, MatrixView<T> y, View<float, 2> lse);
template <kernel::OnGpu T>
void attend_wide_backward(const kernel::AttentionPlan<T>& plan, MatrixView<const T> q, MatrixView<const T> k,
                          MatrixView<const T> v, View<const float, 2> lse, MatrixView<const T> dy,
                          View<const float, 2> delta, MatrixView<T> dq, MatrixView<T> dk, MatrixView<T> dv);

// Of heads of any width.
template <kernel::OnGpu T>
void add_up_bias_gradient(const kernel::AttentionPlan<T>& plan, MatrixView<const T> q, MatrixView<const T> k,
                          MatrixView<const T> v, View<const float, 2> lse, MatrixView<const T> dy,
                          View<const float, 2> delta, kernel::PerScore<float> dbias);

}  // namespace heddle::cuda
