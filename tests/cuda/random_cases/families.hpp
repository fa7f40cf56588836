// The families of operations that random cases call. Each function draws a call, and compares the GPU's results with
// those of the CPU in double, or, where a result follows from a rounded one, with the CPU's in the same type. A
// difference fails an assertion of Catch.
#pragma once
#include "../../harness/agreement.hpp"
#include "draw.hpp"

namespace heddle::testing {

void check_attention(Draw& draw);
void check_attention_in_tf32(Draw& draw);
void check_layer_norm(Draw& draw);
void check_residual_layer_norm(Draw& draw);
void check_rms_norm(Draw& draw);
void check_softmax(Draw& draw);
void check_cross_entropy(Draw& draw);
void check_linear(Draw& draw);
void check_matmul(Draw& draw);
void check_sums(Draw& draw);
void check_extremes(Draw& draw);
void check_pooling(Draw& draw);
void check_functions(Draw& draw);
void check_arithmetic(Draw& draw);
void check_comparisons(Draw& draw);
void check_casts(Draw& draw);
void check_dropout(Draw& draw);
void check_embed(Draw& draw);
void check_gather(Draw& draw);
void check_topk(Draw& draw);
void check_moves(Draw& draw);
void check_choices(Draw& draw);
void check_losses(Draw& draw);
void check_optimizers(Draw& draw);

/// Returns the usual size of a sum of numbers of size 1.
inline double size_of_sum(Index count) { return std::sqrt(static_cast<double>(count)); }

/// The roundings to bf16 by which a result that follows from a rounded y may differ between devices: a last bit of y,
/// which is up to two roundings, and a last bit of the result.
inline constexpr double roundings_behind_y = 4;

/// Checks that the GPU's errors in T are at most twice the CPU's largest one in T, plus a rounding. Use it where a
/// result follows from a rounded one and may be more sensitive to it than expect_agrees_with_cpu() accepts.
template <class T, class F>
void expect_as_exact_as_cpu(F&& f, const Inputs& inputs) {
  const Evaluation exact = evaluate<double, T>(f, inputs, Device::cpu), plain = evaluate<T>(f, inputs, Device::cpu);
  expect_close(evaluate<T>(f, inputs, Device::cuda), exact,
               [&](std::size_t i) { return plain_errors<T>(exact[i].values, plain[i].values); });
}

/// Checks that the GPU's results in T have the CPU's bits, except that a NaN equals every NaN.
template <class T, class F>
void expect_same_on_both(F&& f, const Inputs& inputs) {
  const Evaluation expected = evaluate<T>(f, inputs, Device::cpu), actual = evaluate<T>(f, inputs, Device::cuda);
  expect_close(actual, expected, [](std::size_t) { return equal; });
}

}  // namespace heddle::testing
