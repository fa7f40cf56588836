#include <heddle/ops/token_positions.hpp>

#include <heddle/ops/cast.hpp>

#include "harness/compare.hpp"
#include "harness/devices.hpp"

using namespace heddle;
using namespace heddle::testing;

TEST_CASE("token_positions: worked by hand, for packed and padded sequences and ids of both types") {
  on_each_device<float>([](Device device) {
    const auto check = [device](const std::vector<int>& ids, const Sequences& sequences, Index padding_id,
                                const std::vector<int>& expected) {
      const Tensor<int> given({std::ssize(ids)}, ids);
      const Sequences there = sequences.to(device);
      CHECK(token_positions(given.to(device), there, padding_id).host() == expected);
      CHECK(token_positions(cast<Index>(given).to(device), there, padding_id).host() == expected);
      CHECK(token_positions(given, there, padding_id).host() == expected);
    };
    check({5, 7, 9, 8, 4, 6}, Sequences::packed({3, 1, 2}), 1, {2, 3, 4, 2, 2, 3});
    check({5, 1, 9, 1, 1, 4, 1}, Sequences::packed({3, 0, 1, 3, 0}), 1, {2, 1, 3, 1, 1, 2, 1});
    check({0, 5, 0, 6}, Sequences::packed({4}), 0, {0, 1, 0, 2});
    check({1, 5, 1, 6}, Sequences::packed({4}), 7, {8, 9, 10, 11});
    check({5, 6, 1, 9, 9, 1, 8, 1}, Sequences::padded({2, 3}, 4), 1, {2, 3, 1, 1, 2, 1, 3, 1});
    // Padding may precede a text, and the rows outside of a sequence may have any id.
    check({7, 7, 5, 6, 7, 8, 9, 7}, Sequences::from_mask(Tensor<int>({2, 4}, {0, 0, 1, 1, 0, 1, 1, 0})), 1,
          {1, 1, 2, 3, 1, 2, 3, 1});
    check({}, Sequences::packed({}), 1, {});
    check({}, Sequences::packed({0, 0}), 1, {});
    check({3, 3}, Sequences::padded({0, 0}, 1), 1, {1, 1});
  });
}

TEST_CASE("token_positions: ids of a padded batch, and refused operands") {
  const Sequences two = Sequences::padded({2, 1}, 2);
  CHECK(token_positions(Tensor<int>({2, 2}, {4, 1, 5, 6}), two, 1).host() == std::vector<int>{2, 1, 2, 1});
  CHECK_THROWS_WITH(token_positions(Tensor<int>({3}, {1, 2, 3}), two, 1),
                    "token_positions: ids [3] must have one element for each of the 4 rows of the sequences");
  const Tensor<int> ids({4}, {1, 2, 3, 4});
  CHECK_THROWS_AS(token_positions(ids, two, -1), IndexError);
  CHECK_THROWS_WITH(token_positions(ids, two, std::numeric_limits<int>::max()),
                    "token_positions: padding_id 2147483647 must be at least 0, and positions at most 2^31 - 1");
}
