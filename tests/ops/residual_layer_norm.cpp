#include <heddle/core/create.hpp>
#include <heddle/ops/arithmetic.hpp>
#include <heddle/ops/cast.hpp>
#include <heddle/ops/residual_layer_norm.hpp>

#include "harness/agreement.hpp"
#include "harness/golden.hpp"
#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

// The results of the forward on one device.
template <class T>
struct Normed {
  Tensor<T> sum, y;
  Tensor<Acc<T>> mean, rstd;

  Normed(Device device, kernel::ElementDropout drop, const Inputs& in)
      : sum(in[0].shape(), device),
        y(in[0].shape(), device),
        mean({in[0].dim(0)}, device),
        rstd({in[0].dim(0)}, device) {
    const Tensor<T> x = converted<T>(in[0], device), branch = converted<T>(in[1], device),
                    gamma = converted<T>(in[2], device), beta = converted<T>(in[3], device);
    dispatch(x, [&](auto tag) {
      kernel::residual_layer_norm(tag, drop, {}, view<2>(x), view<2>(branch), view<1>(gamma), view<1>(beta), 1e-5,
                                  view<2>(sum), view<2>(y), view<1>(mean), view<1>(rstd));
    });
  }
};

}  // namespace

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

TEMPLATE_TEST_CASE("residual_layer_norm and layer_norm: a dropout of the result has the bits of one that follows", "",
                   float, bf16) {
  using T = TestType;
  const auto check = [](Device device, Index N, Index D, double p) {
    CAPTURE(N, D, p);
    const auto operand = [&](Shape shape, int seed) {
      return variable(converted<T>(random<T>(shape, static_cast<std::uint64_t>(seed)), device));
    };
    // Returns the results and gradients of f, which takes the operands and a generator, and the generator's position.
    const auto evaluate = [&](auto f) {
      const Tensor<T> x = operand({N, D}, 1), branch = operand({N, D}, 2), gamma = operand({D}, 3),
                      beta = operand({D}, 4);
      Random random(5);
      const Tensor<T> y = f(x, branch, gamma, beta, &random);
      backward(y, converted<T>(heddle::testing::random<T>({N, D}, 6), device));
      std::vector<std::vector<double>> found{joined(y.host()), {static_cast<double>(random.position())}};
      for (const Tensor<T>& each : {x, branch, gamma, beta})
        found.push_back(each.grad() ? joined(each.grad().host()) : std::vector<double>());
      return found;
    };
    CHECK(evaluate([p](const auto& x, const auto& branch, const auto& gamma, const auto& beta, Random* random) {
            return residual_layer_norm(x, branch, gamma, beta, 1e-5, 0.2, random, p);
          }) == evaluate([p](const auto& x, const auto& branch, const auto& gamma, const auto& beta, Random* random) {
            return dropout(residual_layer_norm(x, branch, gamma, beta, 1e-5, 0.2, random), p, random);
          }));
    CHECK(evaluate([p](const auto& x, const auto&, const auto& gamma, const auto& beta, Random* random) {
            return layer_norm(x, gamma, beta, 1e-5, p, random);
          }) == evaluate([p](const auto& x, const auto&, const auto& gamma, const auto& beta, Random* random) {
            return dropout(layer_norm(x, gamma, beta, 1e-5), p, random);
          }));
  };
  on_each_device<T>([&](Device device) {
    for (const Index N : {0, 1, 31})
      for (const Index D : {0, 1, 33, 64, 257, 1032}) check(device, N, D, 0.3);
    check(device, 5, 64, 0);
    check(device, 2, is_exhaustive() ? 8200 : 2056, 0.3);
  });
}

TEST_CASE("residual_layer_norm and layer_norm: the probability of the result's dropout is checked") {
  const Tensor<double> x = heddle::testing::random({2, 3}, 1), gamma = heddle::testing::random({3}, 2);
  Random random(3);
  CHECK_THROWS_WITH(layer_norm(x, gamma, gamma, 1e-5, 1.5, &random),
                    "layer_norm: the dropout probability must be in [0, 1), got 1.5");
  CHECK_THROWS_WITH(residual_layer_norm(x, x, gamma, gamma, 1e-5, 0, &random, -0.5),
                    "residual_layer_norm: the dropout probability must be in [0, 1), got -0.5");
  CHECK(random.position() == 0);
}

