#include <heddle/heddle.hpp>
#include <heddle/io/optimizer.hpp>

#include "../golden/golden.hpp"
#include "../harness/gradients.hpp"
#include "../harness/two_layers.hpp"
#include "../io/files.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

// A weight that is long enough to fill a vector register.
struct LongWeight {
  Parameter<float> w{ones<float>({33})};
  static void visit(auto& self, auto&& f) { f("w", self.w); }
};
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

TEST_CASE("optimizers: weights after each step are PyTorch's") {
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

TEST_CASE("schedules: learning rates are those of transformers and PyTorch") {
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

TEST_CASE("schedules: decays stay at 0 after their end, and settings outside of their range are errors") {
  for (const std::int64_t step : {10, 11, 25, 1000}) {
    CHECK(optim::Linear{.total = 10, .warmup = 3}(step) == 0);
    CHECK(optim::Cosine{.total = 10, .warmup = 3}(step) == 0);
  }
  CHECK(optim::Cosine{.total = 5, .warmup = 10}(8) == 0.8);  // a run that is shorter than its warm-up
  CHECK_THROWS_WITH(optim::Cosine{.total = 0}(0), "schedule: total must be at least 1, got 0");
  CHECK_THROWS_WITH(optim::Linear{.total = -1}(0), "schedule: total must be at least 1, got -1");
  CHECK_THROWS_WITH((optim::Cosine{.total = 10, .warmup = -5}(0)), "schedule: warmup must not be negative, got -5");
  CHECK_THROWS_WITH(optim::Linear{.total = 10}(-1), "schedule: the step must not be negative, got -1");
  CHECK_THROWS_WITH(optim::Constant{}(-1), "schedule: the step must not be negative, got -1");
  CHECK_THROWS_WITH(optim::Step{.every = 0}(0), "schedule: every must be at least 1, got 0");
  CHECK_THROWS_WITH(optim::Step{.gamma = -1}(0), "schedule: gamma must not be negative, got -1");
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
    a.value().set_grad(Tensor<float>({2}, da).to(a.value().device()));
    b.value().set_grad(Tensor<float>({1}, db).to(b.value().device()));
  }
};
}  // namespace

TEST_CASE("optimizers: groups have their own rate, or are frozen") {
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
                    "Sgd: parameter group 0 selects no parameter; summary(model) returns the names");
  const auto all = [](const std::string&) { return true; };
  CHECK_THROWS_WITH(
      optim::Sgd(frozen, {}, {{.select = all}, {.select = all}}),
      "Sgd: parameter group 1 selects only parameters of earlier groups; a parameter belongs to the first "
      "that selects it");
}

TEST_CASE("optimizers: the error for a gradient that is not finite names the parameter, and nothing is updated") {
  on_each_device<float>([](Device device) {
    for (const float bad : {quiet_nan<float>, infinity<float>, -infinity<float>}) {
      TwoWeights model;
      to(model, device);
      optim::AdamW adam(model);
      model.set_grads({1, 1}, {bad});
      CHECK_THROWS_WITH(
          (adam.step(), synchronize()),
          "AdamW: the gradient of 'b' is not finite; nothing was updated, and all gradients were cleared");
      CHECK(model.a.value().host() == std::vector<float>{1, 2});
    }
    Random random(1);
    nn::Linear<float> layer(2, 2, random);
    to(layer, device);
    optim::Adam adam(layer);
    const auto before = layer.weight.value().host();
    backward(sum(layer(Tensor<float>({1, 2}, {1e38f, 1}).to(device)) * 1e38f));
    CHECK_THROWS_WITH((adam.step(), synchronize()), ContainsSubstring("is not finite; nothing was updated"));
    CHECK(layer.weight.value().host() == before);
  });
}

