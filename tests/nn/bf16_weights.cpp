// Weights of float with activations of bf16: the gradient of a weight is the sum in float, which is not rounded to
// bf16, and a step of an optimizer writes the weight and its cast.
#include <heddle/heddle.hpp>

#include "../harness/compare.hpp"
#include "../harness/devices.hpp"
#include "../harness/numbers.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

std::vector<Parameter<float>> parameters_of(const Inputs& values, Device device) {
  std::vector<Parameter<float>> parameters;
  for (const Tensor<double>& x : values) {
    parameters.emplace_back(converted<float>(x));
    parameters.back().identity()->move(device);
  }
  return parameters;
}
std::vector<Tensor<bf16>> casts_of(const std::vector<Parameter<float>>& parameters) {
  std::vector<Tensor<bf16>> casts;
  for (const auto& p : parameters) casts.push_back(p.as<bf16>());
  return casts;
}

// Checks the gradients of the weights of y = f(x, weights) for dy, on each device, against double. All operands are
// numbers of bf16. The bound is that of sums in float: rounding to bf16 errs by up to 0.002 of the result.
template <class F>
void expect_sums(F f, const Tensor<double>& x, const Inputs& weights, const Tensor<double>& dy) {
  Inputs variables;
  for (const Tensor<double>& w : weights) variables.push_back(variable(w));
  backward(f(x, variables), dy);
  on_each_device<float>([&](Device device) {
    const auto parameters = parameters_of(weights, device);
    backward(f(converted<bf16>(x, device), casts_of(parameters)), converted<bf16>(dy, device));
    for (std::size_t i = 0; i < weights.size(); ++i) {
      CAPTURE(i);
      expect_close(joined(parameters[i].grad().host()), variables[i].grad().host(),
                   [](double e) { return std::max(2e-5, 1e-5 * std::abs(e)); });
    }
  });
}

struct TrainedWeight {
  Parameter<float> weight;
  static void visit(auto& self, auto&& f) { f("weight", self.weight); }
};

std::vector<double> rounded_to_bf16(const Tensor<float>& x) { return joined(converted<bf16>(x).host()); }

}  // namespace

TEST_CASE("bf16 weights: the gradients of a linear map are sums in float") {
  for (const Index N : {0, 1, 31, 33, 257})
    for (const auto& [in, out] : {std::pair<Index, Index>{1, 1}, {31, 33}, {33, 31}, {64, 8}}) {
      CAPTURE(N, in, out);
      const auto x = random<bf16>({N, in}, 1), weight = random<bf16>({out, in}, 2), bias = random<bf16>({out}, 3),
                 dy = random<bf16>({N, out}, 4);
      expect_sums([](const auto& a, const auto& w) { return linear(a, w[0], w[1]); }, x, {weight, bias}, dy);
      expect_sums([](const auto& a, const auto& w) { return linear(a, w[0]); }, x, {weight}, dy);
    }
}

TEST_CASE("bf16 weights: the gradients of linear_gelu are sums in float") {
  // The derivative of GELU is 1 at 16, so that dy is not rounded again.
  const auto x = random<bf16>({257, 33}, 1), dy = random<bf16>({257, 31}, 2);
  expect_sums([](const auto& a, const auto& w) { return linear_gelu(a, w[0], w[1]); }, x,
              {zeros<double>({31, 33}), full<double>({31}, 16)}, dy);
}

TEST_CASE("bf16 weights: the gradients of norms are sums in float") {
  for (const Index N : {0, 1, 31, 33, 257})
    for (const Index D : {1, 31, 33, 64, 1032, 8200}) {
      if (N > 1 && D > 64 && !(N == 33 && is_exhaustive())) continue;
      CAPTURE(N, D);
      const auto x = random<bf16>({N, D}, 1), gamma = random<bf16>({D}, 2), beta = random<bf16>({D}, 3),
                 dy = random<bf16>({N, D}, 4);
      expect_sums([](const auto& a, const auto& w) { return layer_norm(a, w[0], w[1]); }, x, {gamma, beta}, dy);
      expect_sums([](const auto& a, const auto& w) { return rms_norm(a, w[0]); }, x, {gamma}, dy);
      expect_sums([](const auto& a, const auto& w) { return residual_layer_norm(a, a * 0, w[0], w[1]); }, x,
                  {gamma, beta}, dy);
    }
}

TEST_CASE("bf16 weights: a sum that bf16 cannot hold, from two uses and two backwards") {
  on_each_device<float>([](Device device) {
    const auto parameters = parameters_of({full<double>({1, 1}, 1)}, device);
    const Tensor<bf16> x = full<bf16>({257, 1}, 1, device);
    for (int pass = 1; pass <= 2; ++pass) {
      const auto w = parameters[0].as<bf16>();
      backward(linear(x, w) + linear(x, w), full<bf16>({257, 1}, 1, device));
      CHECK(parameters[0].grad().item() == static_cast<float>(pass * 2 * 257));
    }
  });
}

