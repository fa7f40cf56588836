#include <heddle/core/create.hpp>
#include <heddle/ops/cross_entropy.hpp>

#include "harness/agreement.hpp"
#include "harness/golden.hpp"
#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

// The results of the kernels, forward and backward, without class weights and label smoothing, and what the GPU
// reports.
struct Losses {
  std::vector<float> loss, divisor, log_sum, gradient;
  std::string reported;
};
template <class L>
Losses losses(const Tensor<float>& logits, const std::vector<L>& labels, std::int64_t ignored = -100) {
  const Device device = logits.device();
  const auto y = Tensor<L>({static_cast<Index>(labels.size())}, labels).to(device);
  Tensor<float> loss({1}, device), divisor({1}, device), log_sum(y.shape(), device), gradient(logits.shape(), device);
  const View<const float, 1> weights{nullptr, {0}};
  const auto dy = ones<float>({1}, device);
  dispatch(logits, [&](auto tag) {
    const kernel::IdCheck check{"cross_entropy", "label", "none of the # classes", logits.dim(1), ignored};
    kernel::cross_entropy(tag, check, view<2>(logits), view<1>(y), ignored, weights, 0, false, view<1>(loss),
                          view<1>(divisor), view<1>(log_sum));
    kernel::cross_entropy_backward(tag, view<1>(dy), view<2>(logits), view<1>(y), ignored, weights, 0, false,
                                   view<1>(std::as_const(divisor)), view<1>(std::as_const(log_sum)), view<2>(gradient));
  });
  std::string reported;
  try {
    synchronize();
  } catch (const IndexError& error) {
    reported = error.what();
  }
  return {loss.host(), divisor.host(), log_sum.host(), gradient.host(), reported};
}

}  // namespace

TEST_CASE("cross_entropy: values and gradients are PyTorch's") {
  const auto run = [](const Case& c, const auto& x, auto label) {
    using L = decltype(label);
    using T = typename std::decay_t<decltype(x[0])>::Element;
    CrossEntropyOptions<T> options{.ignore_index = static_cast<std::int64_t>(c.option("ignore_index", -100)),
                                   .label_smoothing = c.option("label_smoothing", 0)};
    if (c.has("class_weights"))
      options.class_weights =
          Tensor<T>(c["class_weights"].shape, c["class_weights"].template as<T>()).to(x[0].device());
    return cross_entropy(x[0], Tensor<L>(c["labels"].shape, c["labels"].template as<L>()).to(x[0].device()), options);
  };
  expect_golden("cross_entropy", {"logits"}, [&](const Case& c, const auto& x) { return run(c, x, int{}); });
  expect_golden("cross_entropy", {"logits"}, [&](const Case& c, const auto& x) { return run(c, x, std::int64_t{}); });
}

TEST_CASE("cross_entropy: gradient matches finite differences") {
  for (const Index C : {1, 2, 33}) {
    const Tensor<int> labels({4}, {0, -1, static_cast<int>(C) - 1, 0});
    const Tensor<double> weights = random({C}, 2);
    Tensor<double> positive({C});
    for (Index c = 0; c < C; ++c) positive.data()[c] = std::abs(weights.data()[c]) + 0.1;
    expect_gradients(
        [&](const auto& in) { return cross_entropy(in[0], labels.to(in[0].device()), {.ignore_index = -1}); },
        {random({4, C}, 1)});
    expect_gradients(
        [&](const auto& in) {
          using A = typename std::decay_t<decltype(in[0])>::Element;
          const Device device = in[0].device();
          return cross_entropy(
              in[0], labels.to(device),
              {.ignore_index = -1, .class_weights = converted<A>(positive, device), .label_smoothing = 0.2});
        },
        {random({4, C}, 1)});
  }
}

TEST_CASE("cross_entropy: weights or smoothing alone, and an ignored label that is a class") {
  const auto check = [](Index C, double smoothing, std::int64_t ignored, bool has_weights) {
    CAPTURE(C, smoothing, ignored, has_weights);
    const Index N = 9;
    Tensor<std::int64_t> labels({N});
    for (Index n = 0; n < N; ++n) labels.data()[n] = n % 5 == 4 ? ignored : n == 0 ? 0 : n == 1 ? C - 1 : n * 7919 % C;
    Inputs in{random<float>({N, C}, 1)};
    if (has_weights) {
      in.push_back(random<bf16>({C}, 5));
      for (Index c = 0; c < C; ++c) in[1].data()[c] = std::abs(in[1].data()[c]) + 0.125;
      in[1] = rounded<bf16>(in[1]);
    }
    expect_agrees<float>(
        [&](const auto& x) {
          return cross_entropy(x[0], labels.to(x[0].device()),
                               {.ignore_index = ignored,
                                .class_weights = x.size() > 1 ? x[1] : std::decay_t<decltype(x[0])>(),
                                .label_smoothing = smoothing});
        },
        in, gpu_function_errors);
  };
  for (const Index C : {3, 40, 1032}) {
    check(C, 0.25, -100, false);
    check(C, 0, -100, true);
    check(C, 1, -100, false);
    check(C, 0, 2, false);
  }
}