namespace {

struct TwoMatrices {
  Parameter<float> a{converted<float>(random<float>({3, 7}, 1))}, b{converted<float>(random<float>({5}, 2))};
  static void visit(auto& self, auto&& f) {
    f("a", self.a);
    f("b", self.b);
  }
};

// Returns the gradient norms before some steps, and the weights after them. The gradients are the same on every device.
template <class Make>
std::vector<double> after_steps(Device device, Make make) {
  const auto gradient = [&](Shape shape, std::uint64_t seed) {
    return converted<float>(heddle::testing::random<float>(shape, seed), device);
  };
  TwoMatrices model;
  to(model, device);
  auto optimizer = make(model);
  std::vector<double> all;
  for (std::uint64_t step = 0; step < 3; ++step) {
    model.a.value().set_grad(gradient({3, 7}, 10 + step));
    if (step != 1) model.b.value().set_grad(gradient({5}, 20 + step));
    all.push_back(optim::clip_grad_norm(model, 2));
    optimizer.step();
  }
  const auto weights = joined(model.a.value().host(), model.b.value().host());
  all.insert(all.end(), weights.begin(), weights.end());
  return all;
}

// Returns the losses of some steps, and a weight of the model after it came back to the CPU.
template <class Make>
std::vector<double> after_training(Device device, Make make) {
  Random random(3);
  TwoLayers model(random);
  auto optimizer = make(model);  // made before the move
  to(model, device);
  const auto x = randn<float>({12, 8}, random).to(device);
  const auto labels = Tensor<int>({12}, {0, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0, 1}).to(device);
  std::vector<double> all;
  for (int step = 0; step < 6; ++step) {
    const auto loss = cross_entropy(model(x), labels);
    all.push_back(loss.item());
    backward(loss);
    optimizer.step({.max_norm = 0.5});
  }
  to(model, Device::cpu);
  all.push_back(model.a.weight.value().data()[5]);
  return all;
}

template <class Run>
void expect_same_on_each_device(Run run) {
  const std::vector<double> expected = run(Device::cpu);
  on_each_device<float>([&](Device device) {
    if (device == Device::cpu) return;
    const std::vector<double> actual = run(device);
    expect_close(actual, expected, [](double e) { return std::max(1e-6, 1e-5 * std::abs(e)); });
  });
}

}  // namespace

#ifdef HEDDLE_CUDA  // with one device there is nothing to compare
TEST_CASE("optimizers: steps are the same on every device") {
  const auto check = [](auto make) {
    expect_same_on_each_device([&](Device device) { return after_steps(device, make); });
  };
  check([](auto& m) { return optim::Adam(m, {.lr = 0.1, .weight_decay = 0.1}); });
  check([](auto& m) { return optim::AdamW(m, {.lr = 0.1}); });
  check([](auto& m) { return optim::Sgd(m, {.lr = 0.1}); });
  check([](auto& m) { return optim::Sgd(m, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1}); });
}

TEST_CASE("optimizers: a model moves to a device, trains as on the CPU, and comes back") {
  const auto check = [](auto make) {
    expect_same_on_each_device([&](Device device) { return after_training(device, make); });
  };
  check([](auto& m) { return optim::Adam(m, {.lr = 0.01}); });
  check([](auto& m) { return optim::AdamW(m, {.lr = 0.01, .weight_decay = 0.1}); });
  check([](auto& m) { return optim::Sgd(m, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01}); });
}

#endif

TEST_CASE("optimizers: Adam leaves a weight as it is if its mean of squares overflows") {
  on_each_device<float>([](Device device) {
    LongWeight model;
    to(model, device);
    optim::Adam adam(model, {.lr = 0.1});
    model.w.value().set_grad(full<float>({33}, 1e22, device));
    adam.step();
    CHECK(model.w.value().host() == std::vector<float>(33, 1));
  });
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
  CHECK(model.b.value().item() == Approx(2));  // the first step of Adam has the size lr, for any gradient
}