TEST_CASE("bf16 weights: the sums are the gradient, not a copy of it") {
  constexpr Index size = 1024, bytes = size * size * static_cast<Index>(sizeof(float));
  const auto parameters = parameters_of({full<double>({size, size}, 1)}, Device::cpu);
  const Tensor<bf16> x = full<bf16>({1, size}, 1), y = linear(x, parameters[0].as<bf16>());
  const auto stats = [] { return HostPool::instance().stats(); };
  const auto idle = static_cast<Index>(stats().peak - stats().in_use);
  const Tensor<char> filler({idle + 1});  // so that the peak grows with what is allocated below
  const std::size_t before = stats().peak;
  backward(y, x);
  CHECK(stats().peak - before < 2 * bytes);
}

TEST_CASE("bf16 weights: beside a variable of bf16, both gradients are rounded") {
  on_each_device<float>([](Device device) {
    const auto parameters = parameters_of({full<double>({1, 1}, 1)}, device);
    const Tensor<bf16> x = full<bf16>({257, 1}, 1, device), bias = variable(full<bf16>({1}, 0, device));
    backward(linear(x, parameters[0].as<bf16>(), bias), x);
    CHECK(parameters[0].grad().item() == 256);  // 257 is a tie
    CHECK(static_cast<float>(bias.grad().item()) == 256);
  });
}

TEST_CASE("bf16 weights: a frozen bias gets no gradient, the weight gets its sum") {
  on_each_device<float>([](Device device) {
    auto parameters = parameters_of({full<double>({1, 1}, 1), full<double>({1}, 1)}, device);
    parameters[1].freeze();
    const Tensor<bf16> x = full<bf16>({257, 1}, 1, device);
    backward(linear(x, parameters[0].as<bf16>(), parameters[1].as<bf16>()), x);
    CHECK(parameters[0].grad().item() == 257);
    CHECK_FALSE(parameters[1].grad());
  });
}

TEST_CASE("bf16 weights: norms with frozen and constant parameters") {
  on_each_device<float>([](Device device) {
    const auto expect = [&](auto norm) {
      const Tensor<bf16> x = variable(full<bf16>({257, 4}, 1, device)), dy = full<bf16>({257, 4}, 1, device);
      for (const int frozen : {0, 1, 2, 3}) {
        CAPTURE(frozen);
        auto p = parameters_of({full<double>({4}, 1), full<double>({4}, 0)}, device);
        if (frozen & 1) p[0].freeze();
        if (frozen & 2) p[1].freeze();
        backward(norm(x, p[0].as<bf16>(), p[1].as<bf16>()), dy);
        CHECK(static_cast<bool>(p[0].grad()) == !(frozen & 1));
        if (p[1].grad()) CHECK(p[1].grad().host() == std::vector<float>(4, 257));
        CHECK(x.grad().shape() == x.shape());
      }
      backward(norm(x, full<bf16>({4}, 1, device), full<bf16>({4}, 0, device)), dy);
    };
    expect([](const auto& x, const auto& gamma, const auto& beta) { return layer_norm(x, gamma, beta); });
    expect([](const auto& x, const auto& gamma, const auto&) { return rms_norm(x, gamma); });
    expect([](const auto& x, const auto& gamma, const auto& beta) { return residual_layer_norm(x, x, gamma, beta); });
    expect([](const auto& x, const auto& gamma, const auto& beta) {
      return residual_layer_norm_with_sum(x, x, gamma, beta).norm;
    });
  });
}

TEST_CASE("bf16 weights: a cast serves one backward, and a cast to integers none") {
  const Parameter<float> p(full<float>({3}, 1));
  const Tensor<bf16> w = p.as<bf16>(), x = full<bf16>({2, 3}, 1), dy = full<bf16>({2, 3}, 1);
  backward(x * w, dy);
  const char* const message =
      "backward: the graph through 'cast' was already used and freed by an earlier backward; compute the loss again to "
      "differentiate it again";
  CHECK_THROWS_WITH(backward(x * w, dy), message);
  CHECK_THROWS_WITH(backward(rms_norm(x, w), dy), message);
  backward(rms_norm(x, p.as<bf16>()), dy);
  CHECK_FALSE(p.as<int>().requires_grad());
}

