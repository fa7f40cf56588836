// Shapes and operands for the CUDA kernels of norms (cuda/device/norm_layout.cuh).
#pragma once
#include <heddle/core/create.hpp>
#include <heddle/ops/arithmetic.hpp>
#include <heddle/ops/reshape.hpp>
#include <heddle/ops/slice.hpp>

#include "../harness/agreement.hpp"
#include "lowered_limits.hpp"
#include "rows.hpp"
#include "same_always.hpp"

namespace heddle::testing {

// Widths to combine with many numbers of rows, some of them multiples of eight. Their teams have 1 to 16 lanes, or two
// warps.
inline constexpr Index narrow_rows[] = {1, 8, 31, 33, 64, 257};

// Returns the width of a row that is not held in registers. It is narrower if races are watched: blocks have
// 128 threads instead of 512 under ThreadSanitizer. compute-sanitizer, whose blocks are not smaller, gets a row
// that is held.
inline Index streamed_row() { return races_are_watched() ? 2056 : 8200; }

// Returns the width of the widest row of each layout and a slightly larger one: lanes, 2 to 12 warps, blocks, and rows
// that are not held in registers. Rows of 260 columns are vectors in float only. Sanitizers, which are slow, get fewer
// widths.
inline std::vector<Index> wide_rows() {
  if (races_are_watched()) return {776, 1025, 1032, streamed_row()};
  if (!is_exhaustive()) return {256, 260, 264, 776, 1024, 1025, 1032, 3072, 3073, 3080, streamed_row(), 8201};
  return {256,  260,  264,  512,  520,  768,  776,  1024,           1025,
          1032, 3072, 3073, 3080, 4096, 4097, 8192, streamed_row(), 8201};
}

// Compares a norm of rows [N, D] on all devices.
template <class T, class F>
void expect_norms(F&& f, Index N, Index D, const Inputs& operands) {
  CAPTURE(N, D);
  expect_agrees<T>(f, operands, gpu_function_errors);
}

// Returns f with a second use of in[0], whose gradient is 2 dy: the gradient of the norm is added to it.
template <class F>
auto beside_another_use(F f) {
  return [f](const auto& in) {
    auto inner = in;
    inner[0] = in[0] * 1;
    const auto y = f(inner);
    using Gradient = std::decay_t<decltype(y)>;
    return record("beside_another_use", y * 1, inputs(y, inner[0]),
                  [](const Gradient& dy) { return std::tuple(dy, dy * 2); });
  };
}

// Checks that values and gradients are the same with every schedule.
template <class T, class F, class Operands>
void expect_norms_always(F&& f, Operands&& operands) {
  const Index N = races_are_watched() ? 5 : 33;
  for (const Index D : {33, 64, 776}) expect_same_always<T>(f, operands(N, D));
  for (const Index D : {Index{1025}, Index{1032}, streamed_row()}) expect_same_always<T>(f, operands(2, D));
}

// Returns all elements of x except the first, in the given shape. They begin at an unaligned address.
template <class T>
Tensor<T> but_first(const Tensor<T>& x, const Shape& shape) {
  return reshape(slice(x, 0, 1, x.size()), shape);
}

// Compares f on all devices, with each operand in turn at an unaligned address.
template <class T, class F>
void expect_unaligned_norms(F&& f, const Inputs& operands) {
  for (std::size_t shifted = 0; shifted < operands.size(); ++shifted) {
    CAPTURE(shifted);
    const Tensor<double>& x = operands[shifted];
    Inputs inputs = operands;
    inputs[shifted] = zeros<double>({x.size() + 1});
    std::copy(x.data(), x.data() + x.size(), inputs[shifted].data() + 1);
    const auto of_placed = [&](const auto& in) {
      auto placed = in;
      placed[shifted] = but_first(in[shifted], x.shape());
      return f(placed);
    };
    expect_agrees<T>(of_placed, inputs, gpu_function_errors);
  }
}

// Compares f beside another use on all devices, in each layout and with each operand at an unaligned address.
// operands(N, D) returns the inputs.
template <class T, class F, class Operands>
void expect_added_norms(F f, Operands&& operands) {
  const auto added = beside_another_use(f);
  for (const Index D : {Index{1}, Index{33}, Index{64}, Index{776}, Index{1032}, Index{1033}, streamed_row()})
    expect_norms<T>(added, 3, D, operands(3, D));
  expect_norms<T>(added, 0, 33, operands(0, 33));
  expect_unaligned_norms<T>(added, operands(3, 64));
  const LoweredLimits low({.norm_blocks = 2, .norm_forward_blocks = 2});
  expect_norms<T>(added, 33, 64, operands(33, 64));
}

}  // namespace heddle::testing
