// The optimizers' CUDA kernels against their formulas in double, and optimizers of models on the GPU against those on
// the CPU.
#include <heddle/cuda.hpp>
#include <heddle/optim/adam.hpp>
#include <heddle/optim/clip.hpp>
#include <heddle/optim/sgd.hpp>

#include "agree.hpp"

using namespace heddle;
using namespace heddle::testing;
using kernel::AdamRule;
using kernel::SgdRule;
using kernel::Updated;

namespace {

// The arrays of some parameters, in A: what a step reads and writes.
template <class A>
struct State {
  std::vector<A> value, gradient, first, second;
};
struct Parameters {
  std::vector<Updated> constants;  // without data
  std::vector<State<float>> state;
  std::size_t shift = 0;  // elements from an aligned address to each array

  explicit Parameters(const std::vector<Index>& sizes) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const auto drawn = [&](std::uint64_t seed) {
        const auto values = numbers<float>({sizes[i]}, 10 * i + seed).host();
        return std::vector<float>(values.begin(), values.end());
      };
      state.push_back({drawn(1), drawn(2), drawn(3), drawn(4)});
      for (float& v : state.back().second) v *= v;
      const float some = 1 + static_cast<float>(i % 5);
      constants.push_back({nullptr, nullptr, nullptr, nullptr, sizes[i], 0.1f * some, 0.01f * some, 1 - 0.02f * some,
                           1.5f * some, i % 2 == 1});
    }
  }
};

// Calls f with the parameters in device memory.
template <class F>
void with_device(const Parameters& in, F&& f) {
  std::vector<std::unique_ptr<DeviceArray<float>>> arrays;
  const auto put = [&](const std::vector<float>& values) {
    std::vector<float> shifted(in.shift, 77.f);
    shifted.insert(shifted.end(), values.begin(), values.end());
    arrays.push_back(std::make_unique<DeviceArray<float>>(shifted));
    return arrays.back()->data() + in.shift;
  };
  std::vector<Updated> updated = in.constants;
  for (std::size_t i = 0; i < updated.size(); ++i) {
    updated[i].value = put(in.state[i].value);
    updated[i].gradient = put(in.state[i].gradient);
    updated[i].first = put(in.state[i].first);
    updated[i].second = put(in.state[i].second);
  }
  cudaDeviceSynchronize();  // the copies are on another stream
  f(updated);
}

// Values and moments after a step, one parameter after another.
template <class Rule>
std::vector<double> on_gpu(Rule rule, const Parameters& in) {
  std::vector<double> all;
  with_device(in, [&](const std::vector<Updated>& updated) {
    kernel::update(Cuda{}, rule, updated);
    cuda::synchronize();
    for (const Updated& u : updated)
      for (const float* array : {u.value, u.first, u.second}) {
        std::vector<float> values(static_cast<std::size_t>(u.size) + in.shift);
        cuda::to_host(values.data(), array - in.shift, values.size() * sizeof(float));
        for (std::size_t e = 0; e < in.shift; ++e) REQUIRE(values[e] == 77);
        all.insert(all.end(), values.begin() + static_cast<std::ptrdiff_t>(in.shift), values.end());
      }
  });
  return all;
}

