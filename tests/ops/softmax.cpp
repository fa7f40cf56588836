#include <heddle/ops/softmax.hpp>

#include "harness/agreement.hpp"
#include "harness/golden.hpp"
#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

TEST_CASE("softmax, log_softmax: values and gradients are PyTorch's") {
  expect_golden("softmax", {"x"}, [](const Case& c, const auto& x) {
    const int axis = static_cast<int>(c.option("axis"));
    return c.has("mask") ? softmax(x[0], Tensor<bool>(c["mask"].shape, c["mask"].as<bool>()).to(x[0].device()), axis)
                         : softmax(x[0], axis);
  });
  expect_golden("log_softmax", {"x"},
                [](const Case& c, const auto& x) { return log_softmax(x[0], static_cast<int>(c.option("axis"))); });
}

TEST_CASE("softmax, log_softmax: gradients match finite differences along any axis") {
  for (const Shape& s : {Shape{3, 5}, {1, 1}, {2, 33, 3}, {0, 4}, {4, 0}, {2, 0, 3}, {257}})
    for (int axis = 0; axis < s.rank(); ++axis) {
      CAPTURE(s, axis);
      expect_gradients([&](const auto& in) { return softmax(in[0], axis); }, {random(s, 1)});
      expect_gradients([&](const auto& in) { return log_softmax(in[0], axis); }, {random(s, 1)});
    }
  const Tensor<bool> mask({3, 1, 4}, {true, false, true, true, false, false, false, false, false, true, false, false});
  for (const int axis : {0, 1, 2}) {
    const auto masked = [&](const auto& in) { return softmax(in[0], mask.to(in[0].device()), axis); };
    expect_gradients(masked, {random({3, 2, 4}, 1)});
    expect_agrees<float>(masked, {random<float>({3, 2, 4}, 1)});
  }
}

TEST_CASE("softmax: a masked element gives 0, whatever it holds; a NaN that is not masked gives NaN") {
  const float inf = infinity<float>, nan = quiet_nan<float>;
  const auto check = [&](int axis, Device device) {  // in rows and in columns
    CAPTURE(axis);
    const auto mask = Tensor<bool>({4}, {true, false, true, false}).to(device);
    const auto x = (axis == 0 ? Tensor<float>({4, 2}, {1, 1, nan, inf, 1, 1, inf, nan})
                              : Tensor<float>({2, 4}, {1, nan, 1, inf, 1, inf, 1, nan}))
                       .to(device);
    const auto v = variable(x);
    const auto y = softmax(v, axis == 0 ? mask.with_shape({4, 1}) : mask, axis);
    CHECK(y.host() == (axis == 0 ? std::vector<float>{0.5, 0.5, 0, 0, 0.5, 0.5, 0, 0}
                                 : std::vector<float>{0.5, 0, 0.5, 0, 0.5, 0, 0.5, 0}));
    backward(y, ones<float>(y.shape(), device));
    CHECK(v.grad().host() == std::vector<float>(8, 0.f));
    CHECK(softmax(x, full<bool>({1}, false, device), axis).host() == std::vector<float>(8, 0.f));
    for (const float element : softmax(x, axis).host()) CHECK(std::isnan(element));
  };
  on_each_device<float>([&](Device device) {
    check(-1, device);
    check(0, device);
  });
}

namespace {

// A row of n - 1 elements `rest` and a last element `value`. Softmax must give `elsewhere` for the former and `at` for
// the last. If `is_masked`, it is called with a mask that keeps everything.
struct Row {
  double value, rest, at, elsewhere;
  bool is_masked = false;
};
template <class T>
void expect_softmax_of(const Row& row, Index n, Index inner, Device device) {
  CAPTURE(row.value, row.rest, row.is_masked, n, inner);
  Tensor<double> x = full<double>({2, n, inner}, row.rest), expected = full<double>(x.shape(), row.elsewhere);
  for (Index o = 0; o < 2; ++o)
    for (Index i = 0; i < inner; ++i) {
      x.data()[(o * n + n - 1) * inner + i] = row.value;
      expected.data()[(o * n + n - 1) * inner + i] = row.at;
    }
  const auto given = converted<T>(x, device);
  const auto y = row.is_masked ? softmax(given, full<bool>({}, true, device), 1) : softmax(given, 1);
  expect_close(joined(y.host()), expected.host(), equal);
}

}  // namespace

TEST_CASE("softmax: infinities and NaN, in rows and columns of any length") {
  const double inf = infinity<double>, nan = quiet_nan<double>;
  std::vector<Row> rows{{-inf, -inf, nan, nan, false}, {-inf, -inf, 0, 0, true}};
  for (const bool is_masked : {false, true})
    for (const Row& row :
         {Row{0, -inf, 1, 0}, {100, -1e30, 1, 0}, {inf, 0, nan, nan}, {nan, 0, nan, nan}, {nan, -inf, nan, nan}})
      rows.push_back({row.value, row.rest, row.at, row.elsewhere, is_masked});
  const auto check = [&]<class T>(T, Index n, Index inner) {
    on_each_device<T>([&](Device device) {
      for (const Row& row : rows) expect_softmax_of<T>(row, n, inner, device);
    });
  };
  for (const Index n : {2, 33, 256, 1024, 1032})
    for (const Index inner : {1, 3}) check(float(), n, inner);
  check(float(), 33'000, 1);
  check(double(), 33, 1);
}

TEST_CASE("softmax: errors name the axis and the shapes") {
  const Tensor<float> x({2, 3});
  CHECK_THROWS_WITH(softmax(x, 2), "softmax: axis 2 does not exist in shape [2, 3]");
  CHECK_THROWS_WITH(log_softmax(x, -3), "log_softmax: axis -3 does not exist in shape [2, 3]");
  CHECK_THROWS_WITH(softmax(x, Tensor<bool>({4, 2, 3})), "softmax: mask [4, 2, 3] does not broadcast to x [2, 3]");
  CHECK_THROWS_AS(softmax(x, Tensor<bool>({4})), ShapeError);
}
