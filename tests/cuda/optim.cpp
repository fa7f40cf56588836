// Compares the optimizers' CUDA kernels with their formulas in double.
#include <heddle/gpu/kernels.hpp>
#include <heddle/optim/adam.hpp>
#include <heddle/optim/sgd.hpp>

#include "../harness/compare.hpp"
#include "device_array.hpp"
#include "same_always.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

using Adam = optim::AdamRule<float>;
using Sgd = optim::SgdRule<float>;

// The value, gradient and moment estimates of a parameter, with elements of type A.
template <class A>
struct State {
  std::vector<A> value, gradient, first, second;
};
struct Parameters {
  std::vector<State<float>> state;
  std::size_t shift = 0;  // elements from an aligned address to each array

  explicit Parameters(const std::vector<Index>& sizes) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const auto drawn = [&](std::uint64_t seed) {
        const auto values = random<float>({sizes[i]}, 10 * i + seed).host();
        return std::vector<float>(values.begin(), values.end());
      };
      state.push_back({drawn(1), drawn(2), drawn(3), drawn(4)});
      for (float& v : state.back().second) v *= v;
    }
  }
};

// Parameters in device memory.
class OnDevice {
 public:
  explicit OnDevice(const Parameters& in) {
    for (const auto& s : in.state) {
      casts_.push_back(std::make_unique<DeviceArray<bf16>>(std::vector<bf16>(s.value.size() + in.shift, bf16(77.f))));
      state.push_back({put(s.value, in.shift), put(s.gradient, in.shift), put(s.first, in.shift),
                       put(s.second, in.shift), casts_.back()->data() + in.shift, static_cast<Index>(s.value.size())});
      gradients.push_back({state.back().gradient, {state.back().size}});
    }
    cudaDeviceSynchronize();  // the copies are on another stream
  }
  struct Pointers {
    float *value, *gradient, *first, *second;
    bf16* cast;
    Index size;
  };
  std::vector<Pointers> state;
  std::vector<View<const float, 1>> gradients;

 private:
  float* put(const std::vector<float>& values, std::size_t shift) {
    std::vector<float> shifted(shift, 77.f);
    shifted.insert(shifted.end(), values.begin(), values.end());
    arrays_.push_back(std::make_unique<DeviceArray<float>>(shifted));
    return arrays_.back()->data() + shift;
  }
  std::vector<std::unique_ptr<DeviceArray<float>>> arrays_;
  std::vector<std::unique_ptr<DeviceArray<bf16>>> casts_;
};

// Returns the rule of parameter i. Its settings differ from those of its neighbors.
Adam rule_of(const optim::AdamOptions& options, std::size_t i) {
  const double some = 1 + static_cast<double>(i % 5);
  return Adam(options, {0.1 * some, 0.01 * some, static_cast<std::int64_t>(i % 3) + 1});
}
Adam rule_of(const optim::AdamWOptions& options, std::size_t i) {
  const double some = 1 + static_cast<double>(i % 5);
  return Adam(options, {0.1 * some, 0.01 * some, static_cast<std::int64_t>(i % 3) + 1});
}
Sgd rule_of(const optim::SgdOptions& options, std::size_t i) {
  const double some = 1 + static_cast<double>(i % 5);
  return Sgd(options, {0.1 * some, 0.01 * some, static_cast<std::int64_t>(i % 2) + 1});
}

template <class Rule>
kernel::UpdateArgs<Rule> arguments(const Rule& rule, const OnDevice::Pointers& p) {
  kernel::UpdateArgs<Rule> args{rule, {p.value, {p.size}}, p.gradient, {}};
  args.moments[0] = rule.needs_moments() ? p.first : nullptr;
  if constexpr (kernel::UpdateArgs<Rule>::moment_count > 1) args.moments[1] = p.second;
  args.cast = p.cast;
  return args;
}

// Returns a step that updates all of `count` parameters.
std::shared_ptr<kernel::EnqueuedStep> enqueued(std::size_t count) {
  std::vector<std::string> names;
  std::vector<std::size_t> all(count);
  for (std::size_t i = 0; i < count; ++i) names.push_back(std::to_string(i)), all[i] = i;
  return std::make_shared<kernel::EnqueuedStep>("Rule", std::make_shared<std::vector<std::string>>(names), all);
}

