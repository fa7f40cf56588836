#include <heddle/base/dropout_rule.hpp>
#include <heddle/core/create.hpp>

#include "catch.hpp"

using namespace heddle;

// The vectors for Philox 4x32-10 that Random123 publishes in its kat_vectors.
TEST_CASE("philox: gives Random123's published values") {
  const auto check = [](kernel::PhiloxWords counter, std::uint32_t k0, std::uint32_t k1, kernel::PhiloxWords expected) {
    const kernel::PhiloxWords actual = kernel::philox(counter, k0, k1);
    for (int i = 0; i < 4; ++i) CHECK(actual.w[i] == expected.w[i]);
  };
  check({{0, 0, 0, 0}}, 0, 0, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}});
  check({{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}}, 0xffffffff, 0xffffffff,
        {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}});
  check({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0,
        {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}});
}

TEST_CASE("random: a draw is a function of seed, stream and position") {
  Random a(7, 3), b(7, 3);
  b.take(10);
  a.seek(10);
  CHECK(a.next() == b.next());
  CHECK(Random(7, 3).next() != Random(7, 4).next());
  CHECK(Random(7, 3).next() != Random(8, 3).next());
  CHECK(Random(7, std::uint64_t{1} << 40).next() != Random(7, 0).next());
  Random whole(1), parts(1);
  const Tensor<float> once = uniform<float>({6}, 0, 1, whole);
  const Tensor<float> first = uniform<float>({4}, 0, 1, parts), rest = uniform<float>({2}, 0, 1, parts);
  CHECK(once.host()[3] == first.host()[3]);
  CHECK(once.host()[5] == rest.host()[1]);
}

TEST_CASE("random: uniform values have the right mean and bounds, normal ones the right mean, variance and kurtosis") {
  Random random(11);
  const Index n = 200001;
  const Tensor<double> u = uniform<double>({n}, -2, 4, random), z = randn<double>({n}, random);
  double u_mean = 0, z_mean = 0, z_square = 0, z_fourth = 0, least = 9, most = -9;
  for (Index i = 0; i < n; ++i) {
    const double a = u.data()[i], b = z.data()[i];
    u_mean += a / n, z_mean += b / n, z_square += b * b / n, z_fourth += b * b * b * b / n;
    least = std::min(least, a), most = std::max(most, a);
  }
  CHECK(std::abs(u_mean - 1) < 0.02);  // five standard errors
  CHECK(least >= -2);
  CHECK(most < 4);
  CHECK(std::abs(z_mean) < 0.012);
  CHECK(std::abs(z_square - 1) < 0.016);
  CHECK(std::abs(z_fourth - 3) < 0.11);
}

TEST_CASE("random: a dropout probability is rounded to a multiple of 1/65536, and the scale fits the rounded one") {
  const kernel::DropoutRule rule("dropout", 0.1);
  CHECK(rule.threshold == 6554);
  CHECK(rule.scale == static_cast<float>(65536.0 / (65536 - 6554)));
  CHECK_FALSE(rule.keeps(6553));
  CHECK(rule.keeps(6554));
  CHECK(kernel::DropoutRule("dropout", 0).keeps(0));
  for (const double p : {-0.1, 1.0, 2.0, std::nan(""), 0.999999})
    CHECK_THROWS_AS(kernel::DropoutRule("dropout", p), Error);
}
