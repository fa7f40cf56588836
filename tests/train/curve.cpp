#include <heddle/train/curve.hpp>

#include <cmath>
#include <limits>

#include "catch.hpp"
#include "io/files.hpp"

using namespace heddle;
using namespace heddle::testing;
using train::Curve;

namespace {

double curve_value(Index step) { return std::sin(static_cast<double>(step) / 100) + 1 / static_cast<double>(step); }

Curve curve_of(Index steps) {
  Curve curve;
  for (Index step = 1; step <= steps; ++step) curve.add(curve_value(step));
  return curve;
}

bool same_curve(const Curve& a, const Curve& b) {
  return a.interval() == b.interval() && a.means() == b.means() && a.pending_sum() == b.pending_sum() &&
         a.pending_count() == b.pending_count();
}

}  // namespace

TEST_CASE("Curve: the points of runs of several lengths are means over their intervals") {
  struct Expected {
    Index steps, interval;
    std::size_t points;
    Index pending;
  };
  for (const Expected& e : {Expected{0, 1, 0, 0}, Expected{1, 1, 1, 0}, Expected{511, 1, 511, 0},
                            Expected{512, 2, 256, 0}, Expected{513, 2, 256, 1}, Expected{514, 2, 257, 0},
                            Expected{1023, 2, 511, 1}, Expected{1024, 4, 256, 0}, Expected{100'000, 256, 390, 160}}) {
    CAPTURE(e.steps);
    const Curve curve = curve_of(e.steps);
    CHECK(curve.interval() == e.interval);
    CHECK(curve.pending_count() == e.pending);
    REQUIRE(curve.means().size() == e.points);
    for (std::size_t i = 0; i < e.points; ++i) {
      double sum = 0;
      const Index before = static_cast<Index>(i) * e.interval;
      for (Index step = before + 1; step <= before + e.interval; ++step) sum += curve_value(step);
      REQUIRE(curve.means()[i] == Approx(sum / static_cast<double>(e.interval)).epsilon(1e-12).margin(1e-12));
    }
    double pending = 0;
    for (Index step = e.steps - e.pending + 1; step <= e.steps; ++step) pending += curve_value(step);
    CHECK(curve.pending_sum() == pending);
  }
}

TEST_CASE("Curve: has fewer than 512 points, and from step 256 on at least 256") {
  Curve curve;
  for (Index step = 1; step <= 5000; ++step) {
    curve.add(0);
    REQUIRE(curve.means().size() < Curve::limit);
    REQUIRE((step < 256 || curve.means().size() >= 256));
  }
}

TEST_CASE("Curve: a restored curve continues bit for bit as if the run had not been interrupted") {
  const Curve whole = curve_of(5000);
  for (const Index pause : {0, 1, 255, 511, 512, 513, 1023, 1024, 3001, 4999, 5000}) {
    CAPTURE(pause);
    const Curve before = curve_of(pause);
    Curve curve(before.interval(), before.means(), before.pending_sum(), before.pending_count());
    CHECK(same_curve(curve, before));
    for (Index step = pause + 1; step <= 5000; ++step) curve.add(curve_value(step));
    CHECK(same_curve(curve, whole));
  }
}

TEST_CASE("Curve: refuses what is not the state of a curve") {
  const auto points = [](std::size_t count) { return std::vector<double>(count); };
  CHECK(error_of<Error>([&] { Curve(0, points(3), 0, 0); }) ==
        "Curve: an interval of 0 with 3 points and 0 pending values with the sum 0 is not the state of a curve");
  CHECK_THROWS_AS(Curve(-1, points(0), 0, 0), Error);
  CHECK_THROWS_AS(Curve(std::numeric_limits<Index>::min(), points(300), 0, 0), Error);
  CHECK_THROWS_AS(Curve(1, points(512), 0, 0), Error);
  CHECK_THROWS_AS(Curve(1, points(3), 0, 1), Error);  // a whole interval is a point
  CHECK_THROWS_AS(Curve(2, points(300), 0, -1), Error);
  CHECK_THROWS_AS(Curve(3, points(300), 0, 0), Error);  // an interval is a power of two
  CHECK_THROWS_AS(Curve(2, points(255), 0, 0), Error);  // doubling the interval leaves at least 256 points
  CHECK_THROWS_AS(Curve(2, points(300), 1.5, 0), Error);
  CHECK(Curve(1, points(511), 0, 0).means().size() == 511);
  CHECK(Curve(2, points(256), 1.5, 1).pending_sum() == 1.5);
}
