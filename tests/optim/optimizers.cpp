#include <heddle/heddle.hpp>

#include "../golden/golden.hpp"
#include "../gradcheck.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

struct OneWeight {
  Parameter<double> x;
  static void visit(auto& self, auto&& f) { f("x", self.x); }
};

// Gives the optimizer the golden gradients one after another and compares the weight after each step.
template <class Make>
void follows(const std::string& op, Make make) {
  for (const auto& c : golden(op)) {
    INFO(op << ' ' << c.label);
    const Shape shape = c["x"].shape;
    OneWeight model{Parameter<double>(Tensor<double>(shape, c["x"].template as<double>()))};
    auto optimizer = make(model, c);
    const auto grads = c["grads"].template as<double>(), expected = c["y"].template as<double>();
    const Index steps = c["grads"].shape[0], size = shape.size();
    for (Index step = 0; step < steps; ++step) {
      model.x.value().set_grad(Tensor<double>(shape, {grads.begin() + step * size, grads.begin() + (step + 1) * size}));
      optimizer.step();
      const auto actual = model.x.value().host();
      for (Index i = 0; i < size; ++i) {
        CAPTURE(step, i);
        CHECK(actual[static_cast<std::size_t>(i)] ==
              Approx(expected[static_cast<std::size_t>(step * size + i)]).epsilon(1e-12).margin(1e-14));
      }
    }
  }
}

}  // namespace

TEST_CASE("optimizers: follow PyTorch's") {
  follows("sgd", [](OneWeight& m, const auto& c) {
    return optim::Sgd(
        m, {.lr = c.option("lr"), .momentum = c.option("momentum", 0), .weight_decay = c.option("weight_decay", 0)});
  });
  follows("adam", [](OneWeight& m, const auto& c) {
    return optim::Adam(m, {.lr = c.option("lr"),
                           .beta1 = c.option("beta1", 0.9),
                           .beta2 = c.option("beta2", 0.999),
                           .eps = c.option("eps", 1e-8),
                           .weight_decay = c.option("weight_decay", 0)});
  });
  follows("adamw", [](OneWeight& m, const auto& c) {
    return optim::AdamW(m, {.lr = c.option("lr"),
                            .beta1 = c.option("beta1", 0.9),
                            .beta2 = c.option("beta2", 0.999),
                            .eps = c.option("eps", 1e-8),
                            .weight_decay = c.option("weight_decay", 0)});
  });
}

TEST_CASE("schedules: follow transformers' and PyTorch's") {
  const auto follows_schedule = [](const std::string& op, auto make) {
    for (const auto& c : golden(op)) {
      const auto schedule = make(c);
      const auto rates = c["y"].template as<double>();
      for (std::size_t step = 0; step < rates.size(); ++step)
        CHECK(c.option("lr") * schedule(static_cast<std::int64_t>(step)) ==
              Approx(rates[step]).epsilon(1e-12).margin(1e-15));
    }
  };
  const auto whole = [](double x) { return static_cast<std::int64_t>(x); };
  follows_schedule("schedule_linear", [&](const auto& c) {
    return optim::Linear{whole(c.option("total")), whole(c.option("warmup"))};
  });
  follows_schedule("schedule_cosine", [&](const auto& c) {
    return optim::Cosine{whole(c.option("total")), whole(c.option("warmup"))};
  });
  follows_schedule("schedule_step", [&](const auto& c) {
    return optim::Step{c.option("gamma"), whole(c.option("every"))};
  });
  CHECK(optim::Constant{}(0) == 1);
  CHECK(optim::Constant{4}(1) == 0.25);
}

namespace {
std::string numbered(std::string role, std::size_t i) { return role += std::to_string(i); }

struct TwoWeights {
  Parameter<float> a{Tensor<float>({2}, {1, 2})}, b{Tensor<float>({1}, {3})};
  static void visit(auto& self, auto&& f) {
    f("a", self.a);
    f("b", self.b);
  }
  void set_grads(std::vector<float> da, std::vector<float> db) {
    a.value().set_grad(Tensor<float>({2}, da));
    b.value().set_grad(Tensor<float>({1}, db));
  }
};
}  // namespace

TEST_CASE("optimizers: groups have their own rate and decay, or are left alone") {
  TwoWeights model;
  optim::Sgd sgd(model, {.lr = 1}, {{.select = [](const std::string& name) { return name == "b"; }, .lr = 0.1}});
  model.set_grads({1, 1}, {1});
  sgd.step();
  CHECK(model.a.value().host() == std::vector<float>{0, 1});
  CHECK(model.b.value().item() == Approx(2.9f));

  TwoWeights frozen;
  optim::Sgd left(frozen, {.lr = 1}, {{.select = [](const std::string& name) { return name == "a"; }, .frozen = true}});
  frozen.set_grads({1, 1}, {1});
  left.step();
  CHECK(frozen.a.value().host() == std::vector<float>{1, 2});
  CHECK(frozen.b.value().item() == 2);
  CHECK_THROWS_WITH(optim::Sgd(frozen, {}, {{.select = [](const std::string&) { return false; }}}),
                    "Sgd: parameter group 0 selects no parameter");
}

TEST_CASE("optimizers: a gradient that is not finite names its parameter, and nothing is updated") {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    TwoWeights model;
    optim::AdamW adam(model);
    model.set_grads({1, 1}, {bad});
    CHECK_THROWS_WITH(adam.step(), "AdamW: the gradient of 'b' is not finite; nothing was updated");
    CHECK(model.a.value().host() == std::vector<float>{1, 2});
  }
}

TEST_CASE("optimizers: the step count is each parameter's own") {
  TwoWeights model;
  optim::Adam adam(model, {.lr = 1, .eps = 0});
  for (int step = 0; step < 3; ++step) {
    model.a.value().set_grad(Tensor<float>({2}, {1, 1}));
    adam.step();
  }
  model.b.value().set_grad(Tensor<float>({1}, {5}));
  adam.step();
  CHECK(model.b.value().item() == Approx(2));  // the first step of Adam is of size lr, whatever the gradient
}

TEST_CASE("clip_grad_norm: follows PyTorch's") {
  for (const auto& c : golden("clip_grad_norm")) {
    INFO(c.label);
    std::vector<OneWeight> model;
    for (std::size_t i = 0; c.has(numbered("grad", i)); ++i) {
      const auto& grad = c[numbered("grad", i)];
      model.push_back({Parameter<double>(zeros<double>(grad.shape))});
      model.back().x.value().set_grad(Tensor<double>(grad.shape, grad.template as<double>()));
    }
    CHECK(optim::clip_grad_norm(model, c.option("norm")) == Approx(c["total"].template as<double>()[0]).epsilon(1e-12));
    for (std::size_t i = 0; i < model.size(); ++i) {
      const auto expected = c[numbered("y", i)].template as<double>(), actual = model[i].x.grad().host();
      for (std::size_t k = 0; k < expected.size(); ++k) CHECK(actual[k] == Approx(expected[k]).epsilon(1e-12));
    }
  }
}