bool has_cast(std::size_t parameter) { return parameter % 3 != 2; }
// Checks that each element of a cast is the value, rounded to bf16, and that nothing is written before it.
void expect_cast(const OnDevice::Pointers& p, const std::vector<float>& value, std::size_t shift) {
  std::vector<bf16> cast(value.size());
  cuda::to_host(cast.data(), p.cast - shift, cast.size() * sizeof(bf16));
  for (std::size_t e = 0; e < cast.size(); ++e) REQUIRE(cast[e].bits == bf16(value[e]).bits);
}

// Returns values and moment estimates after a step, one parameter after another.
template <class Options>
std::vector<double> on_gpu(const Options& options, const Parameters& in, const kernel::Clipping& clipping = {}) {
  const OnDevice device(in);
  std::vector<kernel::UpdateArgs<decltype(rule_of(options, 0))>> updates;
  for (std::size_t i = 0; i < device.state.size(); ++i) {
    updates.push_back(arguments(rule_of(options, i), device.state[i]));
    if (!has_cast(i)) updates.back().cast = nullptr;
  }
  kernel::update(Cuda{}, updates, clipping, enqueued(updates.size()));
  cuda::synchronize();
  std::vector<double> all;
  for (std::size_t i = 0; i < device.state.size(); ++i)
    for (const auto& p = device.state[i]; const float* array : {p.value, p.first, p.second}) {
      std::vector<float> values(static_cast<std::size_t>(p.size) + in.shift);
      cuda::to_host(values.data(), array - in.shift, values.size() * sizeof(float));
      if (array == p.value && has_cast(i)) expect_cast(p, values, in.shift);
      for (std::size_t e = 0; e < in.shift; ++e) REQUIRE(values[e] == 77);
      all.insert(all.end(), values.begin() + static_cast<std::ptrdiff_t>(in.shift), values.end());
    }
  return all;
}

