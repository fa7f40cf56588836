#include <heddle/train/regression_scores.hpp>
#include <limits>
#include <utility>
#include <vector>

#include "../catch.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

train::RegressionScores regression(const std::vector<std::pair<double, double>>& pairs) {
  train::RegressionScores scores;
  for (const auto& [expected, predicted] : pairs) scores.add(expected, predicted);
  return scores;
}

}  // namespace

TEST_CASE("RegressionScores: the values of scikit-learn and SciPy") {
  const auto scores = regression(
      {{0.0, 0.31}, {1.2, 0.12}, {2.5, 0.55}, {2.5, 0.6}, {3.8, 0.55}, {5.0, 0.93}, {4.1, 0.88}, {1.2, 0.2}});
  CHECK(scores.count() == 8);
  CHECK(scores.mse() == Approx(5.89635).epsilon(1e-14));                  // sklearn.metrics.mean_squared_error
  CHECK(scores.pearson() == Approx(0.8837032105090983).epsilon(1e-14));   // scipy.stats.pearsonr 1.17.1
  CHECK(scores.spearman() == Approx(0.8666825838483473).epsilon(1e-14));  // scipy.stats.spearmanr
}

TEST_CASE("RegressionScores: worked by hand") {
  CHECK(regression({{1, 3}, {2, 2}}).mse() == 2);
  CHECK(regression({{1, 3}, {2, 2}}).pearson() == Approx(-1));
  CHECK(regression({{1, 1}, {2, 2}, {3, 4}}).pearson() == Approx(3 / std::sqrt(28. / 3)));
  CHECK(regression({{1, 1}, {2, 2}, {3, 400}}).spearman() == Approx(1));
  // The ranks are 1, 2.5, 2.5, 4 and 1, 3, 3, 3.
  CHECK(regression({{1, 10}, {2, 20}, {2, 20}, {3, 20}}).spearman() == Approx(std::sqrt(2. / 3)));
  CHECK(regression({{-0.0, 1}, {0.0, 1}, {1, 2}}).spearman() == Approx(1));
}

TEST_CASE("RegressionScores: correlations are 0 for fewer than two pairs and for constant values") {
  const double tenth = 0.1;  // the mean of several is not 0.1 in double
  for (const auto& scores : {regression({}), regression({{1, 2}}), regression({{tenth, 1}, {tenth, 2}, {tenth, 5}}),
                             regression({{1, tenth}, {2, tenth}, {5, tenth}})}) {
    CHECK(scores.pearson() == 0);
    CHECK(scores.spearman() == 0);
  }
  CHECK(regression({}).count() == 0);
  CHECK(regression({}).mse() == 0);
  CHECK(regression({{1, 2}}).mse() == 1);
}

TEST_CASE("RegressionScores: correlations do not depend on the mean and the scale of the values") {
  const std::vector<std::pair<double, double>> pairs{{0, 3}, {1, 1}, {2, 5}, {2, 6}, {3, 5}, {5, 9}, {4, 8}, {1, 2}};
  constexpr double expected = 0.894172477285225;  // scipy.stats.pearsonr
  const auto check = [&](double mean, double scale) {
    CAPTURE(mean, scale);
    train::RegressionScores scores;
    for (const auto& [a, b] : pairs) scores.add(mean + scale * a, -mean + scale * b);
    CHECK(scores.pearson() == Approx(expected).epsilon(1e-13));
  };
  check(0, 1);
  check(1e9, 1);
  check(1e15, 1);
  check(0, 1e-30);
  check(0, 1e-200);
  check(0, 1e37);
  // Many values far from 0, whose sum is rounded.
  train::RegressionScores many;
  for (int i = 0; i < 100'000; ++i) many.add(1e12 + i % 7, 3e12 + 2 * (i % 7));
  CHECK(many.pearson() == Approx(1).epsilon(1e-13));
  CHECK(many.pearson() <= 1);
}

TEST_CASE("RegressionScores: refuses values that are not finite") {
  train::RegressionScores scores;
  scores.add(1, 2);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  CHECK_THROWS_WITH(
      scores.add(1, std::numeric_limits<double>::quiet_NaN()),
      "RegressionScores: the predicted value of pair 1 is nan; it must be finite and in the range of float");
  CHECK_THROWS_WITH(scores.add(1, infinity), ContainsSubstring("predicted value of pair 1 is inf;"));
  CHECK_THROWS_WITH(scores.add(-infinity, 1), ContainsSubstring("expected value of pair 1 is -inf;"));
  CHECK_THROWS_AS(scores.add(1e39, 1), Error);
  CHECK(scores.count() == 1);
}
