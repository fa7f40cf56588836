// The CUDA kernels of cross_entropy against the CPU's, for few classes and for as many as a vocabulary has.
#include <heddle/ops/cross_entropy.hpp>

#include "../harness/agreement.hpp"
#include "rows.hpp"
#include "same_always.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

// Every fifth row is ignored; the first label is the first class and the second one the last.
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
auto loss(Index N, Index C, double smoothing = 0, L ignored = -100) {
  return [=, y = labels<L>(N, C, ignored)](const auto& in) {
    return cross_entropy(in[0], y.to(in[0].device()),
                         {.ignore_index = ignored,
                          .class_weights = in.size() > 1 ? in[1] : std::decay_t<decltype(in[0])>(),
                          .label_smoothing = smoothing});
  };
}

template <class T>
void check(Index N, Index C) {
  CAPTURE(N, C);
  const auto z = random<T>({N, C}, 1);
  expect_agrees<T>(loss<int>(N, C), {z});
  expect_agrees<T>(loss<std::int64_t>(N, C, 0.1), {z, class_weights(C)});
}

std::vector<Index> class_counts() {
  if (races_are_watched()) return {1, 33, 264, 1032, 4097};
  return {1, 2, 31, 33, 64, 255, 256, 257, 264, 1024, 1032, 1033, 4096, 4097};
}

// The kernels themselves: what they write, and what they do with labels that are no class.
struct Written {
  std::vector<float> loss, divisor, log_sum, gradient;
};
template <class L>
Written on_gpu(const Tensor<float>& logits, const std::vector<L>& y, std::int64_t ignored) {
  const auto there = logits.to(Device::cuda);
  const auto label = Tensor<L>({static_cast<Index>(y.size())}, y).to(Device::cuda);
  Tensor<float> loss({1}, Device::cuda), divisor({1}, Device::cuda), log_sum(label.shape(), Device::cuda);
  Tensor<float> gradient(logits.shape(), Device::cuda);
  const View<const float, 1> weights{nullptr, {0}};
  const auto dy = full<float>({1}, 1, Device::cuda);
  kernel::cross_entropy(Cuda{}, view<2>(there), view<1>(label), ignored, weights, 0, view<1>(loss), view<1>(divisor),
                        view<1>(log_sum));
  kernel::cross_entropy_backward(Cuda{}, view<1>(dy), view<2>(there), view<1>(label), ignored, weights, 0,
                                 view<1>(std::as_const(divisor)), view<1>(std::as_const(log_sum)), view<2>(gradient));
  return {loss.host(), divisor.host(), log_sum.host(), gradient.host()};
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

TEST_CASE("cuda cross_entropy: more rows than blocks take at once, more classes than a block holds") {
  if (races_are_watched()) return;
  check<float>(140'000, 1);
  check<float>(1500, 300);
  check<float>(3, 16'392);
  check<bf16>(2, 16'392);
  check<bf16>(2, 30'522);
}

TEST_CASE("cuda cross_entropy: weights or smoothing alone, and an ignored label that is a class") {
  for (const Index C : {3, 40, 1032}) {
    const auto z = random<float>({9, C}, 1);
    expect_agrees<float>(loss<int>(9, C, 0.25), {z});
    expect_agrees<float>(loss<int>(9, C), {z, class_weights(C)});
    expect_agrees<float>(loss<int>(9, C, 1), {z});
    expect_agrees<float>(loss<std::int64_t>(9, C, 0, 2), {z});
  }
}

TEST_CASE("cuda cross_entropy: a label that is no class takes no part") {
  const Tensor<float> logits = converted<float>(random<float>({4, 5}, 1));
  const auto wrong = on_gpu<std::int64_t>(logits, {1, 5, -1, 1LL << 32}, -100);
  const auto ignored = on_gpu<int>(logits, {1, -7, -7, -7}, -7);
  CHECK(wrong.loss == ignored.loss);
  CHECK(wrong.divisor == std::vector<float>{1});
  CHECK(wrong.gradient == ignored.gradient);
  for (std::size_t i = 5; i < 20; ++i) CHECK(wrong.gradient[i] == 0);
}

TEST_CASE("cuda cross_entropy: NaN when all labels are ignored, with zeros for the gradient") {
  for (const Index C : {3, 1032}) {
    const auto all = on_gpu<int>(converted<float>(random<float>({2, C}, 1)), {-100, -100}, -100);
    CHECK(std::isnan(all.loss[0]));
    CHECK(all.divisor[0] == 0);
    CHECK(all.gradient == std::vector<float>(static_cast<std::size_t>(2 * C), 0.f));
  }
  CHECK(std::isnan(on_gpu<int>(Tensor<float>({0, 4}), {}, -100).loss[0]));
}

TEST_CASE("cuda cross_entropy: large logits, infinity and NaN") {
  const float inf = std::numeric_limits<float>::infinity();
  const auto row = [](Index C, std::vector<float> first) {
    first.resize(static_cast<std::size_t>(C), -1e30f);
    return Tensor<float>({1, C}, first);
  };
  for (const Index C : {4, 1032, 4097}) {
    CAPTURE(C);
    const auto large = on_gpu<int>(row(C, {1e30f, 0, 1e30f}), {0}, -100);
    CHECK(large.log_sum[0] == Approx(std::log(2.0)));
    CHECK(large.loss[0] == Approx(std::log(2.0)));
    CHECK(large.gradient[0] == Approx(-0.5));
    CHECK(large.gradient[2] == Approx(0.5));
    CHECK(on_gpu<int>(row(C, {0, -inf}), {0}, -100).loss[0] == 0);
    CHECK(on_gpu<int>(row(C, {0, -inf}), {1}, -100).loss[0] == inf);
    for (const float bad : {inf, NAN}) {
      const auto broken = on_gpu<int>(row(C, {0, bad}), {0}, -100);
      CHECK(std::isnan(broken.loss[0]));
      for (const float g : broken.gradient) REQUIRE(std::isnan(g));
    }
  }
}

TEST_CASE("cuda cross_entropy: schedules and what memory held before change nothing") {
  for (const Index C : {5, 33, 1032})
    expect_same_always<float>(loss<int>(33, C, 0.1), {random<float>({33, C}, 1), class_weights(C)});
}
