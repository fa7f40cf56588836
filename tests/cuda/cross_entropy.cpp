// The CUDA kernels of cross_entropy against the CPU's, for few classes and for as many as a vocabulary has.
#include <heddle/ops/cross_entropy.hpp>

#include "../harness/agreement.hpp"
#include "lowered_limits.hpp"
#include "rows.hpp"
#include "same_always.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

// Returns labels: every fifth row is ignored; the first label is the first class and the second one the last.
template <class L>
Tensor<L> labels(Index N, Index C, L ignored) {
  std::vector<L> values;
  for (Index n = 0; n < N; ++n)
    values.push_back(n % 5 == 4 ? ignored : static_cast<L>(n == 0 ? 0 : n == 1 ? C - 1 : n * 7919 % C));
  return Tensor<L>({N}, values);
}
Tensor<double> class_weights(Index C) {
  auto weights = random<bf16>({C}, 5);
  for (Index c = 0; c < C; ++c) weights.data()[c] = std::abs(weights.data()[c]) + 0.125;
  return rounded<bf16>(weights);
}

template <class L>
auto loss(Index N, Index C, double smoothing = 0, L ignored = -100, Reduction reduction = Reduction::mean) {
  return [=, y = labels<L>(N, C, ignored)](const auto& in) {
    return cross_entropy(in[0], y.to(in[0].device()),
                         {.ignore_index = ignored,
                          .class_weights = in.size() > 1 ? in[1] : std::decay_t<decltype(in[0])>(),
                          .label_smoothing = smoothing,
                          .reduction = reduction});
  };
}

// The error of CUDA's exp is one last bit. The log of a sum of exponentials therefore has an error of 2^-23, which is
// less than two last bits of these losses, because they exceed 1/2. In the gradient, exp(z - log_sum) has an error of
// two last bits, one of them from log_sum.
template <class T>
void check(Index N, Index C) {
  CAPTURE(N, C);
  const auto z = random<T>({N, C}, 1);
  expect_agrees<T>(loss<int>(N, C), {z}, gpu_function_errors);
  expect_agrees<T>(loss<std::int64_t>(N, C, 0.1), {z, class_weights(C)}, gpu_function_errors);
  expect_agrees<T>(loss<int>(N, C, 0.1, -100, Reduction::none), {z, class_weights(C)}, gpu_function_errors);
}

std::vector<Index> class_counts() {
  if (races_are_watched()) return {1, 33, 40, 264, 1032, 4097};
  return {1, 2, 31, 33, 64, 255, 256, 257, 264, 1024, 1032, 1033, 4096, 4097};
}

}  // namespace

TEST_CASE("cuda cross_entropy: any number of rows and classes") {
  for (const Index C : class_counts())
    for (const Index N : rows_to_test()) {
      if (N > (C > 1024 ? 1 : 33)) continue;
      check<float>(N, C);
      check<bf16>(N, C);
    }
  check<float>(257, 2);
  check<bf16>(257, 40);
}

TEST_CASE("cuda cross_entropy: an ignored label of more than 32 bits") {
  const auto ignored = std::int64_t{1} << 40;
  expect_agrees<float>(loss(33, 40, 0, ignored), {random<float>({33, 40}, 1)}, gpu_function_errors);
}

TEST_CASE("cuda cross_entropy: more rows than blocks take at once, more classes than a block holds") {
  if (races_are_watched()) return;
  if (is_exhaustive()) {
    check<float>(140'000, 1);
    check<bf16>(2, 30'522);
  } else {
    expect_agrees<float>(loss<std::int64_t>(140'000, 1), {random<float>({140'000, 1}, 1)});
  }
  check<float>(1500, 300);
  check<float>(3, 16'392);
  check<bf16>(2, 16'392);
}

TEST_CASE("cuda cross_entropy: blocks that process several groups of rows") {
  for (const Index blocks : {1, 3}) {
    CAPTURE(blocks);
    const LoweredLimits low({.loss_blocks = blocks});
    for (const Index C : {2, 9, 40, 1032}) {
      check<float>(C > 1024 ? 7 : 300, C);
      check<bf16>(C > 1024 ? 7 : 300, C);
    }
  }
}

TEST_CASE("cuda cross_entropy: 20,000 rows of 9 classes") {
  if (races_are_watched()) return;
  check<float>(20'000, 9);
  check<bf16>(20'000, 9);
}

TEST_CASE("cuda cross_entropy: results do not depend on schedules or garbage in memory") {
  for (const Index C : {5, 33, 1032})
    expect_same_always<float>(loss<int>(33, C, 0.1), {random<float>({33, C}, 1), class_weights(C)});
}

TEST_CASE("cuda cross_entropy: the first invalid label is reported by the next synchronization, with every schedule") {
  const auto message = [](const std::vector<int>& of_rows, Index C) -> std::string {
    const Index N = static_cast<Index>(of_rows.size());
    const Tensor<float> loss = cross_entropy(converted<float>(random<float>({N, C}, 1), Device::cuda),
                                             Tensor<int>({N}, of_rows).to(Device::cuda));
    try {
      cuda::synchronize();
    } catch (const IndexError& error) {
      return error.what();
    }
    return "";
  };
  for (const Index C : {5, 1100}) {
    std::vector<int> of_rows(races_are_watched() ? 33 : 300, 2);
    of_rows[7] = -100;  // ignored
    CHECK(message(of_rows, C) == "");
    of_rows[20] = -1;
    of_rows.back() = static_cast<int>(C);
    CHECK(message(of_rows, C) ==
          "cross_entropy: label -1 at position 20 is none of the " + std::to_string(C) + " classes");
    expect_same_always([&] { return message(of_rows, C); });
    of_rows[20] = 0;
    CHECK(message(of_rows, C) == "cross_entropy: label " + std::to_string(C) + " at position " +
                                     std::to_string(of_rows.size() - 1) + " is none of the " + std::to_string(C) +
                                     " classes");
  }
}
