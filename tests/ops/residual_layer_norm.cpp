#include <heddle/core/create.hpp>
#include <heddle/ops/arithmetic.hpp>
#include <heddle/ops/cast.hpp>
#include <heddle/ops/residual_layer_norm.hpp>

#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

TEST_CASE("residual_layer_norm: is layer_norm(x + dropout(branch)), with the same draws") {
  for (const Index N : {0, 1, 31, 257})
    for (const Index D : {1, 33, 64, 128}) {
      CAPTURE(N, D);
      for (const double p : {0.0, 0.3}) {
        const auto x = random({N, D}, 1), branch = random({N, D}, 2), gamma = random({D}, 3), beta = random({D}, 4);
        Random fused(5), apart(5);
        const auto y = residual_layer_norm(x, branch, gamma, beta, 1e-5, p, &fused).host();
        const auto expected = layer_norm(x + dropout(branch, p, apart), gamma, beta, 1e-5).host();
        CHECK(fused.position() == apart.position());
        for (std::size_t i = 0; i < y.size(); ++i) REQUIRE(y[i] == Approx(expected[i]).epsilon(1e-10).margin(1e-10));
      }
    }
}

TEST_CASE("residual_layer_norm: gradient matches finite differences") {
  for (const Index D : {2, 33})
    for (const double p : {0.0, 0.4})
      expect_gradients(
          [p](const auto& in) {
            Random random(3);
            return residual_layer_norm(in[0], in[1], in[2], in[3], 1e-5, p, &random);
          },
          {random({5, D}, 1), random({5, D}, 2), random({D}, 3), random({D}, 4)}, 1e-5);
}

TEST_CASE("residual_layer_norm_with_sum: is the sum and residual_layer_norm, bit for bit") {
  for (const double p : {0.0, 0.3}) {
    const auto x = random({31, 33}, 1), branch = random({31, 33}, 2), gamma = random({33}, 3), beta = random({33}, 4);
    Random first(5), second(5), third(5);
    const auto both = residual_layer_norm_with_sum(x, branch, gamma, beta, 1e-5, p, &first);
    CHECK((both.norm.host() == residual_layer_norm(x, branch, gamma, beta, 1e-5, p, &second).host()));
    CHECK(first.position() == second.position());
    const auto sum = both.sum.host(), expected = (x + dropout(branch, p, third)).host();
    for (std::size_t i = 0; i < sum.size(); ++i) REQUIRE(sum[i] == Approx(expected[i]).epsilon(1e-12).margin(1e-12));
  }
}

TEST_CASE("residual_layer_norm_with_sum: gradients of the sum and of the norm match finite differences") {
  for (const double p : {0.0, 0.4}) {
    const auto run = [p](const auto& in) {
      Random random(3);
      return residual_layer_norm_with_sum(in[0], in[1], in[2], in[3], 1e-5, p, &random);
    };
    const Inputs at{random({5, 33}, 1), random({5, 33}, 2), random({33}, 3), random({33}, 4)};
    expect_gradients([&](const auto& in) { return run(in).norm; }, at, 1e-5);
    expect_gradients([&](const auto& in) { return run(in).sum; }, at, 1e-5);
    expect_gradients(
        [&](const auto& in) {
          const auto both = run(in);
          return both.sum * both.norm;
        },
        at, 1e-5);
  }
}

TEST_CASE("residual_layer_norm: bf16 rounds the sum once") {
  const auto x = cast<bf16>(random({3, 64}, 1)), branch = cast<bf16>(random({3, 64}, 2));
  const auto gamma = ones<bf16>({64}), beta = zeros<bf16>({64});
  const auto y = cast<float>(residual_layer_norm(x, branch, gamma, beta)).host();
  const auto sum = cast<float>(cast<bf16>(cast<float>(x) + cast<float>(branch)));
  const auto expected = layer_norm(sum, ones<float>({64}), zeros<float>({64})).host();
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(y[i] == Approx(expected[i]).epsilon(0.0041).margin(1e-6));
}

TEST_CASE("residual_layer_norm: threads change nothing") {
  const auto x = variable(cast<float>(random({700, 33}, 1))), branch = variable(cast<float>(random({700, 33}, 2)));
  const auto gamma = variable(ones<float>({33})), beta = variable(zeros<float>({33}));
  const auto dy = cast<float>(random({700, 33}, 3));
  const auto run = [&](int count) {
    set_threads(count);
    Random random(4);
    for (const auto* leaf : {&x, &branch, &gamma, &beta}) leaf->set_grad({});
    const auto y = residual_layer_norm(x, branch, gamma, beta, 1e-5, 0.1, &random);
    backward(y, dy);
    return std::tuple(y.host(), x.grad().host(), branch.grad().host(), gamma.grad().host(), beta.grad().host());
  };
  const int before = threads();
  const auto one = run(1);
  for (const int count : {2, 5}) CHECK((run(count) == one));
  set_threads(before);
}

TEST_CASE("residual_layer_norm: errors name what disagrees") {
  const Tensor<float> x({2, 3}), gamma({3});
  CHECK_THROWS_WITH(residual_layer_norm(x, Tensor<float>({2, 4}), gamma, gamma),
                    "residual_layer_norm: x [2, 3] and branch [2, 4] must have the same shape");
  CHECK_THROWS_WITH(residual_layer_norm(x, x, gamma, gamma, 1e-5, 1.5),
                    "residual_layer_norm: a dropout probability is in [0, 1), got 1.5");
  CHECK_THROWS_AS(residual_layer_norm(x, x, Tensor<float>({4}), gamma), ShapeError);
}
