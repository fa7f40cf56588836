#include <heddle/ops/losses.hpp>
#include <heddle/ops/softmax.hpp>

#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {
constexpr Reduction every_reduction[] = {Reduction::mean, Reduction::sum, Reduction::none, Reduction::batch_mean};
}

TEST_CASE("mse_loss, l1_loss: worked by hand") {
  on_each_device<float>([](Device device) {
    const auto x = Tensor<float>({2, 2}, {1, 2, 3, 4}).to(device), t = Tensor<float>({2, 2}, {1, 0, 0, 8}).to(device);
    CHECK(mse_loss(x, t).item() == 29.f / 4);
    CHECK(mse_loss(x, t, {.reduction = Reduction::sum}).item() == 29);
    CHECK(mse_loss(x, t, {.reduction = Reduction::none}).host() == std::vector<float>{0, 4, 9, 16});
    CHECK(l1_loss(x, t).item() == 9.f / 4);
    CHECK(l1_loss(x, t, {.reduction = Reduction::batch_mean}).item() == 9.f / 2);
  });
  CHECK(std::isnan(mse_loss(zeros<float>({0}), zeros<float>({0})).item()));
  CHECK_THROWS_WITH(mse_loss(zeros<float>({2, 1}), zeros<float>({2})),
                    "mse_loss: x [2, 1] and target [2] must have the same shape; expand or reshape one of them");
  CHECK_THROWS_AS(l1_loss(zeros<float>({}), zeros<float>({}), {.reduction = Reduction::batch_mean}), ShapeError);
}

TEST_CASE("bce_with_logits: large logits, weights") {
  on_each_device<float>([](Device device) {
    const auto x = Tensor<float>({4}, {-1000, 1000, 0, 1000}).to(device),
               t = Tensor<float>({4}, {0, 1, 1, 0}).to(device);
    const auto loss = bce_with_logits(x, t, {.reduction = Reduction::none}).host();
    CHECK(loss[0] == 0);
    CHECK(loss[1] == 0);
    CHECK(std::abs(loss[2] - std::log(2.f)) < 1e-6);
    CHECK(loss[3] == 1000);
    const auto weighted = bce_with_logits(x, t,
                                          {.weight = full<float>({}, 3, device),
                                           .pos_weight = full<float>({1}, 2, device),
                                           .reduction = Reduction::none});
    CHECK(std::abs(weighted.host()[2] - 6 * std::log(2.f)) < 1e-5);
    CHECK(weighted.host()[3] == 3000);
  });
  CHECK_THROWS_WITH(bce_with_logits(zeros<float>({2}), zeros<float>({2}), {.weight = zeros<float>({3, 1})}),
                    "bce_with_logits: weight [3, 1] does not broadcast to x [2]");
  CHECK_THROWS_WITH(bce_with_logits(zeros<float>({4, 3}), zeros<float>({4, 3}), {.pos_weight = zeros<float>({2})}),
                    ContainsSubstring("bce_with_logits: ") && ContainsSubstring("pos_weight  [2]"));
}

TEST_CASE("kl_div: a target of 0 contributes nothing") {
  on_each_device<float>([](Device device) {
    const auto x = Tensor<float>({1, 2}, {std::log(0.5f), std::log(0.5f)}).to(device);
    const auto t = variable(Tensor<float>({1, 2}, {0, 1}).to(device));
    const auto loss = kl_div(x, t, {.reduction = Reduction::batch_mean});
    CHECK(std::abs(loss.item() - std::log(2.f)) < 1e-6);
    backward(loss);
    CHECK(std::isfinite(t.grad().host()[0]));
  });
}

TEST_CASE("cosine_similarity, normalize: worked by hand, zeros too") {
  on_each_device<float>([](Device device) {
    const auto a = Tensor<float>({2, 2}, {3, 4, 0, 0}).to(device), b = Tensor<float>({1, 2}, {1, 0}).to(device);
    const auto y = cosine_similarity(a, b).host();
    CHECK(std::abs(y[0] - 0.6f) < 1e-6);
    CHECK(y[1] == 0);
    const auto x = variable(a);
    const auto n = normalize(x);
    CHECK(std::abs(n.host()[1] - 0.8f) < 1e-6);
    CHECK(n.host()[2] == 0);
    backward(sum(n));
    for (const float g : x.grad().host()) CHECK(std::isfinite(g));
  });
  CHECK(cosine_similarity(zeros<float>({3}), zeros<float>({2, 3}), -1).shape() == Shape{2});
  const Tensor<float> x = zeros<float>({4, 3});
  CHECK_THROWS_WITH(normalize(zeros<float>({3})), "normalize: axis 1 does not exist in shape [3]");
  CHECK_THROWS_WITH(normalize(x, {.p = -1}), "normalize: p must not be negative or NaN, got -1");
  CHECK_THROWS_WITH(normalize(x, {.eps = quiet_nan<double>}), "normalize: eps must not be NaN");
  CHECK_THROWS_WITH(cosine_similarity(x, x, 2), "cosine_similarity: axis 2 does not exist in shape [4, 3]");
  CHECK_THROWS_WITH(cosine_similarity(x, x, 1, quiet_nan<double>), "cosine_similarity: eps must not be NaN");
}

TEST_CASE("losses: gradients match finite differences, for odd and for empty shapes") {
  for (const Shape& s : {Shape{2, 3}, {1, 31}, {0, 4}}) {
    const Tensor<double> x = random(s, 1), t = random(s, 2), p = softmax(random(s, 3), 1);
    for (const Reduction reduction : every_reduction) {
      if (s.size() == 0 && reduction != Reduction::sum && reduction != Reduction::none) continue;
      expect_gradients(
          [=](const auto& in) {
            return mse_loss(in[0], in[1], {.reduction = reduction}) + l1_loss(in[0], in[1], {.reduction = reduction}) +
                   bce_with_logits(in[0], in[2], {.reduction = reduction}) +
                   kl_div(in[0], in[2], {.reduction = reduction});
          },
          {x, t, p}, 1e-6);
    }
    expect_gradients([](const auto& in) { return cosine_similarity(in[0], in[1]) + norm(normalize(in[1]), 3, 1); },
                     {x, t}, 1e-6);
  }
  expect_gradients(
      [](const auto& in) {
        return kl_div(in[0], in[1], {.log_target = true}) +
               bce_with_logits(in[0], in[1], {.weight = in[2], .pos_weight = in[3]});
      },
      {random({2, 3}, 1), random({2, 3}, 2), random({3}, 3), random({2, 1}, 4)}, 1e-6);
}
