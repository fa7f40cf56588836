#include <heddle/train/entity_scores.hpp>

#include "../catch.hpp"

using namespace heddle;
using namespace heddle::testing;
using train::Entity;
using Tags = std::vector<std::string>;

// The expected values are those of seqeval 1.2.2.
TEST_CASE("entities: of BIO, of BIOES, and of tags that follow neither") {
  const auto expect = [](const Tags& tags, const std::vector<Entity>& expected) {
    CAPTURE(tags);
    CHECK(train::entities(tags) == expected);
  };
  expect({}, {});
  expect({"O", "O"}, {});
  expect({"B-PER", "I-PER", "O", "B-LOC"}, {{"PER", 0, 2}, {"LOC", 3, 4}});
  expect({"B-PER", "B-PER", "I-LOC"}, {{"PER", 0, 1}, {"PER", 1, 2}, {"LOC", 2, 3}});
  expect({"B-PER", "I-PER", "E-PER", "S-LOC", "S-LOC"}, {{"PER", 0, 3}, {"LOC", 3, 4}, {"LOC", 4, 5}});
  expect({"I-PER", "I-PER", "O", "E-LOC"}, {{"PER", 0, 2}, {"LOC", 3, 4}});
  expect({"E-PER", "I-PER", "E-PER"}, {{"PER", 0, 1}, {"PER", 1, 3}});
  expect({"S-PER", "I-PER", "B-PER"}, {{"PER", 0, 1}, {"PER", 1, 2}, {"PER", 2, 3}});
  expect({"B-A-B", "I-A-B"}, {{"A-B", 0, 2}});
  for (const char* tag : {"", "PER", "B", "B-", "X-PER", "b-PER", "o"})
    CHECK_THROWS_WITH(train::entities(Tags{"O", tag}), "entities: tag 1 is '" + std::string(tag) +
                                                           "'; a tag is O, or B, I, E or S, a hyphen and a type");
}

TEST_CASE("EntityScores: precision, recall and F1, of all types and of each") {
  train::EntityScores scores;
  CHECK(scores.all().f1() == 0);
  CHECK(scores.macro_f1() == 0);
  scores.add(Tags{"B-PER", "I-PER", "O", "B-LOC"}, Tags{"B-PER", "I-PER", "O", "B-PER"});
  scores.add(Tags{"O", "B-LOC", "I-LOC"}, Tags{"O", "B-LOC", "O"});
  scores.add(Tags{"B-LOC"}, Tags{"B-LOC"});
  const train::EntityCounts all = scores.all(), person = scores.types().at("PER"), place = scores.types().at("LOC");
  CHECK(all.expected == 4);
  CHECK(all.predicted == 4);
  CHECK(all.correct == 2);
  CHECK(all.precision() == 0.5);
  CHECK(all.recall() == 0.5);
  CHECK(all.f1() == 0.5);
  CHECK(person.precision() == 0.5);
  CHECK(person.recall() == 1);
  CHECK(person.f1() == Approx(2.0 / 3));
  CHECK(place.precision() == 0.5);
  CHECK(place.recall() == Approx(1.0 / 3));
  CHECK(place.f1() == Approx(0.4));
  CHECK(scores.macro_f1() == Approx((2.0 / 3 + 0.4) / 2));
  CHECK_THROWS_WITH(scores.add(Tags{"O"}, Tags{}), "EntityScores: 1 expected tags, but 0 predicted tags");
}

TEST_CASE("EntityScores: the sums of several processes give the scores of all sequences") {
  const Tags types{"LOC", "ORG", "PER"};
  train::EntityScores first, second, merged;
  first.add(Tags{"B-PER", "I-PER", "O", "B-LOC"}, Tags{"B-PER", "I-PER", "O", "B-PER"});
  second.add(Tags{"O", "B-LOC", "I-LOC"}, Tags{"O", "B-LOC", "O"});
  std::vector<double> sums = first.sums(types);
  CHECK(sums == std::vector<double>{1, 0, 0, 0, 0, 0, 1, 2, 1});  // expected, predicted and correct of each type
  const std::vector<double> others = second.sums(types);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += others[i];
  merged.add_sums(types, sums);
  first.add_sums(types, others);
  CHECK(merged.sums(types) == sums);
  CHECK(first.sums(types) == sums);
  CHECK(merged.types().size() == 2);  // ORG did not occur, and has no part in the mean
  CHECK(merged.macro_f1() == Approx((2.0 / 3) / 2));
  CHECK(merged.all().expected == 3);

  CHECK_THROWS_WITH(merged.sums(Tags{"LOC"}), "EntityScores: the type 'PER' occurred, but is not in the list of types");
  CHECK_THROWS_WITH(merged.add_sums(types, std::vector<double>(4)), "EntityScores: 4 sums, but 3 types have 9");
  std::vector<double> wrong(9, 1.);
  wrong.back() = -1;
  CHECK_THROWS_WITH(merged.add_sums(types, wrong), "add_sums: -1 is not a count");
  CHECK(merged.sums(types) == sums);
}
