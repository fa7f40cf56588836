#include <heddle/core/create.hpp>
#include <heddle/ops/dropout.hpp>

#include "harness/agreement.hpp"
#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

TEMPLATE_TEST_CASE("dropout: element e is decided by draw e % 8 of call e / 8", "", double, float, bf16) {
  const kernel::DropoutRule rule("dropout", 0.3);
  const auto check = [&](Index size, Device device) {
    CAPTURE(size);
    Random random(5, 2);
    random.take(3);
    const auto x = heddle::testing::random<TestType>({size}, 1);
    const auto y = joined(dropout(converted<TestType>(x, device), 0.3, random).host());
    CHECK(random.position() == 3 + (std::uint64_t{1} << 32));  // whatever the size
    for (Index e = 0; e < size; ++e) {
      const bool kept =
          draw16(kernel::Draws{5, 2, 3}(static_cast<std::uint64_t>(e / 8)), static_cast<int>(e % 8)) >= rule.threshold;
      const auto scaled =
          static_cast<TestType>(static_cast<Acc<TestType>>(x.data()[e]) * static_cast<Acc<TestType>>(rule.scale));
      REQUIRE(y[static_cast<std::size_t>(e)] == (kept ? static_cast<double>(scaled) : 0));
    }
  };
  on_each_device<TestType>([&](Device device) {
    for (const Index size : {0, 1, 8, 31, 128, 257, 5000}) check(size, device);
  });
}

TEST_CASE("dropout: drops the share that was asked for, and divides the other elements by 1 - p") {
  const Index size = 1 << 20;
  Tensor<float> ones({size}, std::vector<float>(static_cast<std::size_t>(size), 1.f));
  for (const double p : {0.1, 0.5, 0.99}) {
    Random random(1);
    const auto y = dropout(ones, p, random).host();
    const auto dropped = static_cast<double>(std::count(y.begin(), y.end(), 0.f)) / static_cast<double>(size);
    CHECK(dropped == Approx(p).margin(5 * std::sqrt(p * (1 - p) / static_cast<double>(size))));
    CHECK(*std::max_element(y.begin(), y.end()) == Approx(1 / (1 - p)).epsilon(1e-3));
  }
}

TEST_CASE("dropout: gradient matches finite differences, and threads change nothing") {
  const auto f = [](const auto& in) {
    Random random(3);
    return dropout(in[0], 0.4, random);
  };
  expect_gradients(f, {random({3, 11}, 1)});
  expect_agrees<float>(f, {random<float>({33, 11}, 1)});
  expect_agrees<bf16>(f, {random<bf16>({33, 11}, 1)});
  const Inputs x{random({20000}, 1)};
  const int before = threads();
  set_threads(1);
  const auto y = f(x).host();
  set_threads(3);
  CHECK(f(x).host() == y);
  set_threads(before);
}

TEMPLATE_TEST_CASE("dropout: an element is multiplied by 0 or by the scale, whatever it is", "", double, float, bf16) {
  const float values[] = {infinity<float>, -infinity<float>, quiet_nan<float>, -0.f};
  Tensor<double> x({64});
  for (Index i = 0; i < 64; ++i) x.data()[i] = static_cast<double>(values[i % 4]);
  on_each_device<TestType>([&](Device device) {
    Random random(5, 2);
    const auto y = dropout(converted<TestType>(x, device), 0.5, random).host();
    int dropped = 0;
    for (std::size_t i = 0; i < 64; ++i) {
      const kernel::DropoutRule rule("dropout", 0.5);
      const bool is_kept = draw16(kernel::Draws{5, 2, 0}(i / 8), static_cast<int>(i % 8)) >= rule.threshold;
      const double value = static_cast<double>(y[i]), expected = x.host()[i] * (is_kept ? 2 : 0);
      CAPTURE(i, value, expected);
      CHECK((value == expected || (std::isnan(value) && std::isnan(expected))));
      CHECK((std::isnan(expected) || std::signbit(value) == std::signbit(expected)));
      dropped += !is_kept;
    }
    CHECK((dropped > 0 && dropped < 64));
  });
}

TEST_CASE("dropout: without a generator or with probability 0 the result is x; p outside [0, 1) is an error") {
  const auto x = random({3}, 1);
  Random random(1);
  const auto same = dropout(x, 0.5, nullptr);
  CHECK(same.data() == x.data());
  CHECK(dropout(x, 0, random).host() == x.host());
  CHECK(random.position() == 0);
  CHECK_THROWS_WITH(dropout(x, 1.5, random), "dropout: the dropout probability must be in [0, 1), got 1.5");
  CHECK_THROWS_AS(dropout(x, -0.1, nullptr), Error);
}

TEST_CASE("dropout: bf16 rounds once") {
  on_each_device<bf16>([](Device device) {
    Random random(1);
    for (const bf16 element : dropout(ones<bf16>({64}, device), 0.3, random).host()) {
      const float value = element;
      CHECK((value == 0 || value == static_cast<float>(bf16(kernel::DropoutRule("dropout", 0.3).scale))));
    }
  });
}