TEST_CASE("clip_grad_norm: norms and clipped gradients are PyTorch's") {
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

namespace {

struct Table {
  Parameter<float> weight;
  explicit Table(const Tensor<float>& initial) : weight(initial) {}
  static void visit(auto& self, auto&& f) { f("weight", self.weight); }
};

// Trains two equal tables with the same ids, one with a sparse gradient and one whose gradient is made dense, and
// compares them. The weights may differ by rounding, because compilers fuse the operations on vectors and on single
// elements differently.
template <class Optimizer, class Options>
void rows_are_as_dense(const Options& options) {
  Random random(3);
  const Tensor<float> initial = randn<float>({40, 5}, random);
  Table sparse(detail::deep_copy(initial)), dense(detail::deep_copy(initial));
  Optimizer by_rows(sparse, options), by_all(dense, options);
  const TemporaryFolder folder;
  for (int step = 0; step < 12; ++step) {
    Tensor<int> ids({6});
    for (Index i = 0; i < 6; ++i) ids.data()[i] = static_cast<int>(random.next() % 25) + step;
    const Tensor<float> dy = randn<float>({6, 5}, random);
    for (Table* table : {&sparse, &dense}) backward(embed(ids, table->weight.value()), dy);
    CHECK(detail::sparse_grad(sparse.weight.value()).rows);
    CHECK(dense.weight.grad().shape() == Shape{40, 5});
    CHECK_FALSE(detail::sparse_grad(dense.weight.value()).rows);
    if (step % 5 == 3)
      CHECK(sparse.weight.grad().host() ==
            dense.weight.grad().host());  // grad() makes the gradient dense: two of the steps are dense
    by_rows.step();
    by_all.step();
    const auto actual = sparse.weight.value().host(), expected = dense.weight.value().host();
    for (std::size_t i = 0; i < actual.size(); ++i) {
      CAPTURE(step, i);
      CHECK(actual[i] == Approx(expected[i]).epsilon(1e-5).margin(1e-6));
    }
    if (step == 6) {
      io::save_optimizer(by_rows.state(), folder / "state");
      io::load_optimizer(by_rows.state(), folder / "state");
    }
  }
}

}  // namespace

TEST_CASE("optimizers: a sparse gradient gives the same update as the dense one") {
  for (const double decay : {0.0, 0.1}) {
    rows_are_as_dense<optim::Adam>(optim::AdamOptions{.lr = 0.1, .weight_decay = decay});
    rows_are_as_dense<optim::AdamW>(optim::AdamWOptions{.lr = 0.1, .weight_decay = decay});
    for (const double momentum : {0.0, 0.9})
      rows_are_as_dense<optim::Sgd>(optim::SgdOptions{.lr = 0.1, .momentum = momentum, .weight_decay = decay});
  }
}

TEST_CASE("clip_grad_norm: scales a sparse gradient without making it dense") {
  Table table(zeros<float>({1000, 2}));
  backward(embed(Tensor<int>({3}, {7, 2, 7}), table.weight.value()), Tensor<float>({3, 2}, {3, 0, 0, 4, 0, 0}));
  CHECK(optim::clip_grad_norm(table, 0.5) == Approx(5));
  const RowGradient<float> clipped = detail::sparse_grad(table.weight.value());
  CHECK(clipped.rows.host() == std::vector<Index>{2, 7});
  CHECK(clipped.values.host()[1] == Approx(0.4f));
  CHECK(clipped.values.host()[2] == Approx(0.3f));
}

TEST_CASE("optimizers: a row of a sparse gradient that is not finite is an error") {
  Table table(zeros<float>({50, 1}));
  optim::Adam adam(table);
  backward(embed(Tensor<int>({2}, {49, 0}), table.weight.value()),
           Tensor<float>({2, 1}, {std::numeric_limits<float>::infinity(), 1}));
  CHECK_THROWS_WITH(
      adam.step(), "Adam: the gradient of 'weight' is not finite; nothing was updated, and all gradients were cleared");
}

namespace {

// Trains for four steps, with or without a step in between whose gradient is not finite, and returns the weights and
// the optimizer's state. On a GPU, the steps after the bad one are enqueued before the host learns of it: they are
// skipped.
template <class Make>
std::vector<double> trained_past_a_bad_step(Device device, bool is_bad, Make make) {
  TwoWeights model;
  to(model, device);
  auto optimizer = make(model);
  const auto step = [&](float of_b) {
    model.set_grads({0.5f, -2}, {of_b});
    optimizer.step({.max_norm = 1});
  };
  step(1);
  step(2);
  if (is_bad) {
    CHECK_THROWS_AS((step(quiet_nan<float>), synchronize()), Error);
    CHECK(!model.a.grad());
    if (device == Device::cuda) {
      step(infinity<float>);
      step(1);
      step(quiet_nan<float>);
      CHECK_THROWS_WITH(synchronize(),
                        ContainsSubstring("the gradient of 'b' is not finite; nothing was updated, and all "
                                          "gradients were cleared; 2 later steps were skipped, too"));
    }
  }
  step(3);
  step(4);
  std::vector<double> all = joined(model.a.value().host(), model.b.value().host());
  optimizer.state().each([&](const auto& slot) {
    all.push_back(static_cast<double>(slot.steps));
    for (const auto& moment : slot.moments)
      if (moment) all.push_back(static_cast<double>(moment.host()[0]));
  });
  return all;
}

}  // namespace

TEST_CASE("optimizers: a step with a gradient that is not finite leaves no trace") {
  const auto check = [](auto make) {
    on_each_device<float>([&](Device device) {
      CHECK(trained_past_a_bad_step(device, true, make) == trained_past_a_bad_step(device, false, make));
    });
  };
  check([](auto& m) { return optim::Adam(m, {.lr = 0.1, .weight_decay = 0.1}); });
  check([](auto& m) { return optim::AdamW(m, {.lr = 0.1}); });
  check([](auto& m) { return optim::Sgd(m, {.lr = 0.1}); });
  check([](auto& m) { return optim::Sgd(m, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1}); });
}

