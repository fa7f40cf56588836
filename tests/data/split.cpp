#include <heddle/data/split.hpp>

#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <string>

#include "../catch.hpp"

using namespace heddle;
using namespace heddle::data;

namespace {

// The given number of rows for each label. Each row has its own key.
struct LabelledRows {
  std::vector<int> labels;
  std::vector<std::string> keys;

  explicit LabelledRows(const std::vector<std::pair<int, int>>& counts) {
    for (const auto& [label, count] : counts)
      for (int i = 0; i < count; ++i) labels.push_back(label), keys.push_back(std::to_string(keys.size()));
  }
};

std::vector<Index> all_rows_of(const Split& split) {
  std::vector<Index> rows = split.train;
  rows.insert(rows.end(), split.valid.begin(), split.valid.end());
  rows.insert(rows.end(), split.test.begin(), split.test.end());
  std::sort(rows.begin(), rows.end());
  return rows;
}

std::vector<Index> rows_up_to(std::size_t count) {
  std::vector<Index> rows(count);
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

std::map<int, Index> count_by_label(const std::vector<Index>& rows, const std::vector<int>& labels) {
  std::map<int, Index> counts;
  for (const Index row : rows) ++counts[labels[static_cast<std::size_t>(row)]];
  return counts;
}

bool same_split(const Split& a, const Split& b) { return a.train == b.train && a.valid == b.valid && a.test == b.test; }

}  // namespace

TEST_CASE("stratified_split: each class is split by the shares, and each row is in one part") {
  const LabelledRows rows({{7, 100}, {-1, 40}, {3, 9}, {0, 4}});
  const Split split = stratified_split(rows.labels, rows.keys, {.valid = 0.2, .test = 0.1});
  CHECK(all_rows_of(split) == rows_up_to(153));
  // The shares are rounded to whole rows: 0.2 * 9 to 2, 0.2 * 4 to 1, 0.1 * 9 to 1 and 0.1 * 4 to 0.
  CHECK(count_by_label(split.valid, rows.labels) == std::map<int, Index>{{7, 20}, {-1, 8}, {3, 2}, {0, 1}});
  CHECK(count_by_label(split.test, rows.labels) == std::map<int, Index>{{7, 10}, {-1, 4}, {3, 1}});
  CHECK(count_by_label(split.train, rows.labels) == std::map<int, Index>{{7, 70}, {-1, 28}, {3, 6}, {0, 3}});
}

TEST_CASE("stratified_split: each part is drawn at random and in random order") {
  const LabelledRows rows({{0, 200}, {1, 200}});
  const Split split = stratified_split(rows.labels, rows.keys);
  for (const auto* part : {&split.train, &split.valid, &split.test}) {
    CHECK_FALSE(std::is_sorted(part->begin(), part->end()));
    std::size_t changes = 0;
    for (std::size_t i = 1; i < part->size(); ++i)
      changes +=
          rows.labels[static_cast<std::size_t>((*part)[i])] != rows.labels[static_cast<std::size_t>((*part)[i - 1])];
    // On average half of the neighboring pairs have different classes; if the classes were not mixed, only
    // one pair would.
    CHECK(changes > part->size() / 4);
    CHECK(changes < part->size() * 3 / 4);
  }
  const double mean = std::accumulate(split.valid.begin(), split.valid.end(), 0.) / 40;
  CHECK(mean > 120);  // 199.5 on average
  CHECK(mean < 280);
}

TEST_CASE("stratified_split: rows with the same label and key stay in one part") {
  std::vector<int> labels;
  std::vector<std::vector<int>> keys;
  for (int row = 0; row < 600; ++row) {
    labels.push_back(row % 2);
    keys.push_back({row % 7, row % 11});  // 77 keys of each label, with 3 or 4 rows each
  }
  const Split split = stratified_split(labels, keys, {.valid = 0.25, .test = 0.25, .seed = 3});
  CHECK(all_rows_of(split) == rows_up_to(600));
  std::map<std::pair<int, std::vector<int>>, std::set<int>> parts;
  int number = 0;
  for (const auto* part : {&split.train, &split.valid, &split.test}) {
    for (const Index row : *part)
      parts[{labels[static_cast<std::size_t>(row)], keys[static_cast<std::size_t>(row)]}].insert(number);
    ++number;
  }
  CHECK(parts.size() == 154);
  for (const auto& [key, of_key] : parts) CHECK(of_key.size() == 1);
  for (const auto* part : {&split.valid, &split.test})
    for (const auto& [label, count] : count_by_label(*part, labels)) {
      CHECK(count <= 75);
      CHECK(count > 70);
    }
}

TEST_CASE("stratified_split: a class that has one row, or one key in all rows, is in the training part") {
  const std::vector<int> labels{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  const std::vector<std::string> keys(labels.size(), "the same text");
  const Split split = stratified_split(labels, keys, {.valid = 0.4, .test = 0.4});
  CHECK(all_rows_of(split) == rows_up_to(11));
  CHECK(split.valid.empty());
  CHECK(split.test.empty());
  CHECK(split.train.size() == 11);
}

TEST_CASE("stratified_split: the result is a function of the arguments") {
  const LabelledRows rows({{0, 50}, {1, 50}});
  const auto split = [&](SplitOptions options) { return stratified_split(rows.labels, rows.keys, options); };
  CHECK(same_split(split({.seed = 1}), split({.seed = 1})));
  CHECK_FALSE(same_split(split({.seed = 1}), split({.seed = 2})));
  CHECK(split({.seed = 1}).valid != split({.seed = 2}).valid);
  CHECK(split({.seed = 1}).valid != split({.seed = 1, .first_stream = 100}).valid);
  CHECK(split({.seed = 1}).train != split({.seed = 1, .first_stream = 100}).train);
  // The split of class 0 does not depend on the rows of class 1.
  const LabelledRows fewer({{0, 50}, {1, 10}});
  const auto of_class_0 = [&](const Split& all) {
    std::vector<Index> valid;
    for (const Index row : all.valid)
      if (row < 50) valid.push_back(row);
    std::sort(valid.begin(), valid.end());
    return valid;
  };
  CHECK(of_class_0(stratified_split(fewer.labels, fewer.keys, {.seed = 1})) == of_class_0(split({.seed = 1})));
}

TEST_CASE("stratified_split: shares of zero give empty parts") {
  const LabelledRows rows({{0, 30}, {1, 30}});
  const Split none = stratified_split(rows.labels, rows.keys, {.valid = 0, .test = 0});
  CHECK(none.train.size() == 60);
  CHECK(none.valid.empty());
  CHECK(none.test.empty());
  const Split no_test = stratified_split(rows.labels, rows.keys, {.valid = 0.5, .test = 0});
  CHECK(no_test.valid.size() == 30);
  CHECK(no_test.test.empty());
  const Split no_valid = stratified_split(rows.labels, rows.keys, {.valid = 0, .test = 0.5});
  CHECK(no_valid.valid.empty());
  CHECK(no_valid.test.size() == 30);
}

TEST_CASE("stratified_split: without rows all parts are empty") {
  const Split split = stratified_split(std::vector<int>{}, std::vector<std::string>{});
  CHECK(all_rows_of(split).empty());
}

TEST_CASE("stratified_split: refuses keys and shares that do not fit") {
  const std::vector<int> labels{0, 1};
  const std::vector<std::string> keys{"a", "b"};
  CHECK_THROWS_WITH(stratified_split(labels, std::vector<std::string>{"a"}),
                    "stratified_split: each row needs a label and a key, got 2 labels and 1 keys");
  CHECK_THROWS_AS(stratified_split(labels, std::vector<std::string>{}), ShapeError);
  CHECK_THROWS_WITH(stratified_split(labels, keys, {.valid = 0.5, .test = 0.5}),
                    "stratified_split: the shares 0.5 and 0.5 must not be negative, and their sum must be below 1");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [valid, test] :
       std::vector<std::pair<double, double>>{{-0.1, 0.1}, {0.1, -0.1}, {1, 0}, {0, 1}, {nan, 0.1}, {0.1, nan}})
    CHECK_THROWS_AS(stratified_split(labels, keys, {.valid = valid, .test = test}), Error);
}
