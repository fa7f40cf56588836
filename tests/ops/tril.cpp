#include <heddle/ops/reshape.hpp>
#include <heddle/ops/tril.hpp>

#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

TEST_CASE("tril: worked by hand") {
  on_each_device<float>([](Device device) {
    const auto x = Tensor<float>({2, 3}, {1, 2, 3, 4, 5, 6}).to(device);
    CHECK(tril(x).host() == std::vector<float>{1, 0, 0, 4, 5, 0});
    CHECK(tril(x, 1).host() == std::vector<float>{1, 2, 0, 4, 5, 6});
    CHECK(tril(x, 2).host() == x.host());
    CHECK(tril(x, -1).host() == std::vector<float>{0, 0, 0, 4, 0, 0});
    CHECK(tril(x, -9).host() == std::vector<float>(6, 0));
    CHECK(tril(reshape(x, {1, 3, 2})).host() == std::vector<float>{1, 0, 3, 4, 5, 6});
    const auto hidden = Tensor<float>({1, 2}, {1, quiet_nan<float>}).to(device);
    CHECK(tril(hidden).host() == std::vector<float>{1, 0});
  });
  CHECK(tril(zeros<float>({0, 3})).shape() == Shape{0, 3});
  CHECK(tril(zeros<float>({2, 1, 0})).size() == 0);
  CHECK_THROWS_WITH(tril(zeros<float>({3})), "tril: x [3] must have at least 2 axes");
}

TEST_CASE("tril: gradients match finite differences") {
  expect_gradients([](const auto& in) { return tril(in[0]); }, {random({2, 4, 5}, 1)});
  expect_gradients([](const auto& in) { return tril(in[0], -2); }, {random({33, 31}, 1)});
}
