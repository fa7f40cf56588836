#include <heddle/train/scores.hpp>

#include "catch.hpp"
#include "io/files.hpp"

using namespace heddle;
using namespace heddle::testing;
using train::ConfusionMatrix;

namespace {

ConfusionMatrix matrix_of(const std::vector<std::vector<int>>& counts) {
  ConfusionMatrix matrix(static_cast<int>(counts.size()));
  for (std::size_t label = 0; label < counts.size(); ++label)
    for (std::size_t predicted = 0; predicted < counts.size(); ++predicted)
      for (int i = 0; i < counts[label][predicted]; ++i)
        matrix.add(static_cast<int>(label), static_cast<int>(predicted));
  return matrix;
}

}  // namespace

TEST_CASE("ConfusionMatrix: two classes, whose metrics are those of class 1") {
  const ConfusionMatrix matrix = matrix_of({{50, 10}, {5, 35}});
  CHECK(matrix.classes() == 2);
  CHECK(matrix.rows() == 100);
  CHECK(matrix.count(0, 1) == 10);
  CHECK(std::vector<Index>(matrix.counts().begin(), matrix.counts().end()) == std::vector<Index>{50, 10, 5, 35});
  CHECK(matrix.labelled(0) == 60);
  CHECK(matrix.predicted(0) == 55);
  CHECK(matrix.accuracy() == 85 / 100.);
  CHECK(matrix.precision(0) == 50 / 55.);
  CHECK(matrix.recall(0) == 50 / 60.);
  CHECK(matrix.f1(0) == 100 / 115.);
  CHECK(matrix.precision() == 35 / 45.);
  CHECK(matrix.recall() == 35 / 40.);
  CHECK(matrix.f1() == 70 / 85.);
}

TEST_CASE("ConfusionMatrix: more classes, whose metrics are the means over the classes") {
  const ConfusionMatrix matrix = matrix_of({{5, 1, 0}, {2, 3, 1}, {0, 0, 4}});
  CHECK(matrix.accuracy() == 12 / 16.);
  const double precision[] = {5 / 7., 3 / 4., 4 / 5.}, recall[] = {5 / 6., 3 / 6., 4 / 4.},
               f1[] = {10 / 13., 6 / 10., 8 / 9.};
  for (int c = 0; c < 3; ++c) {
    CHECK(matrix.precision(c) == precision[c]);
    CHECK(matrix.recall(c) == recall[c]);
    CHECK(matrix.f1(c) == f1[c]);
  }
  CHECK(matrix.precision() == Approx((5 / 7. + 3 / 4. + 4 / 5.) / 3));
  CHECK(matrix.recall() == Approx((5 / 6. + 3 / 6. + 4 / 4.) / 3));
  CHECK(matrix.f1() == Approx((10 / 13. + 6 / 10. + 8 / 9.) / 3));
}

TEST_CASE("ConfusionMatrix: 0/0 is 0") {
  for (const int classes : {2, 3}) {
    const ConfusionMatrix empty(classes);
    CHECK(empty.rows() == 0);
    for (const double metric : {empty.accuracy(), empty.precision(), empty.recall(), empty.f1(), empty.precision(0),
                                empty.recall(0), empty.f1(0)})
      CHECK(metric == 0);
  }
  const ConfusionMatrix never = matrix_of({{3, 0, 0}, {2, 0, 0}, {0, 0, 0}});
  CHECK(never.precision(1) == 0);  // never predicted
  CHECK(never.recall(2) == 0);     // no rows
  CHECK(never.f1(2) == 0);
  CHECK(never.recall() == Approx(1 / 3.));
}

TEST_CASE("ConfusionMatrix: refuses a number that is not a class") {
  ConfusionMatrix matrix(3);
  CHECK(error_of<IndexError>([&] { matrix.add(3, 0); }) == "ConfusionMatrix: class 3 is out of range for 3 classes");
  CHECK(error_of<IndexError>([&] { matrix.add(0, -1); }) == "ConfusionMatrix: class -1 is out of range for 3 classes");
  CHECK(matrix.rows() == 0);
  CHECK_THROWS_AS(matrix.count(0, 3), IndexError);
  CHECK_THROWS_AS(matrix.precision(3), IndexError);
  CHECK_THROWS_AS(matrix.recall(-1), IndexError);
  CHECK_THROWS_AS(matrix.f1(3), IndexError);
  CHECK_THROWS_AS(matrix.labelled(3), IndexError);
  CHECK_THROWS_AS(matrix.predicted(-1), IndexError);
  for (const int classes : {1, 0, -2, 10'001, 2147483647})
    CHECK(error_of<Error>([&] { ConfusionMatrix{classes}; }) ==
          "ConfusionMatrix: the number of classes must be from 2 to 10000, got " + std::to_string(classes));
}

TEST_CASE("to_text: a confusion matrix with names of several lengths") {
  CHECK(to_text(matrix_of({{50, 10}, {5, 35}}), {"no", "yes, surely"}) ==
        "               no yes,   precision     recall         f1\n"
        "no             50    10     0.9091     0.8333     0.8696\n"
        "yes, surely     5    35     0.7778     0.8750     0.8235\n");
  ConfusionMatrix many(2);
  for (int i = 0; i < 1234567; ++i) many.add(1, 0);
  CHECK(to_text(many, {"negative", ""}) ==
        "         negativ          precision     recall         f1\n"
        "negative       0       0     0.0000     0.0000     0.0000\n"
        "         1234567       0     0.0000     0.0000     0.0000\n");
}

TEST_CASE("to_text: columns of a confusion matrix are aligned by code points, and no code point is cut") {
  CHECK(to_text(matrix_of({{1, 0, 0}, {0, 2, 0}, {0, 1, 1}}),
                {"fran\u00E7ais", "\u0440\u0443\u0441\u0441\u043A\u0438\u0439", "en"}) ==
        "         fran\u00E7 \u0440\u0443\u0441\u0441\u043A    en  precision     recall         f1\n"
        "fran\u00E7ais     1     0     0     1.0000     1.0000     1.0000\n"
        "\u0440\u0443\u0441\u0441\u043A\u0438\u0439      0     2     0     0.6667     1.0000     0.8000\n"
        "en           0     1     1     1.0000     0.5000     0.6667\n");
  // A name stays on its line and is UTF-8.
  CHECK(to_text(ConfusionMatrix(2), {"a\nb", "\xFF"}) ==
        "       a\\x0a  \\xff  precision     recall         f1\n"
        "a\\x0ab     0     0     0.0000     0.0000     0.0000\n"
        "\\xff       0     0     0.0000     0.0000     0.0000\n");
}

TEST_CASE("to_text: refuses a wrong number of names") {
  CHECK_THROWS_WITH(to_text(ConfusionMatrix(3), std::vector<std::string>{"a", "b"}),
                    "to_text: one name per class is needed, got 2 names for 3 classes");
  CHECK_THROWS_AS(to_text(ConfusionMatrix(2), {}), Error);
}

TEST_CASE("Scores: the mean loss weighs batches by their rows") {
  train::Scores scores(2);
  CHECK(scores.loss() == 0);
  scores.add_loss(1, 3);
  scores.add_loss(5, 1);
  CHECK(scores.rows == 4);
  CHECK(scores.loss() == 2);
  CHECK(scores.confusion.rows() == 0);
}
