// A rule that a user writes (docs/extending.md has the same), and rules that the concept UpdateRule refuses.
#include <heddle/heddle.hpp>

#include "../catch.hpp"
#include "../harness/devices.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

struct LionOptions {
  static constexpr const char* optimizer = "Lion";
  double lr = 1e-4, beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
};

template <class T>
struct LionRule {
  using Element = T;
  static constexpr std::array moments{optim::Moment{.name = "first"}};
  T lr, beta1, beta2, decay_factor;

  LionRule(const LionOptions& options, const optim::UpdateSettings& settings)
      : lr(T(settings.lr)),
        beta1(T(options.beta1)),
        beta2(T(options.beta2)),
        decay_factor(T(1 - settings.lr * settings.weight_decay)) {}
  bool needs_moments() const { return true; }
  bool keeps_stateless_rows() const { return decay_factor == 1; }
  template <class V>
  void operator()(V& p, V g, V* m) const {
    using kernel::select;
    const V c = beta1 * *m + (1 - beta1) * g;
    p = decay_factor * p - lr * select(c > V(0), V(1), select(c < V(0), V(-1), V(0)));
    *m = beta2 * *m + (1 - beta2) * g;
  }
};
using Lion = optim::Optimizer<LionOptions, LionRule>;

// Moves each weight by the sign of its gradient, without state.
template <class T>
struct SignRule {
  using Element = T;
  static constexpr std::array<optim::Moment, 0> moments{};
  T lr;

  SignRule(const LionOptions&, const optim::UpdateSettings& settings) : lr(T(settings.lr)) {}
  bool needs_moments() const { return false; }
  bool keeps_stateless_rows() const { return true; }
  template <class V>
  void operator()(V& p, V g, V*) const {
    using kernel::select;
    p = p - lr * select(g > V(0), V(1), select(g < V(0), V(-1), V(0)));
  }
};

template <class T>
struct ThreeMoments : LionRule<T> {
  using LionRule<T>::LionRule;
  static constexpr std::array<optim::Moment, 3> moments{};
};
template <class T>
struct NamedSteps : LionRule<T> {
  using LionRule<T>::LionRule;
  static constexpr std::array moments{optim::Moment{.name = "steps"}};
};
template <class T>
struct OneName : LionRule<T> {
  using LionRule<T>::LionRule;
  static constexpr std::array moments{optim::Moment{.name = "first"}, optim::Moment{.name = "first"}};
};
template <class T>
struct WithoutSettings : LionRule<T> {
  explicit WithoutSettings(const LionOptions& options) : LionRule<T>(options, {}) {}
};
template <class T>
struct WithoutUpdate {
  using Element = T;
  static constexpr std::array<optim::Moment, 1> moments{};
  WithoutUpdate(const LionOptions&, const optim::UpdateSettings&) {}
  bool needs_moments() const { return true; }
  bool keeps_stateless_rows() const { return true; }
};
struct WithoutLr {
  static constexpr const char* optimizer = "WithoutLr";
  double weight_decay = 0;
};

// A weight that is longer than a vector register, and whose length is odd.
struct Weights {
  Parameter<float> w{Tensor<float>({33}, std::vector<float>(33, 2.f))};
  static void visit(auto& self, auto&& f) { f("w", self.w); }
};

}  // namespace

static_assert(optim::UpdateRule<LionRule<float>, LionOptions>);
static_assert(optim::UpdateRule<SignRule<double>, LionOptions>);
static_assert(optim::UpdateRule<optim::SgdRule<float>, optim::SgdOptions>);
static_assert(!optim::UpdateRule<ThreeMoments<float>, LionOptions>);
static_assert(!optim::UpdateRule<NamedSteps<float>, LionOptions>);
static_assert(!optim::UpdateRule<OneName<float>, LionOptions>);
static_assert(!optim::UpdateRule<WithoutSettings<float>, LionOptions>);
static_assert(!optim::UpdateRule<WithoutUpdate<float>, LionOptions>);
static_assert(!optim::UpdateRule<LionRule<float>, WithoutLr>);
static_assert(!optim::UpdateRule<optim::SgdRule<float>, optim::AdamOptions>);

TEST_CASE("optimizers: a rule of the user's own, with a moment estimate and with none") {
  Weights model;
  Lion lion(model, {.lr = 0.1, .beta1 = 0.5, .beta2 = 0.75, .weight_decay = 0.5});
  const auto give = [&](float gradient) {
    model.w.value().set_grad(Tensor<float>({33}, std::vector<float>(33, gradient)));
  };
  give(4);
  lion.step();  // c = 2, p = 2 (1 - 0.05) - 0.1, m = 1
  for (const float p : model.w.value().host()) CHECK(p == Approx(1.8));
  give(-0.5f);
  lion.step();  // c = 0.25, p = 1.8 * 0.95 - 0.1, m = 0.625
  for (const float p : model.w.value().host()) CHECK(p == Approx(1.61));
  give(-0.625f);
  lion.step();  // c = 0: only the decay
  for (const float p : model.w.value().host()) CHECK(p == Approx(1.5295));
  optim::Optimizer<LionOptions, SignRule> signs(model, {.lr = 1});
  give(-3);
  signs.step();
  for (const float p : model.w.value().host()) CHECK(p == Approx(2.5295));
}

TEST_CASE("optimizers: a rule without a kernel for a GPU says so, and updates nothing") {
  on_each_device<float>([](Device device) {
    if (device == Device::cpu) return;
    Weights model;
    to(model, device);
    Lion lion(model);
    model.w.value().set_grad(ones<float>({33}, device));
    CHECK_THROWS_WITH(lion.step(), ContainsSubstring("Lion: has no kernel for a GPU, but parameter 'w' is there"));
    for (const float p : model.w.value().host()) CHECK(p == 2);
  });
}
