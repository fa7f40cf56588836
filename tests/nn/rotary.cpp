// Layers with rotary positions and gated units.
#include <heddle/heddle.hpp>

#include "../harness/parameter_gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

const Sequences three_texts = Sequences::packed({3, 1, 5});

}  // namespace

TEST_CASE("nn: attention with rotary positions is attention of rotated queries and keys") {
  Random random(1);
  const nn::MultiHeadAttention<double> attention(8, 2, random);
  const nn::RotaryPositions rotary_positions(4, 100);
  const Tensor<double> x = testing::random<double>({9, 8}, 1), table = rotary_positions.table<double>(three_texts);
  CHECK(table.shape() == Shape({5, 4}));

  const Tensor<double> product = rotary(attention.qkv(x), table, three_texts, {.heads = 6, .rotated = 4});
  const auto plain =
      attention.out(heddle::attention(slice(product, 1, 0, 8), slice(product, 1, 8, 16), slice(product, 1, 16, 24),
                                      three_texts, {.heads = 2, .window = 2}));
  const auto expected = joined(plain.host());
  expect_close(joined(attention(x, three_texts, {.window = 2}, table).host()), expected,
               part_of_largest(1e-14, expected));
  CHECK(attention(x, three_texts, {}, table).host() != attention(x, three_texts).host());

  const auto record = attention.record(x, three_texts, {}, table);
  CHECK(record.queries.host() == slice(product, 1, 0, 8).host());
  CHECK(record.keys.host() == slice(product, 1, 8, 16).host());
  CHECK(record.weights.shape() == Shape({3, 2, 5, 5}));
}

TEST_CASE("nn: attention with rotary positions takes padded batches") {
  Random random(1);
  const nn::MultiHeadAttention<double> attention(4, 1, random);
  const nn::RotaryPositions rotary_positions(4);
  const Sequences padded = Sequences::padded({2, 3}, 3);
  const auto table = rotary_positions.table<double>(padded);
  const Tensor<double> x = testing::random<double>({2, 3, 4}, 2);
  const auto y = attention(x, padded, {}, table);
  REQUIRE(y.shape() == x.shape());
  CHECK(y.host() == attention(reshape(x, {6, 4}), padded, {}, table).host());
}

TEST_CASE("nn: gradients of attention with rotary positions match finite differences") {
  Random random(1);
  const nn::MultiHeadAttention<double> attention(4, 2, random, 0, false);
  const auto table = nn::RotaryPositions(2, 3).table<double>(three_texts);
  const Tensor<double> x = testing::random<double>({9, 4}, 1);
  expect_parameter_gradients(attention, [&] { return attention(x, three_texts, {}, table); });
}

TEST_CASE("nn: queries and keys that do not fit the table of rotary positions are refused") {
  Random random(1);
  const nn::MultiHeadAttention<> attention(8, 2, random);
  const Tensor<float> x({9, 8});
  CHECK_THROWS_AS(attention(x, three_texts, {}, nn::RotaryPositions(8).table<float>(three_texts)), ShapeError);
  CHECK_THROWS_AS(attention(x, three_texts, {}, nn::RotaryPositions(4).table<float>(Sequences::packed({4}))),
                  IndexError);
  CHECK_THROWS_AS(nn::RotaryPositions(5), ShapeError);
  CHECK_THROWS_AS(nn::RotaryPositions(std::vector<float>()).table<float>(three_texts), ShapeError);
}

TEST_CASE("nn::GatedFeedForward: halves of the first map, with each activation") {
  using nn::Activation;
  const auto gated = [](const Tensor<double>& x, Activation activation, Gate gate) {
    switch (activation) {
      case Activation::gelu: return gated_gelu(x, gate);
      case Activation::gelu_tanh: return gated_gelu_tanh(x, gate);
      case Activation::relu: return gated_relu(x, gate);
      case Activation::silu: return gated_silu(x, gate);
    }
    return x;
  };
  const Tensor<double> x = testing::random<double>({3, 4}, 1);
  for (const Activation activation : {Activation::gelu, Activation::gelu_tanh, Activation::relu, Activation::silu})
    for (const Gate gate : {Gate::first, Gate::second}) {
      Random random(1);
      const nn::GatedFeedForward<double> ff(
          4, 5, random, {.activation = activation, .gate = gate, .in_bias = false, .out_bias = false});
      CHECK(ff.in.weight.shape() == Shape({10, 4}));
      CHECK(!ff.in.bias.has_value());
      CHECK(ff(x).host() == ff.out(gated(ff.in(x), activation, gate)).host());
      const auto copy = clone(ff);
      CHECK(copy(x).host() == ff(x).host());
      expect_parameter_gradients(ff, [&] { return ff(x); });
    }
  Random random(1);
  CHECK(parameter_count(nn::GatedFeedForward<>(4, 5, random)) == 10 * 4 + 10 + 4 * 5 + 4);
  CHECK_THROWS_WITH(nn::GatedFeedForward<>(4, 0, random), "GatedFeedForward: width must be at least 1, got 0");
}

TEST_CASE("nn::FeedForward: silu") {
  Random random(1);
  const nn::FeedForward<double> ff(4, 5, random, nn::Activation::silu);
  const Tensor<double> x = testing::random<double>({3, 4}, 1);
  CHECK(ff(x).host() == ff.out(silu(ff.in(x))).host());
}
