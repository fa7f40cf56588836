// Operations that add their contribution to the gradient of their input, instead of returning it (Contribution in
// autograd/record.hpp).
#include <heddle/ops/arithmetic.hpp>
#include <heddle/ops/layer_norm.hpp>
#include <heddle/ops/linear_gelu.hpp>
#include <heddle/ops/reduce.hpp>
#include <heddle/ops/rms_norm.hpp>

#include "harness/agreement.hpp"
#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

// Calls check(name, f, inputs) for each such operation with x [N, D].
template <class F>
void for_each_operation(Index N, Index D, F&& check) {
  const auto x = random({N, D}, 1);
  check(
      "linear", [](const auto& in) { return linear(in[0], in[1], in[2]); },
      Inputs{x, random({5, D}, 2), random({5}, 3)});
  check(
      "linear_gelu", [](const auto& in) { return linear_gelu(in[0], in[1], in[2]); },
      Inputs{x, random({5, D}, 2), random({5}, 3)});
  check(
      "layer_norm", [](const auto& in) { return layer_norm(in[0], in[1], in[2]); },
      Inputs{x, random({D}, 2), random({D}, 3)});
  check(
      "rms_norm", [](const auto& in) { return rms_norm(in[0], in[1]); }, Inputs{x, random({D}, 2)});
}

// Returns x as the result of an operation whose backward calls see(dx).
template <class T, class See>
Tensor<T> watched(const Tensor<T>& x, See see) {
  return record("watched", x * 1, inputs(x), [=](const Tensor<T>& dx) {
    see(dx);
    return dx * 1;
  });
}
// Returns a scalar whose gradient for x is `dx`, the tensor itself.
template <class T>
Tensor<T> with_gradient(const Tensor<T>& x, const Tensor<T>& dx) {
  return record("with_gradient", zeros<T>({}, x.device()), inputs(x), [dx](const Tensor<T>&) { return dx; });
}

}  // namespace

TEST_CASE("contributions: a gradient matches finite differences if its tensor is also used elsewhere") {
  for (const auto& [N, D] : {std::pair<Index, Index>{0, 5}, {1, 1}, {3, 31}, {33, 3}})
    for_each_operation(N, D, [](const char* name, const auto& f, const Inputs& at) {
      INFO(name);
      const auto with_squares = [&](const auto& in) {
        auto inner = in;
        inner[0] = in[0] * 1;
        const auto y = f(inner);  // before the squares: the backward runs in the opposite order
        return y + sum(inner[0] * inner[0]);
      };
      expect_gradients(with_squares, at, 1e-5);
    });
}

TEMPLATE_TEST_CASE("contributions: the operation adds to the tensor that has the others", "", float, double, bf16) {
  on_each_device<TestType>([](Device device) {
    for_each_operation(3, 33, [&](const char* name, const auto& f, const Inputs& at) {
      INFO(name);
      std::vector<Tensor<TestType>> in;
      for (const auto& x : at) in.push_back(variable(converted<TestType>(x, device)));
      const Index N = at[0].dim(0), D = at[0].dim(1);
      Tensor<TestType> others = ones<TestType>({N, D}, device);
      const void *const expected = std::as_const(others).device_data(), *seen = nullptr;
      in[0] = watched(in[0], [&](const Tensor<TestType>& dx) { seen = dx.device_data(); });
      const auto y = sum(f(in));
      const auto loss = y + with_gradient(in[0], std::exchange(others, {}));
      backward(loss);
      CHECK(seen == expected);
    });
  });
}

TEST_CASE("contributions: a gradient that the caller holds is left unchanged") {
  on_each_device<float>([](Device device) {
    for_each_operation(3, 33, [&](const char* name, const auto& f, const Inputs& at) {
      INFO(name);
      const auto gradient = [&](const Tensor<float>& others) {
        std::vector<Tensor<float>> in;
        for (const auto& x : at) in.push_back(variable(converted<float>(x, device)));
        const auto x = in[0];
        in[0] = x * 1;
        const auto y = sum(f(in));
        backward(y + with_gradient(in[0], others));
        return x.grad().host();
      };
      const auto held = ones<float>({3, 33}, device);
      const auto kept = gradient(held);
      CHECK(held.host() == std::vector<float>(3 * 33, 1));
      CHECK(gradient(held) == kept);
      expect_close(joined(gradient(ones<float>({3, 33}, device))), joined(kept), [](double) { return 1e-5; });
    });
  });
}

TEST_CASE("contributions: grad() returns the whole gradient of an intermediate result") {
  on_each_device<float>([](Device device) {
    const auto x = variable(Tensor<float>({1, 2}, {1, 2}).to(device)),
               weight = Tensor<float>({1, 2}, {10, 20}).to(device);
    const auto h = x * 2;
    const auto y = linear(h, weight), z = linear(h, weight);
    const auto loss = sum(y) + sum(z) + sum(h * 3);
    const auto grads = grad(loss, {h, x});
    CHECK(grads[0].host() == std::vector<float>{23, 43});
    CHECK(grads[1].host() == std::vector<float>{46, 86});
    CHECK_FALSE(x.grad());
  });
}

TEST_CASE("contributions: a tensor may be two operands of the operation") {
  const auto x = variable(Tensor<double>({2, 2}, {1, 2, 3, 4}));
  const auto h = x * 1;
  const auto y = linear(h, h);
  backward(sum(y) + sum(h * h));  // the sum over i, j of h(i) . h(j), and the squares
  CHECK(x.grad().host() == std::vector<double>{2 * 4 + 2, 2 * 6 + 4, 2 * 4 + 6, 2 * 6 + 8});
}

TEST_CASE("contributions: a pass that fails beside a lent gradient leaves none behind") {
  const auto x = variable(Tensor<float>({1, 2}, {1, 2})), weight = variable(Tensor<float>({1, 2}, {10, 20}));
  const auto h = x * 1;
  auto values = Tensor<float>({1, 2}, {10, 20});
  const auto y = sum(linear(h, variable(values)));
  const auto loss = y + sum(h * 3);
  values.data()[0] = 7;
  CHECK_THROWS_WITH(backward(loss), ContainsSubstring("written in place since"));
  CHECK_FALSE(x.grad());
  backward(sum(linear(h, weight)), Tensor<float>(Shape{}, {1}));
  CHECK(x.grad().host() == std::vector<float>{10, 20});
}

TEST_CASE("contributions: a nested pass that fails does not take the outer pass's gradient") {
  const auto x = variable(Tensor<float>({1, 2}, {1, 2}));
  const auto h = x * 1;
  auto weight = Tensor<float>({2, 2}, {1, 1, 1, 1});
  const auto inner = sum(linear(h, variable(weight)));
  const auto outer = record("with_inner_pass", h * 1, inputs(h), [inner](const Tensor<float>& dy) {
    CHECK_THROWS_AS(backward(inner), Error);
    return dy * 1;
  });
  const auto y = sum(outer);
  const auto loss = y + sum(h * 10);
  weight.data()[0] = 5;
  backward(loss);
  CHECK(x.grad().host() == std::vector<float>{11, 11});
}
