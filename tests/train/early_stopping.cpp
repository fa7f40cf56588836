#include <heddle/train/early_stopping.hpp>

#include <cmath>

#include "catch.hpp"
#include "io/files.hpp"

using namespace heddle;
using namespace heddle::testing;
using train::EarlyStopping;

TEST_CASE("EarlyStopping: stops after `patience` values in a row without an improvement") {
  EarlyStopping stopping({.patience = 2});
  CHECK(stopping.best() == std::numeric_limits<double>::infinity());
  CHECK_FALSE(stopping.improved());
  CHECK(stopping.since_best() == 0);
  struct Expected {
    double value;
    bool stop, improved;
    double best;
    Index since_best;
  };
  for (const Expected& e :
       {Expected{1.0, false, true, 1.0, 0}, Expected{0.9, false, true, 0.9, 0}, Expected{0.95, false, false, 0.9, 1},
        Expected{0.8, false, true, 0.8, 0}, Expected{0.8, false, false, 0.8, 1}, Expected{0.81, true, false, 0.8, 2},
        Expected{0.82, true, false, 0.8, 3}, Expected{0.7, false, true, 0.7, 0}}) {
    CAPTURE(e.value, e.best);
    CHECK(stopping.add(e.value) == e.stop);
    CHECK(stopping.improved() == e.improved);
    CHECK(stopping.best() == e.best);
    CHECK(stopping.since_best() == e.since_best);
  }
}

TEST_CASE("EarlyStopping: stops at the first value without an improvement by default") {
  EarlyStopping stopping;
  CHECK_FALSE(stopping.add(1));
  CHECK(stopping.add(1));
}

TEST_CASE("EarlyStopping: an improvement is lower by more than min_delta") {
  EarlyStopping stopping({.patience = 3, .min_delta = 0.25});
  CHECK_FALSE(stopping.add(4));
  CHECK(stopping.improved());
  for (const double value : {3.875, 3.75}) {
    CHECK_FALSE(stopping.add(value));
    CHECK_FALSE(stopping.improved());
  }
  CHECK(stopping.best() == 4);
  CHECK_FALSE(stopping.add(3.5));
  CHECK(stopping.improved());
  CHECK(stopping.best() == 3.5);
}

TEST_CASE("EarlyStopping: NaN and infinity are no improvement") {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    EarlyStopping stopping({.patience = 2});
    CHECK_FALSE(stopping.add(bad));
    CHECK_FALSE(stopping.improved());
    CHECK_FALSE(stopping.add(5));
    CHECK(stopping.improved());
    CHECK_FALSE(stopping.add(bad));
    CHECK(stopping.add(bad));
    CHECK(stopping.best() == 5);
  }
}

TEST_CASE("EarlyStopping: a restored state behaves as the original") {
  const double values[] = {3, 4, 2, 2.5, 2.6, 2.7};
  for (std::size_t stop = 0; stop < 5; ++stop) {
    EarlyStopping whole({.patience = 3}), first({.patience = 3}), second({.patience = 3});
    for (std::size_t i = 0; i < 6; ++i) {
      if (i == stop) second.restore(first.best(), first.since_best());
      EarlyStopping& resumed = i < stop ? first : second;
      CHECK(whole.add(values[i]) == resumed.add(values[i]));
      CHECK(whole.stopped() == resumed.stopped());
      CHECK(whole.improved() == resumed.improved());
    }
  }
  EarlyStopping stopping;
  CHECK_FALSE(stopping.stopped());
  stopping.restore(1, 1);
  CHECK(stopping.stopped());
  CHECK_THROWS_AS(stopping.restore(std::nan(""), 0), Error);
  CHECK_THROWS_AS(stopping.restore(1, -1), Error);
}

TEST_CASE("EarlyStopping: refuses options out of range") {
  CHECK(error_of<Error>([] { EarlyStopping({.patience = 0}); }) ==
        "EarlyStopping: the patience must be at least 1, got 0");
  CHECK_THROWS_AS(EarlyStopping({.patience = -1}), Error);
  CHECK(error_of<Error>([] { EarlyStopping({.min_delta = -0.5}); }) ==
        "EarlyStopping: min_delta must not be negative, got -0.5");
  CHECK_THROWS_AS(EarlyStopping({.min_delta = std::nan("")}), Error);
}
