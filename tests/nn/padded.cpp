// Checks that padded batches [B, T, ...] with Sequences::padded give the values of the same rows packed.
#include <heddle/heddle.hpp>

#include "catch.hpp"
#include "harness/numbers.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

const std::vector<int> text_lengths{3, 5, 0, 1};
constexpr Index most_rows = 5, width = 8;

// Checks f(padded batch, Sequences::padded) against f(rows, Sequences::packed). f returns one result per row, or one
// per sequence.
template <class F>
void expect_same(const F& f) {
  Random random(1);
  const Sequences padded = Sequences::padded(text_lengths, most_rows), packed = Sequences::packed(text_lengths);
  const Tensor<double> x = variable(randn<double>({4, most_rows, width}, random)),
                       rows = variable(detach(pack(x, padded)));
  const Tensor<double> y = f(x, padded), expected = f(rows, packed);
  const bool per_row = expected.dim(0) == packed.rows();
  CHECK(y.rank() == expected.rank() + (per_row ? 1 : 0));
  const Tensor<double> real = per_row ? pack(y, padded) : y;
  REQUIRE(real.shape() == expected.shape());
  backward(sum(real * real));
  backward(sum(expected * expected));
  const auto agree = [](const Tensor<double>& a, const Tensor<double>& b) {
    REQUIRE(a.shape() == b.shape());
    for (Index i = 0; i < a.size(); ++i) CHECK(a.data()[i] == Approx(b.data()[i]).epsilon(1e-12).margin(1e-14));
  };
  agree(detach(real), detach(expected));
  agree(pack(x.grad(), padded), rows.grad());
}

}  // namespace

TEST_CASE("padded batches: rows of sequences") {
  expect_same([](const auto& x, const Sequences& s) { return first_rows(x, s); });
  expect_same([](const auto& x, const Sequences& s) { return mean_rows(x, s); });
}

TEST_CASE("padded batches: attention") {
  expect_same([](const auto& x, const Sequences& s) { return attention(x, x, x, s, {.heads = 2}); });
  expect_same([](const auto& x, const Sequences& s) {
    return attention(columns(x, 0, 4), columns(x, 2, 4), columns(x, 4, 4), s, {.heads = 1, .causal = true});
  });
  const Sequences s = Sequences::padded(text_lengths, most_rows);
  Random random(1);
  const Tensor<float> x = randn<float>({4, most_rows, width}, random), rows = reshape(x, {4 * most_rows, width});
  CHECK(attention_weights(x, x, s, {.heads = 2}).host() == attention_weights(rows, rows, s, {.heads = 2}).host());
}

TEST_CASE("padded batches: layers") {
  Random random(2);
  const nn::Encoder<double> post_norm(2, {.D = width, .heads = 2}, random);
  const nn::Encoder<double> pre_norm(1, {.D = width, .heads = 2, .norm_first = true}, random);
  const nn::MultiHeadAttention<double> wide(width, 2, random, 3);
  const nn::SinusoidalPositions<double> sines(most_rows, width);
  const nn::LearnedPositions<double> learned(most_rows, width, random);
  expect_same([&](const auto& x, const Sequences& s) { return post_norm(x, s); });
  expect_same([&](const auto& x, const Sequences& s) { return pre_norm(x, s); });
  expect_same([&](const auto& x, const Sequences& s) { return wide(x, s); });
  expect_same([&](const auto& x, const Sequences& s) { return sines(x, s); });
  expect_same([&](const auto& x, const Sequences& s) { return learned(x, s); });
  const int length = static_cast<int>(most_rows);
  CHECK_THROWS_AS(
      wide.record(randn<double>({2, most_rows, width}, random), Sequences::padded({length, length}, most_rows)),
      ShapeError);
}

TEST_CASE("padded batches: NaN in the padding changes no text, and reaches the gradients of weights") {
  Random random(2);
  nn::EncoderLayer<float> layer({.D = width, .heads = 2}, random);
  const Sequences padded = Sequences::padded(text_lengths, most_rows);
  const Tensor<float> x = randn<float>({4, most_rows, width}, random);
  const Tensor<bool> is_text = unsqueeze(padded.mask(), -1);
  const Tensor<float> hidden = masked_fill(x, logical_not(is_text), quiet_nan<float>);
  const auto mean_of = [&](const Tensor<float>& rows) { return mean_rows(layer(rows, padded), padded); };
  CHECK(mean_of(hidden).host() == mean_of(x).host());
  backward(sum(mean_of(hidden)));
  const std::vector<float> gradient = layer.attention.out.weight.grad().host();
  CHECK(std::any_of(gradient.begin(), gradient.end(), [](float g) { return std::isnan(g); }));
}

TEST_CASE("padded batches: cross_entropy takes [B, T, C]") {
  Random random(3);
  const Tensor<double> logits = variable(randn<double>({2, 3, 4}, random));
  const Tensor<int> labels({2, 3}, {0, 3, -100, 1, -100, -100});
  const Tensor<double> loss = cross_entropy(logits, labels);
  const Tensor<double> rows = variable(detach(reshape(logits, {6, 4})));
  const Tensor<double> expected = cross_entropy(rows, Tensor<int>({6}, labels.host()));
  CHECK(loss.item() == expected.item());
  backward(loss);
  backward(expected);
  CHECK(logits.grad().host() == rows.grad().host());
  CHECK(logits.grad().shape() == Shape{2, 3, 4});
  CHECK_THROWS_AS(cross_entropy(logits, Tensor<int>({3, 2})), ShapeError);
}

TEST_CASE("padded batches: other shapes are refused with a remedy") {
  const Tensor<float> x = zeros<float>({4, most_rows, width});
  CHECK_THROWS_WITH(first_rows(x, Sequences::packed({3, 5, 0, 1})),
                    "first_rows: x [4, 5, 8] must have one row for each of the 9 rows of its 4 sequences; pack(x, "
                    "sequences) gives the rows of a padded batch");
  CHECK_THROWS_WITH(first_rows(x, Sequences::padded({3, 5, 0, 1}, 6)),
                    "first_rows: x [4, 5, 8] must have one row for each of the 24 rows of its 4 sequences, or be a "
                    "padded batch [B, T, ...] of them");
  Random random(1);
  const nn::EncoderLayer<float> layer({.D = width, .heads = 2}, random);
  CHECK_THROWS_AS(layer(x, Sequences::padded({3, 5, 0}, most_rows)), ShapeError);
  CHECK_THROWS_AS(attention(x, x, x, Sequences::packed(text_lengths)), ShapeError);
  const nn::LearnedPositions<float> positions(8, width, random);
  CHECK_THROWS_WITH(positions(zeros<float>({2, 2, width}), Sequences::packed({1, 1})),
                    ContainsSubstring("LearnedPositions: x [2, 2, 8] must have 2 axes"));
  CHECK_THROWS_AS(positions(zeros<float>({1, width}), Sequences::padded({3, 2}, 5)), ShapeError);
  CHECK_THROWS_WITH(mean_rows(x, Sequences::packed(text_lengths)), ContainsSubstring("pack(x, sequences) gives"));
  CHECK_THROWS_WITH(attention(x, x, x, Sequences::packed(text_lengths)), ContainsSubstring("pack(x, sequences) gives"));
  const Sequences other = Sequences::packed({2, 7});
  CHECK_THROWS_WITH(layer(zeros<float>({9, width}), Sequences::packed({4, 5}), {.keys = &other}),
                    ContainsSubstring("use CrossAttention for other keys"));
}
