// The CUDA kernels of residual_layer_norm against double, and against themselves with other schedules and garbage in
// memory.
#include <heddle/core/create.hpp>
#include <heddle/ops/residual_layer_norm.hpp>

#include "norms.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

// Returns residual_layer_norm as a function of its operands, with draws that do not begin at 0.
auto residual_norm(double p) {
  return [p](const auto& in) {
    Random random(3, 1);
    random.take(5);
    return residual_layer_norm(in[0], in[1], in[2], in[3], 1e-5, p, &random);
  };
}

// Returns multiples of 1/8 up to 4, whose sums are exact in bf16.
Tensor<double> eighths(Shape shape, std::uint64_t seed) {
  Tensor<double> x = random<float>(shape, seed);
  for (Index i = 0; i < x.size(); ++i) x.data()[i] = std::clamp(std::round(x.data()[i] * 8), -32.0, 32.0) / 8;
  return x;
}

template <class T>
Inputs residual_operands(Index N, Index D) {
  return {eighths({N, D}, 1), eighths({N, D}, 2), random<T>({D}, 3), random<T>({D}, 4)};
}

// Compares residual_layer_norm on all devices. In bf16, the dropout scale 1 / (1 - p) must be a power of two, so
// that only y is rounded.
template <class T>
void expect_residual_norms(Index N, Index D, double p) {
  CAPTURE(N, D, p);
  expect_agrees<T>(residual_norm(p), residual_operands<T>(N, D), gpu_function_errors);
}

}  // namespace

TEST_CASE("cuda residual_layer_norm: the error is at most twice that of a plain computation in float") {
  for (const Index N : rows_to_test())
    for (const Index D : narrow_rows)
      for (const double p : {0.0, 0.3}) expect_residual_norms<float>(N, D, p);
}

TEST_CASE("cuda residual_layer_norm: bf16 results are rounded once") {
  for (const Index N : rows_to_test())
    for (const Index D : narrow_rows)
      for (const double p : {0.0, 0.5}) expect_residual_norms<bf16>(N, D, p);
}

// The sums are multiples of 1/2, because they are above 64, and differ by about 1.
TEST_CASE("cuda residual_layer_norm: the statistics are those of the stored sum") {
  const auto norm = residual_norm(0);
  for (const Index D : {33, 64, 1032}) {
    Inputs inputs = residual_operands<bf16>(5, D);
    for (Index i = 0; i < inputs[0].size(); ++i) inputs[0].data()[i] += 100;
    std::vector<Tensor<bf16>> here, there;
    for (const auto& x : inputs) {
      here.push_back(converted<bf16>(x));
      there.push_back(here.back().to(Device::cuda));
    }
    const auto expected = joined(norm(here).host());
    expect_close<bf16>(joined(norm(there).host()), expected, expected, {.roundings = 2});
  }
}

TEMPLATE_TEST_CASE("cuda residual_layer_norm: rows of every width", "", float, bf16) {
  for (const Index D : wide_rows()) expect_residual_norms<TestType>(3, D, 0.5);
  expect_residual_norms<TestType>(0, 8200, 0.5);
}

TEMPLATE_TEST_CASE("cuda residual_layer_norm: blocks that process several groups of rows", "", float, bf16) {
  const LoweredLimits low({.norm_blocks = 2, .norm_forward_blocks = 2});
  for (const auto& [N, D] : {std::pair<Index, Index>{100, 33}, {100, 64}, {33, 264}, {7, 1032}}) {
    if (races_are_watched() && N > 33) continue;
    expect_residual_norms<TestType>(N, D, 0.5);
  }
}

TEST_CASE("cuda residual_layer_norm: more rows than the backward's blocks process at once") {
  if (races_are_watched()) return;
  expect_residual_norms<float>(260, 1537, 0.3);
  expect_residual_norms<bf16>(3080, 136, 0.5);
}

TEMPLATE_TEST_CASE("cuda residual_layer_norm: rows at unaligned addresses", "", float, bf16) {
  for (const Index D : {Index{64}, Index{512}, Index{1032}, streamed_row()})
    expect_agrees<TestType>(
        [D](const auto& in) {
          return residual_norm(0.5)(std::vector{but_first(in[0], {3, D}), in[1], but_first(in[2], {D}), in[3]});
        },
        {eighths({3 * D + 1}, 1), eighths({3, D}, 2), random<TestType>({D + 1}, 3), random<TestType>({D}, 4)},
        gpu_function_errors);
}

TEMPLATE_TEST_CASE("cuda residual_layer_norm: a single operand at an unaligned address", "", float, bf16) {
  expect_unaligned_norms<TestType>(residual_norm(0.5), residual_operands<TestType>(3, 64));
}

TEMPLATE_TEST_CASE("cuda residual_layer_norm: results do not depend on schedules or garbage in memory", "", float,
                   bf16) {
  expect_norms_always<TestType>(residual_norm(0.3), residual_operands<TestType>);
}

TEST_CASE("cuda residual_layer_norm and layer_norm: a dropout of the result, and the gradients through it") {
  const auto residual = [](const auto& in) {
    Random random(3, 1);
    return residual_layer_norm(in[0], in[1], in[2], in[3], 1e-5, 0.3, &random, 0.4);
  };
  const auto alone = [](const auto& in) {
    Random random(3, 1);
    return layer_norm(in[0], in[2], in[3], 1e-5, 0.4, &random);
  };
  const Index N = races_are_watched() ? 3 : 5;
  for (const Index D : {Index{8}, Index{33}, Index{776}, Index{1025}, streamed_row()}) {
    CAPTURE(D);
    expect_agrees<float>(residual, residual_operands<float>(N, D), gpu_function_errors);
    expect_agrees<float>(alone, residual_operands<float>(N, D), gpu_function_errors);
  }
}
