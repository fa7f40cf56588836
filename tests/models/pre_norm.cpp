#include <heddle/heddle.hpp>
#include <heddle/models/pre_norm.hpp>

#include "../harness/parameter_gradients.hpp"
#include "../io/files.hpp"

using namespace heddle;
using namespace heddle::testing;
using models::PreNormConfig;

namespace {

const PreNormConfig tiny_pre_norm{
    .vocabulary = 7, .D = 6, .layers = 2, .heads = 3, .ff_width = 5, .positions = 5, .embedding_dropout = 0.3};
const Sequences pre_norm_lengths = Sequences::packed({3, 1, 0, 4});
const Tensor<int> pre_norm_ids({8}, {2, 5, 3, 6, 1, 0, 4, 4});

}  // namespace

TEST_CASE("models::PreNormClassifier: gradients match finite differences, with and without dropout") {
  Random random(1);
  models::PreNormClassifier<double> model(tiny_pre_norm, 3, random);
  expect_parameter_gradients(model, [&] { return model.forward(pre_norm_ids, pre_norm_lengths); });
  expect_parameter_gradients(model, [&] {
    Random dropout(2);
    return model.forward(pre_norm_ids, pre_norm_lengths, {.random = &dropout});
  });
}

TEST_CASE("models::PreNormClassifier: a packed batch gives what a padded one and single texts give") {
  Random random(1);
  const models::PreNormClassifier<> model(tiny_pre_norm, 3, random);
  const auto packed = joined(model.forward(Tensor<int>({4}, {2, 5, 3, 6}), Sequences::packed({3, 1})).host());
  const auto padded = joined(model.forward(Tensor<int>({6}, {2, 5, 3, 6, 0, 0}), Sequences::padded({3, 1}, 3)).host());
  const auto single = joined(model.forward(Tensor<int>({3}, {2, 5, 3}), Sequences::packed({3})).host(),
                             model.forward(Tensor<int>({1}, {6}), Sequences::packed({1})).host());
  expect_close(padded, packed, part_of_largest(1e-6, packed));
  expect_close(single, packed, part_of_largest(1e-6, packed));
}

TEST_CASE("models::PreNormEncoder: hidden states and attention weights on request") {
  Random random(1);
  const models::PreNormEncoder<> encoder(tiny_pre_norm, random);
  std::vector<Tensor<float>> states, attentions;
  const Tensor<float> y =
      encoder.forward(pre_norm_ids, pre_norm_lengths, {.hidden_states = &states, .attentions = &attentions});
  REQUIRE(states.size() == 3);
  CHECK(states[0].shape() == Shape({8, 6}));
  CHECK(states[2].host() == y.host());
  REQUIRE(attentions.size() == 2);
  CHECK(attentions[1].shape() == Shape({4, 3, 4, 4}));
  CHECK(sum(attentions[1].leading(0, 1)).item() == Approx(9));  // three heads with three queries
  CHECK(encoder.forward(pre_norm_ids, pre_norm_lengths).host() == y.host());
}

TEST_CASE("models::PreNormClassifier: a clone has its own weights, and frozen weights get no gradient") {
  Random random(1);
  models::PreNormClassifier<> model(tiny_pre_norm, 2, random);
  const auto before = model.forward(pre_norm_ids, pre_norm_lengths).host();
  model.encoder.tokens.weight.freeze();
  auto copy = clone(model);
  backward(sum(copy.forward(pre_norm_ids, pre_norm_lengths)));
  CHECK(!copy.encoder.tokens.weight.grad());
  CHECK(copy.encoder.layers[1].attention.qkv.weight.grad());
  copy.classifier.weight.assign(zeros<float>({2, 6}));
  CHECK(copy.forward(pre_norm_ids, pre_norm_lengths).host() != before);
  CHECK(model.forward(pre_norm_ids, pre_norm_lengths).host() == before);
}

TEST_CASE("models: the pre-norm encoder refuses sizes and inputs that do not fit") {
  Random random(1);
  const auto with = [&](auto change) {
    PreNormConfig config = tiny_pre_norm;
    change(config);
    return [&random, config] { models::PreNormClassifier<>(config, 2, random); };
  };
  CHECK_THROWS_AS(with([](auto& c) { c.heads = 4; })(), ShapeError);
  CHECK_THROWS_AS(with([](auto& c) { c.positions = 0; })(), ShapeError);
  CHECK_THROWS_WITH(with([](auto& c) { c.embedding_dropout = 1; })(),
                    ContainsSubstring("PreNormEncoder: embedding_dropout"));
  CHECK_THROWS_WITH(with([](auto& c) { c.dropout = -0.5; })(), ContainsSubstring("PreNormEncoder: dropout"));
  const models::PreNormEncoder<> encoder(tiny_pre_norm, random);
  CHECK_THROWS_AS(encoder.forward(Tensor<int>({1}, {7}), Sequences::packed({1})), IndexError);
  CHECK_THROWS_AS(encoder.forward(Tensor<int>({6}, std::vector<int>(6, 1)), Sequences::packed({6})), IndexError);
  CHECK_THROWS_WITH(encoder.forward(pre_norm_ids, pre_norm_lengths, {.types = pre_norm_ids}),
                    "PreNormEncoder: this model has no token types; leave the types empty");
}