TEST_CASE("optimizers: max_norm scales gradients as clip_grad_norm does") {
  on_each_device<float>([](Device device) {
    for (const double norm : {0.1, 1.0, 100.0, std::numeric_limits<double>::infinity()}) {
      TwoWeights model, expected;
      to(model, device);
      optim::Sgd sgd(model, {.lr = 1}), reference(expected, {.lr = 1});
      for (int step = 0; step < 2; ++step) {
        model.set_grads({3, -4}, {12});
        expected.set_grads({3, -4}, {12});
        sgd.step({.max_norm = norm});
        optim::clip_grad_norm(expected, norm);
        reference.step();
      }
      for (std::size_t i : {0u, 1u}) CHECK(model.a.value().host()[i] == Approx(expected.a.value().host()[i]));
      CHECK(model.b.value().item() == Approx(expected.b.value().item()));
    }
  });
  Table table(zeros<float>({1000, 2}));
  optim::Sgd sgd(table, {.lr = 1});
  backward(embed(Tensor<int>({3}, {7, 2, 7}), table.weight.value()), Tensor<float>({3, 2}, {3, 0, 0, 4, 0, 0}));
  sgd.step({.max_norm = 0.5});
  CHECK(table.weight.value()(2, 1) == Approx(-0.4f));
  CHECK(table.weight.value()(7, 0) == Approx(-0.3f));
  OneWeight of_doubles{Parameter<double>(zeros<double>({2}))};
  optim::Sgd exact(of_doubles, {.lr = 1});
  of_doubles.x.value().set_grad(Tensor<double>({2}, {1e200, 0}));  // its square overflows
  exact.step({.max_norm = 1});
  CHECK(of_doubles.x.value().host() == std::vector<double>{0, 0});
}

TEST_CASE("optimizers: settings of a step that are out of range are errors") {
  TwoWeights model;
  optim::Sgd sgd(model);
  for (const double norm : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    model.set_grads({1, 1}, {1});
    CHECK_THROWS_WITH(sgd.step({.max_norm = norm}), ContainsSubstring("Sgd: max_norm must be positive, got "));
  }
  CHECK_THROWS_WITH(sgd.step({.factor = -1}),
                    "Sgd: the factor on the learning rate must be finite and not negative, got -1");
  CHECK(model.a.value().host() == std::vector<float>{1, 2});
  CHECK(model.a.grad());
}

TEST_CASE("optimizers: state that is saved counts only steps that were done") {
  on_each_device<float>([](Device device) {
    const TemporaryFolder folder;
    TwoWeights model;
    to(model, device);
    optim::Sgd sgd(model);  // without momentum, so that nothing but the counts is saved
    model.set_grads({1, 1}, {1});
    sgd.step();
    model.set_grads({1, 1}, {infinity<float>});
    CHECK_THROWS_AS((sgd.step(), io::save_optimizer(sgd.state(), folder / "bad")), Error);
    CHECK_FALSE(std::filesystem::exists(folder / "bad"));
    io::save_optimizer(sgd.state(), folder / "good");
    const io::Safetensors file = io::read_safetensors(folder / "good");
    std::int64_t steps = 0;
    file.read(file["steps.a"], &steps);
    CHECK(steps == 1);
  });
}

#ifdef HEDDLE_CUDA
TEST_CASE("optimizers: a model on two devices is updated together, or not at all") {
  for (const double norm : {1.0, std::numeric_limits<double>::infinity()}) {
    TwoWeights model, expected;
    model.b.identity()->move(Device::cuda);
    optim::Sgd sgd(model, {.lr = 1}), reference(expected, {.lr = 1});
    const auto set = [&](TwoWeights& of, float da, float db) {
      of.a.value().set_grad(Tensor<float>({2}, {da, -4}));
      of.b.value().set_grad(Tensor<float>({1}, {db}).to(of.b.value().device()));
    };
    set(model, quiet_nan<float>, 1);
    CHECK_THROWS_WITH(sgd.step({.max_norm = norm}), ContainsSubstring("the gradient of 'a' is not finite"));
    set(model, 1, quiet_nan<float>);
    CHECK_THROWS_WITH(sgd.step({.max_norm = norm}), ContainsSubstring("the gradient of 'b' is not finite"));
    CHECK(model.a.value().host() == std::vector<float>{1, 2});
    CHECK(model.b.value().item() == 3);
    set(model, 3, 12);
    set(expected, 3, 12);
    sgd.step({.max_norm = norm});
    reference.step({.max_norm = norm});
    CHECK(model.a.value().host() == expected.a.value().host());
    CHECK(model.b.value().item() == Approx(expected.b.value().item()));
  }
}