TEST_CASE("layer_norm: the gradient with a dropout of the result matches finite differences") {
  expect_gradients(
      [](const auto& in) {
        Random random(3);
        return layer_norm(in[0], in[1], in[2], 1e-5, 0.4, &random);
      },
      {random({5, 33}, 1), random({33}, 2), random({33}, 3)}, 1e-5);
}

TEST_CASE("residual_layer_norm: values and gradients are PyTorch's") {
  expect_golden(
      "residual_layer_norm", {"x", "branch", "gamma", "beta"},
      [](const Case& c, const auto& in) { return residual_layer_norm(in[0], in[1], in[2], in[3], c.option("eps")); },
      32);
}

TEST_CASE("residual_layer_norm: gradient matches finite differences") {
  for (const Index D : {0, 2, 33})
    for (const double p : {0.0, 0.4})
      expect_gradients(
          [p](const auto& in) {
            Random random(3);
            return residual_layer_norm(in[0], in[1], in[2], in[3], 1e-5, p, &random);
          },
          {random({5, D}, 1), random({5, D}, 2), random({D}, 3), random({D}, 4)}, 1e-5);
}

TEST_CASE("residual_layer_norm_with_sum: gives the sum, and the bits of residual_layer_norm") {
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

TEMPLATE_TEST_CASE("residual_layer_norm: the sum is rounded once, and the stored sum is normalized", "", float, bf16) {
  // On a GPU, these widths cover the layouts: several rows per warp, a thread block per row, and rows that do not fit
  // in registers.
  for (const Index D : {64, 33, 1032, is_exhaustive() ? 8200 : 2056}) {
    CAPTURE(D);
    const Inputs in{random<TestType>({3, D}, 1), random<TestType>({3, D}, 2), random<TestType>({D}, 3),
                    random<TestType>({D}, 4)};
    const kernel::ElementDropout drop{kernel::DropoutRule("dropout", 0.3), {5, 2, 3}};
    const Normed<double> exact(Device::cpu, drop, in);
    const Normed<float> plain(Device::cpu, drop, in);
    on_each_device<TestType>([&](Device device) {
      const Normed<TestType> actual(device, drop, in);
      expect_close<TestType>(joined(actual.sum.host()), joined(exact.sum.host()), joined(plain.sum.host()));

      const Inputs stored{converted<double>(actual.sum), zeros<double>({3, D}), in[2], in[3]};
      const Normed<double> normed(Device::cpu, {}, stored);
      const Normed<float> plainly(Device::cpu, {}, stored);
      expect_close<TestType>(joined(actual.y.host()), joined(normed.y.host()), joined(plainly.y.host()),
                             gpu_function_errors);
      for (std::size_t n = 0; n < 3; ++n) {
        CHECK(actual.mean.host()[n] == Approx(normed.mean.host()[n]).margin(1e-6));
        CHECK(actual.rstd.host()[n] == Approx(normed.rstd.host()[n]).epsilon(1e-6));
      }
    });
  }
}

TEST_CASE("residual_layer_norm: infinity and NaN stay in their rows, dropped or not") {
  for (const Index D : {40, 33, 1032}) {
    CAPTURE(D);
    Inputs in{random<float>({6, D}, 1), random<float>({6, D}, 2), random<float>({D}, 3), random<float>({D}, 4)};
    for (const Index d : {0, 1, 2, 3}) {
      in[1].data()[d] = infinity<double>;
      in[1].data()[2 * D + d] = -infinity<double>;
    }
    in[0].data()[4 * D + 7] = quiet_nan<double>;
    for (const double p : {0.0, 0.5})
      expect_agrees<float>(
          [p](const auto& x) {
            Random random(3, 1);
            random.take(5);
            return residual_layer_norm(x[0], x[1], x[2], x[3], 1e-5, p, &random);
          },
          in, gpu_function_errors);
  }
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
                    "residual_layer_norm: the dropout probability must be in [0, 1), got 1.5");
  CHECK_THROWS_AS(residual_layer_norm(x, x, Tensor<float>({4}), gamma), ShapeError);
}