TEST_CASE("cross_entropy: a label that is not a class is an error, and the GPU's kernels ignore its row") {
  const auto logits = converted<float>(random<float>({4, 5}, 1));
  CHECK_THROWS_WITH(cross_entropy(logits, Tensor<Index>({4}, {1, 5, -1, Index{1} << 32})),
                    "cross_entropy: label 5 at position 1 is none of the 5 classes");
  on_each_device<float>([&](Device device) {
    if (device == Device::cpu) return;  // on the CPU the labels are checked before the kernel runs
    const auto there = logits.to(device);
    const auto wrong = losses<std::int64_t>(there, {1, 5, -1, Index{1} << 32});
    const auto ignored = losses<int>(there, {1, -7, -7, -7}, -7);
    CHECK(wrong.reported == "cross_entropy: label 5 at position 1 is none of the 5 classes");
    CHECK(ignored.reported.empty());
    CHECK(wrong.loss == ignored.loss);
    CHECK(wrong.divisor == std::vector<float>{1});
    CHECK(wrong.gradient == ignored.gradient);
    for (std::size_t i = 5; i < 20; ++i) CHECK(wrong.gradient[i] == 0);
  });
}

TEST_CASE("cross_entropy: is NaN when all labels are ignored, with zeros for the gradient") {
  const auto check = []<class T>(T) {
    on_each_device<T>([](Device device) {
      const auto logits = variable(converted<T>(random<T>({3, 4}, 1), device));
      const auto loss = cross_entropy(logits, full<int>({3}, -100, device));
      CHECK(loss.shape() == Shape{});
      CHECK(std::isnan(loss.item()));
      backward(loss);
      CHECK(logits.grad().host() == std::vector<T>(12, 0));
      CHECK(std::isnan(cross_entropy(Tensor<T>({0, 4}, device), Tensor<int>({0}, device)).item()));
    });
  };
  check(double());
  check(float());
  on_each_device<float>([](Device device) {
    for (const Index C : {3, 1032}) {
      const auto all = losses<int>(converted<float>(random<float>({2, C}, 1), device), {-100, -100});
      CHECK(std::isnan(all.loss[0]));
      CHECK(all.divisor[0] == 0);
      CHECK(all.gradient == std::vector<float>(static_cast<std::size_t>(2 * C), 0.f));
    }
  });
}

TEST_CASE("cross_entropy: large logits, infinity and NaN") {
  const float inf = infinity<float>;
  const auto check = [&](Index C, Device device) {
    CAPTURE(C);
    const auto row = [&](std::vector<float> first) {
      first.resize(static_cast<std::size_t>(C), -1e30f);
      return Tensor<float>({1, C}, first).to(device);
    };
    const auto large = losses<int>(row({1e30f, 0, 1e30f}), {0});
    CHECK(large.log_sum[0] == Approx(std::log(2.0)));
    CHECK(large.loss[0] == Approx(std::log(2.0)));
    CHECK(large.gradient[0] == Approx(-0.5));
    CHECK(large.gradient[2] == Approx(0.5));
    const auto hidden = losses<int>(row({0, -inf}), {0});
    CHECK(hidden.loss[0] == 0);
    CHECK(hidden.gradient == std::vector<float>(static_cast<std::size_t>(C), 0));
    CHECK(losses<int>(row({0, -inf}), {1}).loss[0] == inf);
    for (const float bad : {inf, quiet_nan<float>}) {
      const auto broken = losses<int>(row({0, bad}), {0});
      CHECK(std::isnan(broken.loss[0]));
      for (const float g : broken.gradient) REQUIRE(std::isnan(g));
    }
  };
  on_each_device<float>([&](Device device) {
    for (const Index C : {4, 1032, 4097}) check(C, device);
    const auto x = Tensor<float>({2, 3}, {1e30f, 0, -1e30f, 90, 100, 95}).to(device);
    CHECK(cross_entropy(x, Tensor<int>({2}, {0, 1}).to(device)).item() ==
          Approx(std::log(1 + std::exp(-10.0) + std::exp(-5.0)) / 2));
  });
}

TEST_CASE("cross_entropy: does not depend on threads") {
  const auto wide = random({5000, 7}, 1);
  const Tensor<int> labels({5000}, std::vector<int>(5000, 3));
  const int before = threads();
  set_threads(1);
  const double loss = cross_entropy(wide, labels).item();
  set_threads(3);
  CHECK(cross_entropy(wide, labels).item() == loss);
  set_threads(before);
}