// Updates element e by the rule's formula, computed in A.
template <class A>
void step_of(const Adam& rule, State<A>& s, std::size_t e) {
  const A g = s.gradient[e] + static_cast<A>(rule.l2) * s.value[e];
  s.second[e] = static_cast<A>(rule.beta2) * s.second[e] + static_cast<A>(rule.one_minus_beta2) * g * g;
  s.first[e] += static_cast<A>(rule.one_minus_beta1) * (g - s.first[e]);
  s.value[e] = static_cast<A>(rule.decay_factor) * s.value[e] -
               static_cast<A>(rule.rate) * s.first[e] /
                   (std::sqrt(s.second[e]) * static_cast<A>(rule.inv_sqrt_bias_correction2) + static_cast<A>(rule.eps));
}
template <class A>
void step_of(const Sgd& rule, State<A>& s, std::size_t e) {
  const A g = s.gradient[e] + static_cast<A>(rule.weight_decay) * s.value[e];
  const A b = rule.is_first_step || rule.momentum == 0 ? g : static_cast<A>(rule.momentum) * s.first[e] + g;
  if (rule.momentum != 0) s.first[e] = b;
  s.value[e] -= static_cast<A>(rule.lr) * b;
}
template <class A, class Options>
std::vector<double> on_cpu(const Options& options, const Parameters& in) {
  std::vector<double> all;
  for (std::size_t i = 0; i < in.state.size(); ++i) {
    const auto in_a = [](const std::vector<float>& values) { return std::vector<A>(values.begin(), values.end()); };
    const auto& from = in.state[i];
    State<A> s{in_a(from.value), in_a(from.gradient), in_a(from.first), in_a(from.second)};
    for (std::size_t e = 0; e < s.value.size(); ++e) step_of(rule_of(options, i), s, e);
    const auto part = joined(s.value, s.first, s.second);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

// Returns the sizes of parameters: empty ones at the beginning, in the middle and at the end; and one piece, with one
// element more or less.
std::vector<std::vector<Index>> sizes_to_test() {
  if (races_are_watched()) return {{}, {0}, {0, 33, 0, 4097, 1, 0}};
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

template <class Options>
void check_rule(const Options& options) {
  for (const auto& sizes : sizes_to_test())
    for (const std::size_t shift : {0u, 1u}) {
      CAPTURE(sizes, shift);
      Parameters in(sizes);
      const std::vector<double> aligned = on_gpu(options, in);
      in.shift = shift;
      const std::vector<double> found = on_gpu(options, in);
      expect_close<float>(found, on_cpu<double>(options, in), on_cpu<float>(options, in));
      CHECK(found == aligned);  // the bits do not depend on the place in memory
    }
}

Index not_finite_in(const Parameters& in) { return kernel::first_not_finite(Cuda{}, OnDevice(in).gradients); }
double squares_in(const Parameters& in) { return kernel::sum_of_squares(Cuda{}, OnDevice(in).gradients); }

// Returns the scaled gradients, one parameter after another. They are written over the values.
std::vector<float> scaled(float factor, const Parameters& in) {
  const OnDevice device(in);
  std::vector<View<float, 1>> results;
  for (const auto& p : device.state) results.push_back({p.value, {p.size}});
  kernel::scale(Cuda{}, factor, device.gradients, results);
  cuda::synchronize();
  std::vector<float> all;
  for (const auto& p : device.state) {
    std::vector<float> values(static_cast<std::size_t>(p.size));
    cuda::to_host(values.data(), p.value, values.size() * sizeof(float));
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

}  // namespace

TEST_CASE("cuda update: Adam and AdamW update all parameters by their formulas") {
  check_rule(optim::AdamOptions());
  check_rule(optim::AdamWOptions());
}

TEST_CASE("cuda update: Sgd with momentum follows its formula in the first and in later steps") {
  check_rule(optim::SgdOptions{.momentum = 0.9});
}

TEST_CASE("cuda update: Sgd without momentum needs no moment estimates") { check_rule(optim::SgdOptions()); }

TEST_CASE("cuda update: the first step with momentum does not depend on the memory of the moment estimates") {
  Parameters in({4097, 5, 3});
  for (const std::size_t i : {0u, 2u})  // rule_of() makes this their first step
    std::fill(in.state[i].first.begin(), in.state[i].first.end(), quiet_nan<float>);
  const optim::SgdOptions options{.momentum = 0.9};
  expect_close<float>(on_gpu(options, in), on_cpu<double>(options, in), on_cpu<float>(options, in));
}

TEST_CASE("cuda update: only parameters whose arrays are all aligned move in vectors") {
  const Parameters in({257});
  for (const int which : {0, 1, 2, 3, 4}) {
    CAPTURE(which);
    const OnDevice device(in);
    OnDevice::Pointers p = device.state[0];
    --p.size;
    if (which == 0) ++p.value;
    if (which == 1) ++p.gradient;
    if (which == 2) ++p.first;
    if (which == 3) ++p.second;
    if (which == 4) ++p.cast;
    kernel::update(Cuda{}, std::vector{arguments(rule_of(optim::AdamOptions(), 0), p)}, {}, enqueued(1));
    cuda::synchronize();
  }
}

TEST_CASE("cuda update: gradients are multiplied by the factor of the norm of all of them") {
  Parameters in({5, 0, 4099, 3});
  double squares = 0;
  for (const auto& s : in.state)
    for (const float g : s.gradient) squares += static_cast<double>(g) * static_cast<double>(g);
  for (const double of_cpu : {0., 100.})
    for (const double max_norm : {1., 1e9}) {
      CAPTURE(of_cpu, max_norm);
      const double norm = std::sqrt(squares + of_cpu);
      Parameters scaled = in;
      for (auto& s : scaled.state)
        for (float& g : s.gradient) g *= static_cast<float>(std::min(1., max_norm / (norm + 1e-6)));
      const optim::AdamOptions options;
      expect_close<float>(on_gpu(options, in, {max_norm, of_cpu}), on_cpu<double>(options, scaled),
                          on_cpu<float>(options, scaled));
    }
}

TEST_CASE("cuda update: a gradient that is not finite stops this and later updates until the host knows") {
  const auto is_unchanged = [](const OnDevice& device, const Parameters& in) {
    for (std::size_t i = 0; i < in.state.size(); ++i) {
      std::vector<float> value(in.state[i].value.size()), second = value;
      cuda::to_host(value.data(), device.state[i].value, value.size() * sizeof(float));
      cuda::to_host(second.data(), device.state[i].second, second.size() * sizeof(float));
      if (value != in.state[i].value || second != in.state[i].second) return false;
    }
    return true;
  };
  using Outcome = kernel::EnqueuedStep::Outcome;
  for (const std::size_t wrong : {0u, 2u, 4u}) {
    CAPTURE(wrong);
    const Parameters in({4099, 0, 3, 0, 8195});
    Parameters bad = in;
    bad.state[wrong].gradient.back() = quiet_nan<float>;
    bad.state.back().gradient.back() = infinity<float>;  // a later one is not reported
    const OnDevice first(in), second(bad), third(in);
    const auto step = [&](const OnDevice& device) {
      std::vector<kernel::UpdateArgs<Adam>> updates;
      for (const auto& p : device.state) updates.push_back(arguments(rule_of(optim::AdamOptions(), 0), p));
      const auto result = enqueued(updates.size());
      kernel::update(Cuda{}, updates, {}, result);
      return result;
    };
    const auto before = step(first), failed = step(second), after = step(third), failed_too = step(second);
    CHECK_THROWS_WITH(cuda::synchronize(), "Rule: the gradient of '" + std::to_string(wrong) +
                                               "' is not finite; nothing was updated, and all gradients were cleared; "
                                               "2 later steps were skipped, too");
    CHECK(before->outcome == Outcome::applied);
    for (const auto& skipped : {failed, after, failed_too}) CHECK(skipped->outcome == Outcome::skipped);
    CHECK_FALSE(is_unchanged(first, in));
    CHECK(is_unchanged(second, in));
    CHECK(is_unchanged(third, in));
    const auto now = step(third);
    cuda::synchronize();
    step(third);  // forgets the one before
    CHECK(now->outcome == Outcome::applied);
    CHECK_FALSE(is_unchanged(third, in));
    cuda::synchronize();
  }
}

TEST_CASE("cuda update: a step that fails on one stream does not stop those on another") {
  const Parameters in({3});
  Parameters bad = in;
  bad.state[0].gradient[1] = quiet_nan<float>;
  const OnDevice here(bad), there(in);
  const auto step = [](const OnDevice& device) {
    kernel::update(Cuda{}, std::vector{arguments(rule_of(optim::AdamOptions(), 0), device.state[0])}, {}, enqueued(1));
  };
  step(here);
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  cuda::set_stream(stream);
  step(there);
  cuda::synchronize();
  float value = 0;
  cuda::to_host(&value, there.state[0].value, sizeof(float));
  CHECK(value != in.state[0].value[0]);
  cuda::set_stream(nullptr);
  CHECK_THROWS_AS(cuda::synchronize(), Error);
  cuda::trim();
  cudaStreamDestroy(stream);
}

TEST_CASE("cuda update: a step without elements takes place") {
  const OnDevice device(Parameters({0, 0}));
  const auto step = enqueued(2);
  kernel::update(Cuda{}, std::vector{arguments(rule_of(optim::AdamOptions(), 0), device.state[0])}, {}, step);
  CHECK(step->outcome == kernel::EnqueuedStep::Outcome::applied);
}

TEST_CASE("cuda first_not_finite: finds the first gradient with NaN or infinity, at any position in it") {
  CHECK(not_finite_in(Parameters({})) == -1);
  CHECK(not_finite_in(Parameters({0, 0})) == -1);
  for (const float wrong : {infinity<float>, -infinity<float>, quiet_nan<float>})
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
      if (races_are_watched()) break;
    }
}

TEST_CASE("cuda sum_of_squares: accumulates in double") {
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
  in.state[0].gradient[4] = infinity<float>;
  CHECK(squares_in(in) == std::numeric_limits<double>::infinity());
  in.state[0].gradient[1] = quiet_nan<float>;
  CHECK(std::isnan(squares_in(in)));
}

TEST_CASE("cuda scale: each gradient is multiplied once") {
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

TEST_CASE("cuda sum_of_squares: adds more pieces than a block has threads") {
  if (races_are_watched()) return;
  std::vector<Index> sizes(600, 2);
  const Parameters in(sizes);
  double expected = 0;
  for (const auto& s : in.state)
    for (const float g : s.gradient) expected += static_cast<double>(g) * static_cast<double>(g);
  CHECK(squares_in(in) == Approx(expected).epsilon(1e-13));
}

TEST_CASE("cuda optimizers: results depend neither on the schedule nor on the previous content of memory") {
  const Parameters in({33, 4100, 0, 7});
  expect_same_always([&] { return on_gpu(optim::AdamOptions(), in); });
  expect_same_always([&] { return on_gpu(optim::SgdOptions{.momentum = 0.5}, in); });
  expect_same_always([&] { return squares_in(in); });
  expect_same_always([&] { return scaled(0.3f, in); });
  expect_same_always([&] { return not_finite_in(in); });
}
