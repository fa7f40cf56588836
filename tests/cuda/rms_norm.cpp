// The CUDA kernels of rms_norm against double, and against themselves with other schedules and garbage in memory. They
// share their layouts with layer_norm, whose tests have more numbers of rows.
#include <heddle/ops/rms_norm.hpp>

#include "norms.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

const auto divide_rows = [](const auto& in) { return rms_norm(in[0], in[1]); };

template <class T>
Inputs rows_and_gamma(Index N, Index D) {
  return {random<T>({N, D}, 1), random<T>({D}, 2)};
}

template <class T>
void expect_rms_norms(Index N, Index D) {
  expect_norms<T>(divide_rows, N, D, rows_and_gamma<T>(N, D));
}

}  // namespace

TEMPLATE_TEST_CASE("cuda rms_norm: the error is at most twice that of float on the CPU, and bf16 is rounded once", "",
                   float, bf16) {
  for (const Index D : narrow_rows) expect_rms_norms<TestType>(33, D);
  for (const Index D : wide_rows()) expect_rms_norms<TestType>(3, D);
  expect_rms_norms<TestType>(0, 33);
  expect_rms_norms<TestType>(0, 8200);
}

TEMPLATE_TEST_CASE("cuda rms_norm: blocks that process several groups of rows", "", float, bf16) {
  const LoweredLimits low({.norm_blocks = 2, .norm_forward_blocks = 2});
  expect_rms_norms<TestType>(33, 264);
  expect_rms_norms<TestType>(7, 1032);
}

TEMPLATE_TEST_CASE("cuda rms_norm: a single operand at an unaligned address", "", float, bf16) {
  expect_unaligned_norms<TestType>(divide_rows, rows_and_gamma<TestType>(3, 64));
}

TEMPLATE_TEST_CASE("cuda rms_norm: a gradient that is added to another is rounded once", "", float, bf16) {
  expect_added_norms<TestType>(divide_rows, rows_and_gamma<TestType>);
}

TEMPLATE_TEST_CASE("cuda rms_norm: results do not depend on schedules or garbage in memory", "", float, bf16) {
  expect_norms_always<TestType>(divide_rows, rows_and_gamma<TestType>);
}
