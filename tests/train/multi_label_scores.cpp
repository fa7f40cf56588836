#include <heddle/train/multi_label_scores.hpp>
#include <limits>

#include "../catch.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

using Flags = std::vector<std::uint8_t>;  // of one row

}  // namespace

TEST_CASE("MultiLabelScores: the values of scikit-learn") {
  train::MultiLabelScores scores(4);
  scores.add(Flags{1, 0, 1, 0}, Flags{1, 0, 1, 0});
  scores.add(Flags{0, 1, 0, 0}, Flags{0, 1, 1, 0});
  scores.add(Flags{1, 1, 0, 0}, Flags{1, 0, 0, 0});
  scores.add(Flags{0, 0, 0, 0}, Flags{0, 0, 0, 0});
  scores.add(Flags{1, 0, 0, 0}, Flags{0, 1, 0, 0});
  CHECK(scores.rows() == 5);
  // sklearn.metrics.f1_score and accuracy_score 1.9.1 with zero_division=0. No row has label 3.
  CHECK(scores.f1_micro() == Approx(0.6666666666666666));
  CHECK(scores.f1_macro() == Approx(0.4916666666666667));
  CHECK(scores.accuracy() == Approx(0.4));
  REQUIRE(scores.labels().size() == 4);
  CHECK(scores.labels()[0].f1() == Approx(0.8));
  CHECK(scores.labels()[1].f1() == Approx(0.5));
  CHECK(scores.labels()[2].f1() == Approx(2.0 / 3));
  CHECK(scores.labels()[3].f1() == 0);
  CHECK(scores.labels()[0].expected == 3);
  CHECK(scores.labels()[0].predicted == 2);
  CHECK(scores.labels()[0].correct == 2);
  CHECK(scores.all().precision() == Approx(4.0 / 6));
  CHECK(scores.all().recall() == Approx(4.0 / 6));
}

TEST_CASE("MultiLabelScores: no rows, no labels in any row, and one label") {
  train::MultiLabelScores none(2);
  CHECK(none.rows() == 0);
  CHECK(none.f1_micro() == 0);
  CHECK(none.f1_macro() == 0);
  CHECK(none.accuracy() == 0);
  none.add(Flags{0, 0}, Flags{0, 0});
  CHECK(none.f1_micro() == 0);
  CHECK(none.f1_macro() == 0);
  CHECK(none.accuracy() == 1);
  train::MultiLabelScores one(1);
  one.add(Flags{2}, Flags{255});  // any value but 0 means that the row has the label
  CHECK(one.f1_micro() == 1);
  CHECK(one.f1_macro() == 1);
  CHECK(one.accuracy() == 1);
}

TEST_CASE("MultiLabelScores: the sums of several processes give the scores of all rows") {
  train::MultiLabelScores first(3), second(3), all(3), merged(3);
  const auto add = [&](train::MultiLabelScores& part, const Flags& expected, const Flags& predicted) {
    part.add(expected, predicted);
    all.add(expected, predicted);
  };
  add(first, {1, 0, 1}, {1, 1, 0});
  add(first, {0, 0, 1}, {0, 0, 1});
  add(second, {1, 1, 1}, {1, 1, 1});
  std::vector<double> sums = first.sums();
  CHECK(sums == std::vector<double>{2, 1, 1, 1, 1, 0, 1, 0, 2, 1, 1});  // rows, correct rows, three for each label
  const std::vector<double> others = second.sums();
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += others[i];
  merged.add_sums(sums);
  CHECK(merged.sums() == all.sums());
  CHECK(merged.accuracy() == Approx(2.0 / 3));
  first.add_sums(others);
  CHECK(first.sums() == all.sums());
  CHECK(first.f1_macro() == all.f1_macro());
}

TEST_CASE("MultiLabelScores: refuses other numbers of labels and sums that are not counts") {
  CHECK_THROWS_WITH(train::MultiLabelScores(0), "MultiLabelScores: the number of labels must be at least 1, got 0");
  CHECK_THROWS_AS(train::MultiLabelScores(-1), Error);
  train::MultiLabelScores scores(2);
  CHECK_THROWS_WITH(scores.add(Flags{1}, Flags{1, 0}),
                    "MultiLabelScores: 1 expected and 2 predicted values, but 2 labels");
  CHECK_THROWS_AS(scores.add(Flags{1, 0}, Flags{1, 0, 1}), ShapeError);
  CHECK_THROWS_WITH(scores.add_sums(std::vector<double>(5)), "MultiLabelScores: 5 sums, but 2 labels have 8");
  for (const double wrong : {-1., 0.5, 1e300, std::numeric_limits<double>::quiet_NaN()}) {
    std::vector<double> sums(8, 1.);
    sums[7] = wrong;
    CHECK_THROWS_WITH(scores.add_sums(sums), ContainsSubstring("is not a count"));
  }
  CHECK(scores.rows() == 0);
}
