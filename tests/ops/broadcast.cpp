#include <heddle/core/tensor.hpp>
#include <heddle/ops/broadcast.hpp>

#include "catch.hpp"

using namespace heddle;

namespace {
Shape common(const Shape& a, const Shape& b, int apart = 0) {
  return detail::broadcast_shape("op", {{"a", Tensor<bool>(a)}, {"b", Tensor<bool>(b)}}, apart);
}
}  // namespace

TEST_CASE("broadcast: shapes are aligned at their last axes") {
  CHECK(common({}, {}) == Shape{});
  CHECK(common({}, {2, 3}) == Shape{2, 3});
  CHECK(common({3, 1}, {4}) == Shape{3, 4});
  CHECK(common({2, 1, 3}, {5, 1}) == Shape{2, 5, 3});
  CHECK(common({0}, {1}) == Shape{0});
  CHECK(common({0}, {3, 1}) == Shape{3, 0});
  CHECK(common({6, 4, 5}, {7, 1, 3, 4}, 2) == Shape{7, 6});
  CHECK(common({5}, {4, 5, 3}, 2) == Shape{4});
  CHECK_THROWS_AS(common({0}, {3}), ShapeError);
  CHECK_THROWS_AS(common({2, 3}, {2}), ShapeError);
}

TEST_CASE("broadcast: the third operand may be the one that disagrees") {
  const Tensor<bool> a({1, 3}), b({4, 3}), c({5, 1});
  CHECK_THROWS_WITH(detail::broadcast_shape("where", {{"condition", a}, {"a", b}, {"b", c}}),
                    "where: 'axis -2' disagrees between a and b\n"
                    "  a  [4, 3]    axis 0 is 4\n"
                    "  b  [5, 1]    axis 0 is 5\n"
                    "  broadcasting repeats axes of extent 1 only");
}

TEST_CASE("broadcast: adjacent axes are merged if every operand either has or repeats both") {
  CHECK(detail::broadcast_plan(Shape{4, 5, 6}, Shape{4, 5, 6}, Shape{4, 5, 6}).rank == 1);
  CHECK(detail::broadcast_plan(Shape{4, 5, 6}, Shape{4, 5, 6}, Shape{}).rank == 1);
  CHECK(detail::broadcast_plan(Shape{4, 1, 6}, Shape{4, 1, 6}, Shape{6}).rank == 2);
  CHECK(detail::broadcast_plan(Shape{2, 3, 4}, Shape{2, 1, 4}, Shape{1, 3, 1}).rank == 3);
  const auto scalar = detail::broadcast_plan(Shape{1, 1}, Shape{1}, Shape{1, 1});
  CHECK((scalar.rank == 1 && scalar.size == 1 && scalar.extent[0] == 1));

  const auto plan = detail::broadcast_plan(Shape{2, 3, 4}, Shape{2, 1, 4}, Shape{3, 1});
  CHECK((plan.stride[0][0] == 1 && plan.stride[1][0] == 0));
  for (Index n = 0; n < 6; ++n) {
    CHECK(plan.offset(0, n) == n / 3 * 4);
    CHECK(plan.offset(1, n) == n % 3);
  }
}
