#include <heddle/ops/compare.hpp>
#include <heddle/ops/logical.hpp>

#include "harness/devices.hpp"
#include "harness/numbers.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

using Bits = std::vector<bool>;

// Returns each comparison of x with y.
template <class A, class B>
std::vector<Bits> all_comparisons(const A& x, const B& y) {
  return {(x == y).host(), (x != y).host(), (x < y).host(), (x <= y).host(), (x > y).host(), (x >= y).host()};
}

template <class T>
void check_comparisons() {
  const std::vector<Bits> expected = {{false, true, false}, {true, false, true},  {true, false, false},
                                      {true, true, false},  {false, false, true}, {false, true, true}};
  on_each_device<T>([&](Device device) {
    const auto x = converted<T>(Tensor<double>({3}, {0, 1, 1}), device);
    const auto y = converted<T>(Tensor<double>({3}, {1, 1, 0}), device);
    CHECK(all_comparisons(x, y) == expected);
    CHECK((x == y).device() == device);
  });
}

}  // namespace

TEST_CASE("compare: every comparison of every element type") {
  check_comparisons<float>();
  check_comparisons<double>();
  check_comparisons<bf16>();
  check_comparisons<int>();
  check_comparisons<std::int64_t>();
  check_comparisons<bool>();
}

TEST_CASE("compare: a number on either side") {
  on_each_device<float>([](Device device) {
    const auto x = Tensor<float>({3}, {0, 1, 2}).to(device);
    const auto all = all_comparisons(x, 1), reversed = all_comparisons(1.0, x);
    CHECK(all == std::vector<Bits>{{false, true, false},
                                   {true, false, true},
                                   {true, false, false},
                                   {true, true, false},
                                   {false, false, true},
                                   {false, true, true}});
    CHECK(reversed == std::vector<Bits>{all[0], all[1], all[4], all[5], all[2], all[3]});
    CHECK((Tensor<float>({1}, {0.1f}).to(device) == 0.1).item());
    const auto ids = Tensor<int>({2}, {7, -1}).to(device);
    CHECK((ids == 7).host() == Bits{true, false});
    CHECK((ids < 3'000'000'000).host() == Bits{true, true});
  });
}

TEST_CASE("compare: shapes broadcast, odd and empty ones too") {
  on_each_device<float>([](Device device) {
    for (const Index n : {0, 1, 31, 33, 257}) {
      const auto x = arange<float>(0, static_cast<double>(n), 1, device);
      const auto y = x.with_shape({n, 1}) < x;
      CHECK(y.shape() == Shape{n, n});
      const auto bits = y.host();
      bool is_right = true;
      for (Index i = 0; i < n; ++i)
        for (Index j = 0; j < n; ++j) is_right &= bits[static_cast<std::size_t>(i * n + j)] == (i < j);
      CHECK(is_right);
    }
  });
  CHECK((zeros<float>({}) == zeros<float>({})).shape() == Shape{});
  CHECK_THROWS_WITH(zeros<float>({2}) < zeros<float>({3}), ContainsSubstring("<: 'axis -1' disagrees between a and b"));
}

TEST_CASE("compare: large integers are not rounded") {
  on_each_device<std::int64_t>([](Device device) {
    const Index large = Index{1} << 60;
    const auto x = Tensor<Index>({2}, {large, large + 1}).to(device);
    CHECK((x == large).host() == Bits{true, false});
    CHECK((x > large).host() == Bits{false, true});
  });
}

TEST_CASE("compare: NaN and infinities; isnan and isfinite") {
  const auto check = []<class T>(T) {
    on_each_device<T>([](Device device) {
      const double inf = infinity<double>, nan = quiet_nan<double>;
      const auto x = converted<T>(Tensor<double>({5}, {nan, inf, -inf, 0, -0.0}), device);
      CHECK((x == x).host() == Bits{false, true, true, true, true});
      CHECK((x != x).host() == Bits{true, false, false, false, false});
      CHECK((x == 0).host() == Bits{false, false, false, true, true});
      CHECK((x <= inf).host() == Bits{false, true, true, true, true});
      CHECK((x > nan).host() == Bits(5, false));
      CHECK(isnan(x).host() == Bits{true, false, false, false, false});
      CHECK(isfinite(x).host() == Bits{false, false, false, true, true});
    });
  };
  check(float());
  check(double());
  check(bf16());
  CHECK(isfinite(Tensor<int>({2}, {0, 1})).host() == Bits{true, true});
  CHECK(isnan(Tensor<int>({1}, {0})).host() == Bits{false});
}

TEST_CASE("compare: a result of one element is a condition; one of several elements is an error") {
  on_each_device<float>([](Device device) {
    const auto x = Tensor<float>({2}, {1, 2}).to(device);
    CHECK(static_cast<bool>(sum(x) > 2));
    CHECK(!(sum(x) > 3));
    CHECK(static_cast<bool>(any(x == 2)));
    CHECK(!any(isnan(x)));
    CHECK_THROWS_WITH(static_cast<bool>(x == x),
                      ContainsSubstring("a Tensor<bool> of shape [2] is used as a condition"));
    CHECK_THROWS_AS(static_cast<bool>(Tensor<bool>()), Error);
    CHECK(!Tensor<bool>().has_data());
  });
}

TEST_CASE("compare: integers of two types; a number is rounded to the type of the tensor") {
  on_each_device<int>([](Device device) {
    const auto classes = argmax(Tensor<float>({2, 2}, {0, 1, 1, 0}).to(device), -1);
    CHECK((classes == Tensor<int>({2}, {1, 1}).to(device)).host() == Bits{true, false});
    CHECK((Tensor<bool>({1}, {true}).to(device) == Tensor<int>({1}, {1}).to(device)).item());
    CHECK((Tensor<bf16>({1}, {bf16(0.1f)}).to(device) == 0.1).item());
  });
}
