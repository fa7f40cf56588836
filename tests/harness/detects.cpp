// Tests of the harness itself. Each hidden test contains one wrong result, and ctest's `harness` expects all of
// them to fail.
#include <heddle/autograd/record.hpp>

#include "harness/agreement.hpp"
#include "harness/golden.hpp"
#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

// A mistake of identity_with() for the element type Wrong: it adds numbers to values and to gradients, or omits the
// gradient.
struct Mistake {
  double in_value = 0, in_gradient = 0;
  bool leaves_gradient_out = false;
};
template <class Wrong>
auto identity_with(Mistake mistake) {
  return [mistake](const auto& in) {
    using T = typename std::decay_t<decltype(in[0])>::Element;
    const bool is_wrong = std::is_same_v<T, Wrong>;
    const auto shifted = [](const Tensor<T>& x, double by) {
      std::vector<T> values;
      for (const T v : x.host()) values.push_back(static_cast<T>(static_cast<double>(v) + by));
      return Tensor<T>(x.shape(), values).to(x.device());
    };
    return record("identity", shifted(in[0], is_wrong ? mistake.in_value : 0), inputs(in[0]), [=](const Tensor<T>& dy) {
      if (is_wrong && mistake.leaves_gradient_out) return Tensor<T>();
      return shifted(dy, is_wrong ? mistake.in_gradient : 0);
    });
  };
}

Case golden_identity() {
  Case c{"identity", "two numbers", {}, {}};
  for (const char* role : {"x", "y", "dy", "dx"}) c.tensors[role] = {"f64", {2}, {1, 2}};
  return c;
}

using Values = std::vector<double>;

const Inputs three{random<bf16>({3}, 1)};

}  // namespace

TEST_CASE("harness: accepts what is right") {
  expect_gradients(identity_with<double>({}), three);
  expect_agrees<float>(identity_with<double>({}), three);
  expect_agrees<bf16>(identity_with<double>({}), three);
  expect_agrees_with_cpu<bf16>(identity_with<double>({}), three, 0);
  expect_case<float>(golden_identity(), {"x"}, identity_with<double>({}), 0);
  expect_close(Values{1, infinity<double>, quiet_nan<double>}, Values{1, infinity<double>, quiet_nan<double>}, equal);
  CHECK(same_numbers(Values{1, quiet_nan<double>}, Values{1, -quiet_nan<double>}));
}

TEST_CASE("harness: a value outside its bound", "[.][!shouldfail]") {
  expect_close(Values{1, 2.1}, Values{1, 2}, part_of_largest(0.04, {1, 2}));
}
TEST_CASE("harness: a value that differs, where it is to be equal", "[.][!shouldfail]") {
  expect_close(Values{1 + 0x1p-52}, Values{1}, equal);
}
TEST_CASE("harness: NaN instead of a number", "[.][!shouldfail]") {
  expect_close(Values{1, quiet_nan<double>}, Values{1, 2}, [](double) { return 1e300; });
}
TEST_CASE("harness: a number instead of NaN", "[.][!shouldfail]") {
  expect_close(Values{1, 2}, Values{1, quiet_nan<double>}, [](double) { return 1e300; });
}
TEST_CASE("harness: infinity of the other sign", "[.][!shouldfail]") {
  expect_close(Values{-infinity<double>}, Values{infinity<double>}, [](double) { return infinity<double>; });
}
TEST_CASE("harness: fewer values", "[.][!shouldfail]") { expect_close(Values{1}, Values{1, 2}, equal); }
TEST_CASE("harness: more than twice the error of a plain computation", "[.][!shouldfail]") {
  expect_close<float>(Values{1.21}, Values{1}, Values{1.1});
}
TEST_CASE("harness: another shape", "[.][!shouldfail]") {
  expect_close(Computed{"y", {2, 1}, {1, 2}}, Computed{"y", {1, 2}, {1, 2}}, equal);
}
TEST_CASE("harness: a gradient that is missing, though it would be zero", "[.][!shouldfail]") {
  expect_close(Computed{"dx", {1}, {0}, false}, Computed{"dx", {1}, {0}}, equal);
}

TEST_CASE("harness: a wrong gradient in double", "[.][!shouldfail]") {
  expect_gradients(identity_with<double>({.in_gradient = 1e-6}), three);
}
TEST_CASE("harness: a gradient that is left out", "[.][!shouldfail]") {
  expect_gradients(identity_with<double>({.leaves_gradient_out = true}), three);
}
TEST_CASE("harness: a wrong value in float", "[.][!shouldfail]") {
  expect_gradients(identity_with<float>({.in_value = 1e-3}), three);
}
TEST_CASE("harness: a wrong gradient in float", "[.][!shouldfail]") {
  expect_gradients(identity_with<float>({.in_gradient = 1e-3}), three);
}
TEST_CASE("harness: a gradient in bf16 that is far from double", "[.][!shouldfail]") {
  expect_agrees<bf16>(identity_with<bf16>({.in_gradient = 0.5}), three);
}
TEST_CASE("harness: a value that is not the golden one", "[.][!shouldfail]") {
  expect_case<float>(golden_identity(), {"x"}, identity_with<float>({.in_value = 1e-3}), 1e-6);
}
TEST_CASE("harness: a gradient that is not the golden one", "[.][!shouldfail]") {
  expect_case<float>(golden_identity(), {"x"}, identity_with<float>({.in_gradient = 1e-3}), 1e-6);
}