template <class A>
void step_of(const AdamRule& rule, const Updated& u, State<A>& s, std::size_t e) {
  const A g = s.gradient[e] + static_cast<A>(u.coupled) * s.value[e];
  s.second[e] = static_cast<A>(rule.beta2) * s.second[e] + static_cast<A>(rule.rest2) * g * g;
  s.first[e] += static_cast<A>(rule.rest1) * (g - s.first[e]);
  s.value[e] = static_cast<A>(u.shrink) * s.value[e] -
               static_cast<A>(u.rate) * s.first[e] /
                   (std::sqrt(s.second[e]) * static_cast<A>(u.root) + static_cast<A>(rule.eps));
}
template <class A>
void step_of(const SgdRule& rule, const Updated& u, State<A>& s, std::size_t e) {
  const A g = s.gradient[e] + static_cast<A>(u.coupled) * s.value[e];
  const A b = u.begins || rule.momentum == 0 ? g : static_cast<A>(rule.momentum) * s.first[e] + g;
  if (rule.momentum != 0) s.first[e] = b;
  s.value[e] -= static_cast<A>(u.rate) * b;
}
template <class A, class Rule>
std::vector<double> on_cpu(const Rule& rule, const Parameters& in) {
  std::vector<double> all;
  for (std::size_t i = 0; i < in.state.size(); ++i) {
    const auto in_a = [](const std::vector<float>& values) { return std::vector<A>(values.begin(), values.end()); };
    const auto& from = in.state[i];
    State<A> s{in_a(from.value), in_a(from.gradient), in_a(from.first), in_a(from.second)};
    for (std::size_t e = 0; e < s.value.size(); ++e) step_of(rule, in.constants[i], s, e);
    const auto part = joined(s.value, s.first, s.second);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

// No elements at first, between others and last; one piece, and one element more or less.
std::vector<std::vector<Index>> sizes_to_test() {
  if (emulator::races_are_watched()) return {{}, {0}, {0, 33, 0, 4097, 1, 0}};
  return {{},
          {0},
          {1},
          {3, 4, 5},
          {0, 31, 0, 0, 33, 257, 0},
          {1, 4095, 2},
          {4096, 4096},
          {0, 4097, 0, 3},
          {12289, 1},
          std::vector<Index>(70, 5)};
}

template <class Rule>
void check_rule(Rule rule) {
  for (const auto& sizes : sizes_to_test())
    for (const std::size_t shift : {0u, 1u}) {
      CAPTURE(sizes, shift);
      Parameters in(sizes);
      in.shift = shift;
      expect_close<float>(on_gpu(rule, in), on_cpu<double>(rule, in), on_cpu<float>(rule, in));
    }
}

constexpr AdamRule adam{0.999f, 0.1f, 0.001f, 1e-8f};
constexpr float infinity = std::numeric_limits<float>::infinity(), nan_value = std::numeric_limits<float>::quiet_NaN();

Index not_finite_in(const Parameters& in) {
  Index found = -2;
  with_device(in, [&](const auto& updated) { found = kernel::first_not_finite(Cuda{}, updated); });
  return found;
}
double squares_in(const Parameters& in) {
  double sum = -1;
  with_device(in, [&](const auto& updated) { sum = kernel::sum_of_squares(Cuda{}, updated); });
  return sum;
}

// `value` after all gradients were scaled, one parameter after another; nothing else has changed.
std::vector<float> scaled(float factor, const Parameters& in) {
  std::vector<float> all;
  with_device(in, [&](const std::vector<Updated>& updated) {
    kernel::scale_gradients(Cuda{}, factor, updated);
    cuda::synchronize();
    for (const Updated& u : updated) {
      std::vector<float> values(static_cast<std::size_t>(u.size));
      cuda::to_host(values.data(), u.value, values.size() * sizeof(float));
      all.insert(all.end(), values.begin(), values.end());
    }
  });
  return all;
}

struct Model {
  Parameter<float> a, b;
  static void visit(auto& self, auto&& f) {
    f("a", self.a);
    f("b", self.b);
  }
};

// The weights after some steps with the same gradients, and the norms before each.
template <class Make>
std::vector<double> trained(Device device, Make make) {
  const auto tensor = [](Shape shape, std::uint64_t seed) { return converted<float>(numbers<float>(shape, seed)); };
  Model model{Parameter<float>(tensor({3, 7}, 1)), Parameter<float>(tensor({5}, 2))};
  to(model, device);
  auto optimizer = make(model);
  std::vector<double> all;
  for (std::uint64_t step = 0; step < 3; ++step) {
    model.a.value().set_grad(tensor({3, 7}, 10 + step).to(device));
    if (step != 1) model.b.value().set_grad(tensor({5}, 20 + step).to(device));
    all.push_back(optim::clip_grad_norm(model, 2));
    optimizer.step();
  }
  const auto weights = joined(model.a.value().host(), model.b.value().host());
  all.insert(all.end(), weights.begin(), weights.end());
  return all;
}
template <class Make>
void check_trained(Make make) {
  const auto expected = trained(Device::cpu, make), got = trained(Device::cuda, make);
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(expected[i]).epsilon(1e-5).margin(1e-6));
}

}  // namespace

TEST_CASE("cuda update: Adam's rule, all parameters at once") { check_rule(adam); }

TEST_CASE("cuda update: Sgd's rule with momentum, at first and later") { check_rule(SgdRule{0.9f}); }

TEST_CASE("cuda update: Sgd without momentum remembers nothing") {
  check_rule(SgdRule{0});
  const Parameters in({33});
  with_device(in, [&](std::vector<Updated> updated) {
    updated[0].first = updated[0].second = nullptr;
    CHECK_NOTHROW(kernel::update(Cuda{}, SgdRule{0}, updated));
    cuda::synchronize();
  });
}

TEST_CASE("cuda update: the first step with momentum does not read what memory held") {
  Parameters in({4097, 5});
  for (const std::size_t i : {0u, 1u}) {
    in.constants[i].begins = true;
    std::fill(in.state[i].first.begin(), in.state[i].first.end(), nan_value);
  }
  const SgdRule rule{0.9f};
  expect_close<float>(on_gpu(rule, in), on_cpu<double>(rule, in), on_cpu<float>(rule, in));
}

