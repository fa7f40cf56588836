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
