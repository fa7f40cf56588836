// What costs a compiler most, Eigen's matrix products, is compiled once, in instances.cpp, and not in each test.
#pragma once
#include <heddle/ops/attention_backward.hpp>
#include <heddle/ops/attention_kernel.hpp>

#ifndef HEDDLE_INSTANCES
#define HEDDLE_INSTANCES extern
#endif

namespace heddle::kernel {

#define HEDDLE_INSTANCES_OF(T)                                                                                  \
  HEDDLE_INSTANCES template void gemm_nn<T>(Cpu, Columns<const T>, Columns<const T>, Columns<T>, Into);         \
  HEDDLE_INSTANCES template void gemm_nt<T>(Cpu, Columns<const T>, Columns<const T>, Columns<T>, Into);         \
  HEDDLE_INSTANCES template void gemm_tn<T>(Cpu, Columns<const T>, Columns<const T>, Columns<T>, Into);         \
  HEDDLE_INSTANCES template void attention<T>(Cpu, const AttentionPlan<T>&, Columns<const T>, Columns<const T>, \
                                              Columns<const T>, Columns<T>, View<Acc<T>, 2>);                   \
  HEDDLE_INSTANCES template void attention_weights<T>(Cpu, const AttentionPlan<T>&, Columns<const T>,           \
                                                      Columns<const T>, View<T, 4>);                            \
  HEDDLE_INSTANCES template void attention_backward<T>(                                                         \
      Cpu, const AttentionPlan<T>&, Columns<const T>, Columns<const T>, Columns<const T>, Columns<const T>,     \
      View<const Acc<T>, 2>, Columns<const T>, View<Acc<T>, 2>, Columns<T>, Columns<T>, Columns<T>, PerScore<Acc<T>>);

HEDDLE_INSTANCES_OF(float)
HEDDLE_INSTANCES_OF(double)
HEDDLE_INSTANCES_OF(bf16)

#undef HEDDLE_INSTANCES_OF

}  // namespace heddle::kernel
