// The CUDA kernels of layer_norm against double, and against themselves with other schedules and garbage in memory.
#include <heddle/ops/layer_norm.hpp>

#include "norms.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

const auto normalize_rows = [](const auto& in) { return layer_norm(in[0], in[1], in[2]); };

template <class T>
Inputs operands(Index N, Index D) {
  return {random<T>({N, D}, 1), random<T>({D}, 2), random<T>({D}, 3)};
}

template <class T>
void expect_layer_norms(Index N, Index D) {
  expect_norms<T>(normalize_rows, N, D, operands<T>(N, D));
}

}  // namespace

TEMPLATE_TEST_CASE("cuda layer_norm: the error is at most twice that of float on the CPU, and bf16 is rounded once", "",
                   float, bf16) {
  for (const Index N : rows_to_test())
    for (const Index D : narrow_rows) expect_layer_norms<TestType>(N, D);
}

TEMPLATE_TEST_CASE("cuda layer_norm: rows of every width", "", float, bf16) {
  for (const Index D : wide_rows()) expect_layer_norms<TestType>(3, D);
  expect_layer_norms<TestType>(0, 8200);
}

TEMPLATE_TEST_CASE("cuda layer_norm: blocks that process several groups of rows", "", float, bf16) {
  const LoweredLimits low({.norm_blocks = 2, .norm_forward_blocks = 2});
  for (const auto& [N, D] : {std::pair<Index, Index>{100, 33}, {100, 64}, {33, 264}, {7, 1032}}) {
    if (races_are_watched() && N > 33) continue;
    expect_layer_norms<TestType>(N, D);
  }
}

TEST_CASE("cuda layer_norm: more rows than the backward's blocks process at once") {
  if (races_are_watched()) return;
  expect_layer_norms<float>(3080, 136);
  expect_layer_norms<bf16>(260, 1544);
}

TEMPLATE_TEST_CASE("cuda layer_norm: rows at unaligned addresses", "", float, bf16) {
  for (const Index D : {Index{64}, Index{512}, Index{1032}, streamed_row()})
    expect_agrees<TestType>(
        [D](const auto& in) {
          return layer_norm(but_first(in[0], {3, D}), but_first(in[1], {D}), in[2]);
        },
        {random<TestType>({3 * D + 1}, 1), random<TestType>({D + 1}, 2), random<TestType>({D}, 3)},
        gpu_function_errors);
}

TEMPLATE_TEST_CASE("cuda layer_norm: a single operand at an unaligned address", "", float, bf16) {
  expect_unaligned_norms<TestType>(normalize_rows, operands<TestType>(3, 64));
}

TEMPLATE_TEST_CASE("cuda layer_norm: a gradient that is added to another is rounded once", "", float, bf16) {
  expect_added_norms<TestType>(normalize_rows, operands<TestType>);
}

TEMPLATE_TEST_CASE("cuda layer_norm: results do not depend on schedules or garbage in memory", "", float, bf16) {
  expect_norms_always<TestType>(normalize_rows, operands<TestType>);
}