TEST_CASE("bf16 weights: grad() for the cast gives bf16, for the parameter float, and accumulates nothing") {
  on_each_device<float>([](Device device) {
    const auto parameters = parameters_of({full<double>({1, 1}, 1)}, device);
    const Tensor<bf16> x = full<bf16>({257, 1}, 1, device), w = parameters[0].as<bf16>();
    CHECK(static_cast<float>(grad(sum(linear(x, w)), {w})[0].item()) == 256);
    const Tensor<float> loss = sum(cast<float>(linear(x, parameters[0].as<bf16>())));
    CHECK(grad(loss, {parameters[0].value()})[0].item() == 257);
    CHECK_FALSE(parameters[0].grad());
  });
}

TEST_CASE("bf16 weights: a weight of double gets the sum") {
  const Parameter<double> weight(full<double>({1, 1}, 1));
  const Tensor<bf16> x = full<bf16>({257, 1}, 1);
  backward(linear(x, weight.as<bf16>()), x);
  CHECK(weight.grad().item() == 257);
}

TEST_CASE("bf16 weights: a step of weights of double is seen by the next cast") {
  Random random(1);
  nn::Linear<double> model(2, 1, random);
  const auto check = [&](auto optimizer) {
    for (int step = 0; step < 3; ++step) {
      const Tensor<bf16> y = model(full<bf16>({4, 2}, 1));
      backward(mean(y * y));
      optimizer.step();
      CHECK(joined(model.weight.as<bf16>().host()) == joined(converted<bf16>(model.weight.value()).host()));
    }
  };
  check(optim::AdamW(model, {.lr = 0.1}));
  check(optim::Sgd(model, {.lr = 0.1}));
}

TEST_CASE("bf16 weights: a step writes the cast in the same memory") {
  for (const Index size : {0, 1, 31, 33, 257, 5000})
    on_each_device<float>([&](Device device) {
      CAPTURE(size);
      TrainedWeight model{Parameter<float>(converted<float>(random({size}, 1)))};
      to(model, device);
      const auto check = [&](auto optimizer) {
        const auto* const place = model.weight.as<bf16>().device_data();
        for (int step = 0; step < 2; ++step) {
          model.weight.value().set_grad(converted<float>(random({size}, 2), device));
          optimizer.step();
          const Tensor<bf16> cast = model.weight.as<bf16>();
          CHECK(cast.device_data() == place);
          CHECK(joined(cast.host()) == rounded_to_bf16(model.weight.value()));
        }
      };
      check(optim::AdamW(model, {.lr = 0.1}));
      check(optim::Sgd(model, {.lr = 0.1}));
    });
}

TEST_CASE("bf16 weights: a step leaves a cast that is held as it was, and the next cast is new") {
  on_each_device<float>([](Device device) {
    TrainedWeight model{Parameter<float>(full<float>({33}, 1))};
    to(model, device);
    optim::Sgd sgd(model, {.lr = 1});
    const Tensor<bf16> held = model.weight.as<bf16>();
    const Tensor<bf16> y = held * held;  // saves the cast for its backward
    model.weight.value().set_grad(full<float>({33}, 2, device));
    sgd.step();
    CHECK(joined(held.host()) == std::vector<double>(33, 1));
    CHECK(joined(model.weight.as<bf16>().host()) == std::vector<double>(33, -1));
    backward(y, full<bf16>({33}, 1, device));
    CHECK(model.weight.grad().host() == std::vector<float>(33, 2));
  });
}

TEST_CASE("bf16 weights: rows of a sparse gradient are written to the cast, too") {
  Random random(1);
  nn::Embedding<> table(33, 5, random);
  optim::AdamW adam(table, {.lr = 0.1});
  table.weight.as<bf16>();
  for (int step = 0; step < 3; ++step) {
    backward(sum(table(Tensor<int>({2}, {3 * step, 32}))));
    adam.step();
    CHECK(joined(table.weight.as<bf16>().host()) == rounded_to_bf16(table.weight.value()));
  }
}

TEST_CASE("bf16 weights: after other writes, and while another type is in use, the cast is computed again") {
  TrainedWeight model{Parameter<float>(full<float>({3}, 1))};
  optim::Sgd sgd(model, {.lr = 1});
  const auto step = [&] {
    model.weight.value().set_grad(full<float>({3}, 0.5f));
    sgd.step();
  };
  model.weight.as<bf16>();
  model.weight.assign(full<float>({3}, 3));
  step();
  CHECK(joined(model.weight.as<bf16>().host()) == std::vector<double>(3, 2.5));
  CHECK(model.weight.as<double>().host() == std::vector<double>(3, 2.5));
  step();
  CHECK(model.weight.as<double>().host() == std::vector<double>(3, 2));
  CHECK(joined(model.weight.as<bf16>().host()) == std::vector<double>(3, 2));
}