TEST_CASE("optimizers: a step that fails on the GPU stops those of other optimizers on its stream") {
  TwoWeights first, second;
  to(first, Device::cuda);
  to(second, Device::cuda);
  optim::Adam adam(first);
  optim::Sgd sgd(second, {.lr = 1});
  first.set_grads({1, 1}, {quiet_nan<float>});
  second.set_grads({1, 1}, {1});
  adam.step();
  sgd.step();
  CHECK_THROWS_WITH(
      cuda::synchronize(),
      "Adam: the gradient of 'b' is not finite; nothing was updated, and all gradients were cleared; 1 later "
      "step was skipped, too");
  CHECK(second.a.value().host() == std::vector<float>{1, 2});
  sgd.state().each([](const auto& slot) { CHECK(slot.steps == 0); });
  second.set_grads({1, 1}, {1});
  sgd.step();
  CHECK(second.a.value().host() == std::vector<float>{0, 1});
  sgd.state().each([](const auto& slot) { CHECK(slot.steps == 1); });
}
#endif

TEST_CASE("optimizers: a step without any gradient is an error unless it is allowed") {
  TwoWeights model, other;
  optim::Sgd sgd(model);
  const char* const message =
      "Sgd: no trainable parameter has a gradient; call backward first, and make the optimizer for the model "
      "that is trained";
  CHECK_THROWS_WITH(sgd.step(), message);
  other.set_grads({1, 1}, {1});
  CHECK_THROWS_WITH(sgd.step(), message);
  sgd.step(1, optim::Gradients::optional);
  model = std::move(other);  // the optimizer still holds the old weights
  CHECK_THROWS_WITH(sgd.step(), message);
}

TEST_CASE("optimizers: a step of frozen parameters alone is an error that says so") {
  const char* const message = "Sgd: all parameters are frozen, by freeze() or by their group";
  TwoWeights model;
  optim::Sgd group(model, {}, {{.select = [](const std::string&) { return true; }, .frozen = true}});
  model.set_grads({1, 1}, {1});
  CHECK_THROWS_WITH(group.step(), message);
  optim::Sgd sgd(model);
  each_parameter(model, [](const Name&, auto& p) { p.freeze(); });
  CHECK_THROWS_WITH(sgd.step(), message);
  sgd.step(1, optim::Gradients::optional);
}

TEST_CASE("optimizers: an option outside its range is refused where it is given, with its name and range") {
  TwoWeights model;
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  for (const double lr : {nan, inf, -1e-3}) {
    CHECK_THROWS_WITH(optim::Sgd(model, {.lr = lr}),
                      ContainsSubstring("Sgd: lr must be finite and not negative, got "));
    CHECK_THROWS_WITH(optim::Adam(model, {.lr = lr}), ContainsSubstring("Adam: lr must be"));
    CHECK_THROWS_WITH(optim::AdamW(model, {}, {{.select = [](const std::string&) { return true; }, .lr = lr}}),
                      ContainsSubstring("AdamW: lr of parameter group 0 must be finite and not negative, got "));
  }
  for (const double bad : {1., 2., -0.1, nan}) {
    CHECK_THROWS_WITH(optim::Sgd(model, {.momentum = bad}), ContainsSubstring("Sgd: momentum must be in [0, 1), got "));
    CHECK_THROWS_WITH(optim::Adam(model, {.beta1 = bad}), ContainsSubstring("Adam: beta1 must be in [0, 1), got "));
    CHECK_THROWS_WITH(optim::AdamW(model, {.beta2 = bad}), ContainsSubstring("AdamW: beta2 must be in [0, 1), got "));
  }
  for (const double bad : {-1., nan, inf}) {
    CHECK_THROWS_WITH(optim::Adam(model, {.eps = bad}), ContainsSubstring("Adam: eps must be finite and not negative"));
    CHECK_THROWS_WITH(optim::AdamW(model, {.weight_decay = bad}), ContainsSubstring("AdamW: weight_decay must be"));
    CHECK_THROWS_WITH(optim::Sgd(model, {}, {{.select = [](const std::string&) { return true; }, .weight_decay = bad}}),
                      ContainsSubstring("Sgd: weight_decay of parameter group 0 must be"));
  }
  optim::Sgd sgd(model);
  model.set_grads({1, 1}, {1});
  CHECK_THROWS_WITH(sgd.step(nan), ContainsSubstring("Sgd: the factor on the learning rate must be"));
  sgd.options.lr = -1;
  CHECK_THROWS_WITH(sgd.step(), "Sgd: lr must be finite and not negative, got -1");
  CHECK_THROWS_WITH(optim::Sgd(model, {}, {{.lr = 0.1}}),
                    "Sgd: select of parameter group 0 is not set; give a function of the parameter's name");
}