TEST_CASE("cross_entropy: the mean of many rows has the rounding error of one") {
  for (const Index N : {650, 100'000}) {
    const Tensor<float> logits = full<float>({N, 9}, 0.3f);
    CHECK(cross_entropy(logits, zeros<int>({N})).item() == Approx(std::log(9.0)).epsilon(2e-7));
    CHECK(cross_entropy(logits, zeros<int>({N}), {.class_weights = full<float>({9}, 1.7f)}).item() ==
          Approx(std::log(9.0)).epsilon(4e-7));
  }
}

TEST_CASE("cross_entropy: errors name value, position and limit") {
  for (const Shape& shape : {Shape{6}, Shape{2, 3}})
    CHECK_THROWS_WITH(cross_entropy(zeros<float>({3, 2, 5}), zeros<int>(shape)),
                      "cross_entropy: labels " + shape.str() +
                          " must have the shape of logits [3, 2, 5] without its last axis, the classes");
  const Tensor<float> logits({3, 4});
  on_each_device<float>([&](Device device) {
    const auto there = logits.to(device);
    for (const Device of_labels : {Device::cpu, device}) {
      const auto call = [&](std::vector<Index> labels) {
        cross_entropy(there, Tensor<Index>({3}, labels).to(of_labels));
        synchronize();
      };
      CHECK_THROWS_WITH((cross_entropy(there, Tensor<int>({3}, {0, 4, 1}).to(of_labels)), synchronize()),
                        "cross_entropy: label 4 at position 1 is none of the 4 classes");
      CHECK_THROWS_WITH(call({-100, 3, 4}), "cross_entropy: label 4 at position 2 is none of the 4 classes");
      CHECK_THROWS_WITH(call({-100, -99, 5}), "cross_entropy: label -99 at position 1 is none of the 4 classes");
      CHECK_THROWS_WITH(call({3, (Index{1} << 32) + 1, 0}),
                        "cross_entropy: label 4294967297 at position 1 is none of the 4 classes");
      CHECK_THROWS_AS(call({0, 1, -1}), IndexError);
      CHECK_NOTHROW(call({3, -100, 0}));
    }
    const auto even = zeros<float>({2, 2}, device);
    CHECK(cross_entropy(even, Tensor<int>({2}, {0, 1})).item() == Approx(std::log(2.0)));
  });
  CHECK_THROWS_WITH(cross_entropy(logits, Tensor<int>({2}, {0, 1})),
                    "cross_entropy: 'N' disagrees between logits and labels\n"
                    "  logits  [3, 4]    axis 0 is 3\n"
                    "  labels  [2]       axis 0 is 2");
  CHECK_THROWS_AS(cross_entropy(logits, Tensor<int>({3}, {0, 1, 1}), {.class_weights = Tensor<float>({3})}),
                  ShapeError);
  CHECK_THROWS_WITH(cross_entropy(logits, Tensor<int>({3}, {0, 1, 1}), {.label_smoothing = 2}),
                    "cross_entropy: label_smoothing must be in [0, 1], got 2");
}

TEST_CASE("cross_entropy: the losses of rows, and their sum") {
  const auto check = []<class T>(T) {
    on_each_device<T>([](Device device) {
      const auto logits = converted<T>(random<T>({33, 5}, 1), device);
      std::vector<int> labels(33, -100);
      for (std::size_t n = 0; n < 32; ++n) labels[n] = static_cast<int>(n % 5);
      const Tensor<int> y({33}, labels);
      const auto rows = cross_entropy(logits, y, {.reduction = Reduction::none});
      CHECK(rows.shape() == Shape{33});
      CHECK(static_cast<double>(rows.host()[32]) == 0);
      double sum = 0;
      for (const T loss : rows.host()) sum += static_cast<double>(loss);
      const double rounding = std::is_same_v<T, bf16> ? 0x1p-7 : 0x1p-20;
      CHECK(std::abs(static_cast<double>(cross_entropy(logits, y, {.reduction = Reduction::sum}).item()) - sum) <=
            rounding * sum);
      CHECK(std::abs(static_cast<double>(cross_entropy(logits, y).item()) - sum / 32) <= rounding * sum / 32);
      const auto batch =
          cross_entropy(reshape(logits, {3, 11, 5}), reshape(y, {3, 11}), {.reduction = Reduction::none});
      CHECK(batch.shape() == Shape{3, 11});
      const auto ignored = full<int>({33}, -100);
      CHECK(static_cast<double>(cross_entropy(logits, ignored, {.reduction = Reduction::sum}).item()) == 0);
    });
  };
  check(float());
  check(double());
  check(bf16());
  CHECK_THROWS_WITH(
      cross_entropy(zeros<float>({1, 2}), zeros<int>({1}), {.reduction = Reduction::batch_mean}),
      "cross_entropy: the reduction must be mean, sum or none, got batch_mean; mean averages over the rows");
}

TEST_CASE("cross_entropy: the gradients of the losses of rows match finite differences") {
  for (const Index C : {1, 2, 33}) {
    const Tensor<int> labels({4}, {0, -1, static_cast<int>(C) - 1, 0});
    expect_gradients(
        [&](const auto& in) {
          using T = typename std::decay_t<decltype(in[0])>::Element;
          const CrossEntropyOptions<T> options{.ignore_index = -1,
                                               .class_weights = full<T>({C}, 0.5, in[0].device()),
                                               .label_smoothing = 0.25,
                                               .reduction = Reduction::none};
          return cross_entropy(in[0], labels.to(in[0].device()), options);
        },
        {random({4, C}, 1)});
  }
}
