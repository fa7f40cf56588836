#include <heddle/core/sequences.hpp>

#include "catch.hpp"

using namespace heddle;
using namespace heddle::testing;

TEST_CASE("sequences: packed rows follow each other") {
  const Sequences s = Sequences::packed({2, 0, 3});
  CHECK(s.count() == 3);
  CHECK(s.rows() == 5);
  CHECK(s.longest() == 3);
  CHECK(s.begin().host() == std::vector<int>{0, 2, 2});
  CHECK(s.length().host() == std::vector<int>{2, 0, 3});
  CHECK(s.position().host() == std::vector<int>{0, 1, 0, 1, 2});
  CHECK(Sequences::packed({}).rows() == 0);
}

TEST_CASE("sequences: padded rows begin at multiples of T") {
  const Sequences s = Sequences::padded({2, 0, 3}, 4);
  CHECK(s.rows() == 12);
  CHECK(s.longest() == 3);
  CHECK(s.padded_to() == 4);
  CHECK(s.begin().host() == std::vector<int>{0, 4, 8});
  CHECK(s.position().host() == std::vector<int>{0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0});
}

TEST_CASE("sequences: a mask may be padded on either side, but not in the middle") {
  const Sequences s = Sequences::from_mask(Tensor<int>({3, 4}, {1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0}));
  CHECK(s.begin().host() == std::vector<int>{0, 5, 8});
  CHECK(s.length().host() == std::vector<int>{2, 3, 0});
  CHECK_THROWS_WITH(Sequences::from_mask(Tensor<int>({2, 3}, {1, 1, 1, 1, 0, 1})),
                    "from_mask: row 1 has a hole between positions 0 and 2; give such a mask to attention as a key "
                    "mask, {.mask = …}");
  CHECK_THROWS_WITH(Sequences::from_mask(Tensor<int>({1, 2}, {1, 7})), "from_mask: 7 at [0, 1]; a mask holds 0 and 1");
  CHECK_THROWS_AS(Sequences::from_mask(Tensor<int>({4}, {1, 1, 0, 0})), ShapeError);
}

TEST_CASE("sequences: refuse lengths that are negative, exceed T or have too large a sum") {
  CHECK_THROWS_WITH(Sequences::padded({3, 5}, 4), "padded: length 5 of sequence 1 exceeds T = 4");
  CHECK_THROWS_WITH(Sequences::packed({3, -1}), "Sequences: length -1 of sequence 1 is negative");
  CHECK_THROWS_AS(Sequences::packed({2147483647, 1}), ShapeError);
}
