#include <heddle/core/create.hpp>

#include "harness/devices.hpp"

using namespace heddle;
using namespace heddle::testing;

TEST_CASE("create: zeros, ones and full of every element type") {
  CHECK(zeros<int>({2, 2}).host() == std::vector<int>{0, 0, 0, 0});
  CHECK(ones<bool>({2}).host() == std::vector<bool>{true, true});
  CHECK(full<double>({}, 0.1).item() == 0.1);
  CHECK(full<float>({1}, 3).item() == 3.f);
  CHECK(full<std::int64_t>({1}, Index{1} << 60).item() == Index{1} << 60);
  CHECK(static_cast<float>(full<bf16>({2}, -1.5).host()[1]) == -1.5f);
  CHECK(static_cast<float>(full<bf16>({1}, bf16(2.f)).item()) == 2.f);
  CHECK(ones<float>({3, 0}).size() == 0);
}

TEST_CASE("create: on every device") {
  on_each_device<float>([](Device device) {
    CHECK(full<float>({3}, 2.5, device).host() == std::vector<float>{2.5, 2.5, 2.5});
    CHECK(zeros<std::int64_t>({2}, device).host() == std::vector<std::int64_t>{0, 0});
    CHECK(ones<bool>({5}, device).host() == std::vector<bool>(5, true));
    CHECK(arange<int>(3, device).host() == std::vector<int>{0, 1, 2});
  });
}

TEST_CASE("arange: counts up or down and excludes `last`") {
  CHECK(arange<int>(4).host() == std::vector<int>{0, 1, 2, 3});
  CHECK(arange<int>(0).size() == 0);
  CHECK(arange<std::int64_t>(5, -1, -2).host() == std::vector<std::int64_t>{5, 3, 1});
  CHECK(arange<int>(1, 8, 3).host() == std::vector<int>{1, 4, 7});
  CHECK(arange<float>(0, 1, 0.1).size() == 10);
  CHECK(arange<float>(0, 1, 0.1).host()[7] == 0.7f);
  CHECK(arange<double>(2.5).host() == std::vector<double>{0, 1, 2});
  CHECK(static_cast<float>(arange<bf16>(3).host()[2]) == 2.f);
}

TEST_CASE("arange: a step that never reaches the end is an error") {
  CHECK_THROWS_WITH(
      arange<int>(3, 1),
      "arange: the step must not be 0 and must lead from first to last in fewer than 2^62 steps; got first = 3, "
      "last = 1, step = 1");
  CHECK_THROWS_AS(arange<int>(1, 3, 0), Error);
  CHECK_THROWS_AS(arange<int>(0, 1, -2), Error);
  CHECK_THROWS_AS(arange<float>(0, std::numeric_limits<double>::quiet_NaN()), Error);
  CHECK_THROWS_AS(arange<float>(0, std::numeric_limits<double>::infinity()), Error);
}

TEST_CASE("uniform: a range whose bounds are reversed or not finite is refused") {
  Random random(1);
  CHECK_THROWS_WITH(uniform<float>({2}, 2, 1, random),
                    "uniform: lo must not be greater than hi, and both must be finite; got 2 and 1");
  CHECK_THROWS_AS(uniform<float>({2}, 0, std::nan(""), random), Error);
  CHECK_THROWS_AS(uniform<float>({2}, 0, std::numeric_limits<double>::infinity(), random), Error);
  CHECK(uniform<float>({2}, 1, 1, random).host() == std::vector<float>{1, 1});
}
