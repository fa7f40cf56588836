// The templates that take a compiler longest, Eigen's matrix products and attention: compiled once, in instances.cpp,
// instead of in each test.
#pragma once
#include <heddle/ops/attention/backward.hpp>
#include <heddle/ops/attention/forward.hpp>

#ifndef HEDDLE_INSTANCES
#define HEDDLE_INSTANCES extern
#endif

namespace heddle::kernel {

#define HEDDLE_INSTANCES_OF(T)                                                                                        \
  HEDDLE_INSTANCES template void product<false, false, T>(MatrixView<const T>, MatrixView<const T>, MatrixView<T>,    \
                                                          Into);                                                      \
  HEDDLE_INSTANCES template void product<false, true, T>(MatrixView<const T>, MatrixView<const T>, MatrixView<T>,     \
                                                         Into);                                                       \
  HEDDLE_INSTANCES template void product<true, false, T>(MatrixView<const T>, MatrixView<const T>, MatrixView<T>,     \
                                                         Into);                                                       \
  HEDDLE_INSTANCES template void gemm_nn<T>(Cpu, MatrixView<const T>, MatrixView<const T>, MatrixView<T>, Into);      \
  HEDDLE_INSTANCES template void gemm_nt<T>(Cpu, MatrixView<const T>, MatrixView<const T>, MatrixView<T>, Into);      \
  HEDDLE_INSTANCES template void gemm_tn<T>(Cpu, MatrixView<const T>, MatrixView<const T>, MatrixView<T>, Into);      \
  HEDDLE_INSTANCES template void attention<T>(Cpu, const AttentionPlan<T>&, MatrixView<const T>, MatrixView<const T>, \
                                              MatrixView<const T>, MatrixView<T>, View<Acc<T>, 2>);                   \
  HEDDLE_INSTANCES template void attention_weights<T>(Cpu, const AttentionPlan<T>&, MatrixView<const T>,              \
                                                      MatrixView<const T>, View<T, 4>);                               \
  HEDDLE_INSTANCES template void attention_backward<T>(Cpu, const AttentionPlan<T>&, MatrixView<const T>,             \
                                                       MatrixView<const T>, MatrixView<const T>, MatrixView<const T>, \
                                                       View<const Acc<T>, 2>, MatrixView<const T>, View<Acc<T>, 2>,   \
                                                       MatrixView<T>, MatrixView<T>, MatrixView<T>, PerScore<Acc<T>>);

HEDDLE_INSTANCES_OF(float)
HEDDLE_INSTANCES_OF(double)
HEDDLE_INSTANCES_OF(bf16)

#undef HEDDLE_INSTANCES_OF

}  // namespace heddle::kernel
