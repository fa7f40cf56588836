#include <heddle/ops/dropout.hpp>

#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

TEST_CASE("dropout: element e is decided by draw e % 8 of call e / 8") {
  for (const Index size : {0, 1, 8, 31, 128, 257, 5000}) {
    CAPTURE(size);
    Random random(5, 2);
    random.take(3);
    const auto x = heddle::testing::random({size}, 1);
    const auto y = dropout(x, 0.3, random);
    CHECK(random.position() == 3 + static_cast<std::uint64_t>((size + 7) / 8));
    const kernel::DropoutRule rule("dropout", 0.3);
    for (Index e = 0; e < size; ++e) {
      const bool kept =
          draw16(kernel::Draws{5, 2, 3}(static_cast<std::uint64_t>(e / 8)), static_cast<int>(e % 8)) >= rule.threshold;
      REQUIRE(y.data()[e] == (kept ? x.data()[e] * static_cast<double>(rule.scale) : 0));
    }
  }
}

TEST_CASE("dropout: drops the share that was asked for, and keeps the mean") {
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
  const auto f = [](const Inputs& in) {
    Random random(3);
    return dropout(in[0], 0.4, random);
  };
  expect_gradients(f, {random({3, 11}, 1)});
  const auto x = random({20000}, 1);
  const int before = threads();
  set_threads(1);
  const auto y = f({x}).host();
  set_threads(3);
  CHECK(f({x}).host() == y);
  set_threads(before);
}

TEST_CASE("dropout: without a generator or a probability the result is x") {
  const auto x = random({3}, 1);
  Random random(1);
  const auto same = dropout(x, 0.5, nullptr);
  CHECK(same.data() == x.data());
  CHECK(dropout(x, 0, random).host() == x.host());
  CHECK(random.position() == 0);
  CHECK_THROWS_WITH(dropout(x, 1.5, random), "dropout: a dropout probability is in [0, 1), got 1.5");
  CHECK_THROWS_AS(dropout(x, -0.1, nullptr), Error);
}

TEST_CASE("dropout: bf16 rounds once") {
  Tensor<bf16> x({64}, std::vector<bf16>(64, bf16(1.f)));
  Random random(1);
  for (const bf16 element : dropout(x, 0.3, random).host()) {
    const float value = element;
    CHECK((value == 0 || value == static_cast<float>(bf16(kernel::DropoutRule("dropout", 0.3).scale))));
  }
}
