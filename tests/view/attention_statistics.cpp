#include <heddle/heddle.hpp>
#include <heddle/view/attention_statistics.hpp>

#include "../harness/compare.hpp"
#include "catch.hpp"
#include "view/example_map.hpp"

using namespace heddle;
using namespace heddle::testing;
using pictures::AttentionMap;

TEST_CASE("attention_statistics: gives the values of a worked example") {
  // In head 0 every token attends equally to all tokens, in head 1 to itself, and in head 2 to [SEP].
  const float third = 1.f / 3;
  const Tensor<float> weights({3, 3, 3}, {third, third, third, third, third, third, third, third, third,  //
                                          1,     0,     0,     0,     1,     0,     0,     0,     1,      //
                                          0,     0,     1,     0,     0,     1,     0,     0,     1});
  const AttentionMap map{.tokens = {"[CLS]", "word", "[SEP]"}, .layers = {{weights}}};
  const auto s = pictures::attention_statistics(map);
  REQUIRE(s.size() == 3);
  CHECK(s[0].entropy == Approx(std::log2(3)));
  CHECK(s[0].distance == Approx(8. / 9));
  CHECK(s[0].cls == Approx(1. / 3));
  CHECK(s[0].sep == Approx(1. / 3));
  CHECK(s[0].self == Approx(1. / 3));
  CHECK(s[0].neighbors == Approx(4. / 9));
  CHECK(s[1].entropy == Approx(0));
  CHECK(s[1].distance == Approx(0));
  CHECK(s[1].self == Approx(1));
  CHECK(s[1].neighbors == Approx(0));
  CHECK(s[2].sep == Approx(1));
  CHECK(s[2].distance == Approx(1));
  CHECK(s[2].neighbors == Approx(1. / 3));
}

TEST_CASE("attention_rollout: gives the values of a worked example") {
  // One head in two layers; the mean of weights and identity is {3/4, 1/4; 0, 1}, then {1/2, 1/2; 1/2, 1/2}.
  const Tensor<float> first({1, 2, 2}, {0.5f, 0.5f, 0, 1}), second({1, 2, 2}, {0, 1, 1, 0});
  const AttentionMap map{.tokens = {"a", "b"}, .layers = {{first}, {second}}};
  const Tensor<float> rollout = pictures::attention_rollout(map);
  CHECK(rollout.shape() == Shape({2, 2, 2}));
  expect_close(joined(rollout.host()), {0.75, 0.25, 0, 1, 0.375, 0.625, 0.375, 0.625}, [](double) { return 1e-7; });
}

TEST_CASE("attention_rollout: rows sum to 1, and a query without visible keys keeps its own token") {
  AttentionMap map = example_map(3, 4, 7, 2);
  for (Index h = 0; h < 4; ++h)
    for (Index j = 0; j < 7; ++j) map.layers[0].weights.data()[(h * 7 + 2) * 7 + j] = 0;
  const std::vector<float> all = pictures::attention_rollout(map).host();
  for (std::size_t row = 0; row < 21; ++row) {
    double sum = 0;
    for (std::size_t j = 0; j < 7; ++j) sum += static_cast<double>(all[row * 7 + j]);
    CHECK(sum == Approx(1));
  }
  CHECK(all[2 * 7 + 2] == 1);
}
