#include <heddle/ops/cross_entropy.hpp>

#include "harness/golden.hpp"
#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

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
        [&](const Inputs& in) {
          return cross_entropy(in[0], labels, {.ignore_index = -1, .class_weights = positive, .label_smoothing = 0.2});
        },
        {random({4, C}, 1)});
  }
}

TEST_CASE("cross_entropy: is NaN when all labels are ignored, with zeros for the gradient") {
  const auto logits = variable(random({3, 4}, 1));
  const auto loss = cross_entropy(logits, Tensor<int>({3}, {-100, -100, -100}));
  CHECK(loss.shape() == Shape{});
  CHECK(std::isnan(loss.item()));
  backward(loss);
  CHECK(logits.grad().host() == std::vector<double>(12, 0.0));
  CHECK(std::isnan(cross_entropy(Tensor<float>({0, 4}), Tensor<int>({0})).item()));
}

TEST_CASE("cross_entropy: stays exact for large logits, and does not depend on threads") {
  const Tensor<float> x({2, 3}, {1e30f, 0, -1e30f, 90, 100, 95});
  CHECK(cross_entropy(x, Tensor<int>({2}, {0, 1})).item() ==
        Approx(std::log(1 + std::exp(-10.0) + std::exp(-5.0)) / 2));
  const auto wide = random({5000, 7}, 1);
  const Tensor<int> labels({5000}, std::vector<int>(5000, 3));
  const int before = threads();
  set_threads(1);
  const double loss = cross_entropy(wide, labels).item();
  set_threads(3);
  CHECK(cross_entropy(wide, labels).item() == loss);
  set_threads(before);
}

TEST_CASE("cross_entropy: errors name value, position and limit") {
  const Tensor<float> logits({3, 4});
  CHECK_THROWS_WITH(cross_entropy(logits, Tensor<int>({3}, {0, 4, 1})),
                    "cross_entropy: label 4 at position 1 is none of the 4 classes");
  CHECK_THROWS_AS(cross_entropy(logits, Tensor<Index>({3}, {0, 1, -1})), IndexError);
  CHECK_THROWS_WITH(cross_entropy(logits, Tensor<int>({2}, {0, 1})),
                    "cross_entropy: 'N' disagrees between logits and labels\n"
                    "  logits  [3, 4]    axis 0 is 3\n"
                    "  labels  [2]       axis 0 is 2");
  CHECK_THROWS_AS(cross_entropy(logits, Tensor<int>({3}, {0, 1, 1}), {.class_weights = Tensor<float>({3})}),
                  ShapeError);
  CHECK_THROWS_WITH(cross_entropy(logits, Tensor<int>({3}, {0, 1, 1}), {.label_smoothing = 2}),
                    "cross_entropy: label_smoothing is in [0, 1], got 2");
}
