#include <heddle/core/sequences.hpp>

#include "catch.hpp"
#include "harness/devices.hpp"

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

TEST_CASE("Sequences: the mask of packed, padded and left-padded sequences") {
  on_each_device<bool>([](Device device) {
    const auto mask_of = [&](const Sequences& sequences) { return sequences.to(device).mask(); };
    CHECK(mask_of(Sequences::packed({1, 0, 3})).device() == device);
    CHECK(mask_of(Sequences::packed({1, 0, 3})).host() == std::vector<bool>{1, 0, 0, 0, 0, 0, 1, 1, 1});
    CHECK(mask_of(Sequences::padded({1, 2}, 3)).host() == std::vector<bool>{1, 0, 0, 1, 1, 0});
    CHECK(mask_of(Sequences::from_mask(Tensor<int>({2, 3}, {0, 1, 1, 0, 0, 0}))).host() ==
          std::vector<bool>{0, 1, 1, 0, 0, 0});
    CHECK(mask_of(Sequences::packed({})).shape() == Shape{0, 0});
    CHECK(mask_of(Sequences::packed({0, 0})).shape() == Shape{2, 0});
    CHECK(mask_of(Sequences::padded({}, 4)).shape() == Shape{0, 4});
  });
}

TEST_CASE("Sequences: index tensors move to the GPU and back in one block") {
  on_each_device<int>([](Device device) {
    for (const std::vector<int>& lengths : {std::vector<int>{}, {0, 0}, {1}, {2, 0, 3}, std::vector<int>(65, 3)}) {
      const Sequences here = Sequences::packed(lengths), there = here.to(device), back = there.to(Device::cpu);
      CHECK(there.device() == device);
      CHECK(there.begin().host() == here.begin().host());
      CHECK(there.length().host() == here.length().host());
      CHECK(there.position().host() == here.position().host());
      CHECK(there.position().shape() == here.position().shape());
      CHECK(back.device() == Device::cpu);
      CHECK(back.position().host() == here.position().host());
      CHECK(there.to(device).begin().host() == here.begin().host());
      if (device == Device::cuda && !lengths.empty()) CHECK(there.begin().is_shared());
    }
  });
}

TEST_CASE("Sequences: packed sequences of one length") {
  const Sequences equal = Sequences::packed(3, 2);
  CHECK(equal.begins() == std::vector<int>{0, 2, 4});
  CHECK(equal.lengths() == std::vector<int>{2, 2, 2});
  CHECK(equal.rows() == 6);
  CHECK(Sequences::packed(0, 2).count() == 0);
  CHECK_THROWS_AS(Sequences::packed(-1, 2), ShapeError);
  CHECK_THROWS_AS(Sequences::packed(1, -2), ShapeError);
  CHECK_THROWS_AS(Sequences::packed(Index{1} << 40, 2), ShapeError);
  CHECK_THROWS_AS(Sequences::packed(3, 2'000'000'000), ShapeError);
}