TEST_CASE("cuda update: only parameters whose arrays are all aligned move in vectors") {
  const Parameters in({257});
  for (const int which : {0, 1, 2, 3}) {
    CAPTURE(which);
    with_device(in, [&](std::vector<Updated> updated) {
      Updated& u = updated[0];
      --u.size;
      if (which == 0) ++u.value;
      if (which == 1) ++u.gradient;
      if (which == 2) ++u.first;
      if (which == 3) ++u.second;
      kernel::update(Cuda{}, adam, updated);
      cuda::synchronize();
    });
  }
}

TEST_CASE("cuda first_not_finite: the first parameter, wherever in it the element is") {
  CHECK(not_finite_in(Parameters({})) == -1);
  CHECK(not_finite_in(Parameters({0, 0})) == -1);
  for (const float wrong : {infinity, -infinity, nan_value})
    for (const std::size_t at : {0u, 31u, 4095u, 4096u, 4098u}) {
      for (const std::size_t shift : {0u, 1u}) {
        Parameters in({3, 0, 4099, 0, 4099, 2});
        in.shift = shift;
        for (auto& s : in.state)  // finite, though their squares and sums are not
          for (float& g : s.gradient) g = std::numeric_limits<float>::max();
        CAPTURE(wrong, at, shift);
        CHECK(not_finite_in(in) == -1);
        in.state[4].gradient[at] = wrong;
        CHECK(not_finite_in(in) == 4);
        in.state[2].gradient[at] = wrong;
        CHECK(not_finite_in(in) == 2);
      }
      if (emulator::races_are_watched()) break;
    }
}

TEST_CASE("cuda sum_of_squares: a sum in double") {
  for (const auto& sizes : sizes_to_test())
    for (const std::size_t shift : {0u, 1u}) {
      CAPTURE(sizes, shift);
      Parameters in(sizes);
      in.shift = shift;
      double expected = 0;
      for (auto& s : in.state)
        for (float& g : s.gradient) {
          g *= 1e25f;
          expected += static_cast<double>(g) * static_cast<double>(g);
        }
      CHECK(squares_in(in) == Approx(expected).epsilon(1e-13));
    }
  Parameters in({5});
  in.state[0].gradient[4] = infinity;
  CHECK(squares_in(in) == std::numeric_limits<double>::infinity());
  in.state[0].gradient[1] = nan_value;
  CHECK(std::isnan(squares_in(in)));
}

TEST_CASE("cuda scale_gradients: each is multiplied once") {
  for (const auto& sizes : sizes_to_test())
    for (const std::size_t shift : {0u, 1u}) {
      CAPTURE(sizes, shift);
      Parameters in(sizes);
      in.shift = shift;
      std::vector<float> expected;
      for (const auto& s : in.state)
        for (const float g : s.gradient) expected.push_back(g * 0.3f);
      CHECK(scaled(0.3f, in) == expected);
    }
}

TEST_CASE("cuda sum_of_squares: more pieces than threads add them") {
  if (emulator::races_are_watched()) return;
  std::vector<Index> sizes(600, 2);
  const Parameters in(sizes);
  double expected = 0;
  for (const auto& s : in.state)
    for (const float g : s.gradient) expected += static_cast<double>(g) * static_cast<double>(g);
  CHECK(squares_in(in) == Approx(expected).epsilon(1e-13));
}

TEST_CASE("cuda optimizers: schedules and what memory held before change nothing") {
  const Parameters in({33, 4100, 0, 7});
  expect_same_always([&] { return on_gpu(adam, in); });
  expect_same_always([&] { return on_gpu(SgdRule{0.5f}, in); });
  expect_same_always([&] { return squares_in(in); });
  expect_same_always([&] { return scaled(0.3f, in); });
  expect_same_always([&] { return not_finite_in(in); });
}

TEST_CASE("cuda optimizers: train a model as on the CPU") {
  check_trained([](Model& m) { return optim::Adam(m, {.lr = 0.1, .weight_decay = 0.1}); });
  check_trained([](Model& m) { return optim::AdamW(m, {.lr = 0.1}); });
  check_trained([](Model& m) { return optim::Sgd(m, {.lr = 0.1}); });
  check_trained([](Model& m) { return optim::Sgd(m, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1}); });
}

TEST_CASE("cuda optimizers: a gradient that is not finite updates nothing") {
  Model model{Parameter<float>(zeros<float>({3})), Parameter<float>(zeros<float>({2}))};
  to(model, Device::cuda);
  optim::Adam adam_of(model);
  model.a.value().set_grad(Tensor<float>({3}, {1.f, 2.f, 3.f}).to(Device::cuda));
  model.b.value().set_grad(Tensor<float>({2}, {1.f, infinity}).to(Device::cuda));
  CHECK_THROWS_WITH(adam_of.step(), "Adam: the gradient of 'b' is not finite; nothing was updated");
  CHECK(model.a.value().host() == std::vector<float>(3));
}
