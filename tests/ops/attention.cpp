#include <heddle/ops/attention/attention.hpp>

#include "attention_form.hpp"
#include "harness/agreement.hpp"
#include "harness/golden.hpp"
#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

std::vector<int> integers(const GoldenTensor& x) { return x.as<int>(); }

struct GoldenCall {
  Sequences sequences, keys;
  AttentionOptions<double> options;

  explicit GoldenCall(const Case& c)
      : sequences(make(integers(c["length"]), static_cast<Index>(c.option("padded_to", 0)))),
        keys(c.has("key_length") ? Sequences::packed(integers(c["key_length"])) : sequences) {
    options.heads = static_cast<Index>(c.option("heads"));
    options.causal = c.option("causal", 0) != 0;
    if (c.has("window")) options.window = static_cast<Index>(c.option("window"));
    if (c.has("scale")) options.scale = c.option("scale");
    if (c.has("mask")) options.mask = Tensor<bool>(c["mask"].shape, c["mask"].as<bool>());
    if (c.has("bias")) options.bias = Tensor<double>(c["bias"].shape, c["bias"].as<double>());
  }

 private:
  static Sequences make(const std::vector<int>& lengths, Index padded_to) {
    return padded_to ? Sequences::padded(lengths, padded_to) : Sequences::packed(lengths);
  }
};

template <class T>
Tensor<T> from(const GoldenTensor& x) {
  return Tensor<T>(x.shape, x.as<T>());
}

template <class T>
void expect_golden_attention(double tolerance) {
  for (const Case& c : golden("attention")) {
    INFO(c.label);
    const GoldenCall call(c);
    AttentionOptions<T> options{.heads = call.options.heads,
                                .scale = call.options.scale,
                                .causal = call.options.causal,
                                .window = call.options.window};
    std::vector<std::string> roles{"q", "k", "v"};
    if (c.has("bias")) roles.push_back("bias");
    expect_case<T>(
        c, roles,
        [&](const auto& x) {
          const Device device = x[0].device();
          const Sequences sequences = call.sequences.to(device), keys = call.keys.to(device);
          options.keys = &keys;
          if (call.options.mask.has_data()) options.mask = call.options.mask.to(device);
          if (x.size() > 3) options.bias = x[3];
          return attention(x[0], x[1], x[2], sequences, options);
        },
        tolerance);
  }
}

template <class T>
double greatest_difference(const Tensor<T>& a, const Tensor<double>& b) {
  REQUIRE(a.shape() == b.shape());
  double most = 0;
  for (Index i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(std::as_const(a).data()[i]) - b.data()[i]);
    if (!(difference <= most) && !std::isnan(most)) most = difference;  // a NaN is the greatest
  }
  return most;
}

}  // namespace

TEST_CASE("attention: PyTorch's values and gradients") {
  expect_golden_attention<double>(1e-14);
  expect_golden_attention<float>(1e-6);
  expect_golden_attention<bf16>(0x1p-6);
}

TEST_CASE("attention_weights: PyTorch's values") {
  for (const Case& c : golden("attention_weights")) {
    INFO(c.label);
    const GoldenCall call(c);
    const auto weights = [&](const auto& in) {
      using A = typename std::decay_t<decltype(in[0])>::Element;
      const Device device = in[0].device();
      const Sequences sequences = call.sequences.to(device), keys = call.keys.to(device);
      AttentionOptions<A> options{.heads = call.options.heads,
                                  .scale = call.options.scale,
                                  .causal = call.options.causal,
                                  .window = call.options.window,
                                  .keys = &keys};
      if (call.options.mask.has_data()) options.mask = call.options.mask.to(device);
      if (call.options.bias) options.bias = converted<A>(call.options.bias, device);
      return attention_weights(in[0], in[1], sequences, options);
    };
    expect_case<double>(c, {"q", "k"}, weights, 1e-14);
    expect_case<float>(c, {"q", "k"}, weights, 1e-6);
    expect_case<bf16>(c, {"q", "k"}, weights, 0x1p-6);
  }
}

TEST_CASE("attention: equals the plain formula for head widths from 1 to 768 and ragged lengths") {
  struct Size {
    Index heads, K, V;
    std::vector<int> lengths;
  };
  const std::vector<int> ragged{1, 31, 0, 33, is_exhaustive() ? 257 : 140};
  for (const Size& size : {Size{3, 1, 1, ragged}, Size{2, 16, 16, ragged}, Size{2, 31, 33, ragged},
                           Size{1, 64, 16, ragged}, Size{1, 128, 128, ragged}, Size{1, 768, 768, {5, 0, 3}}}) {
    const auto s = Sequences::packed(size.lengths);
    const auto q = random({s.rows(), size.heads * size.K}, 1), k = random({s.rows(), size.heads * size.K}, 2),
               v = random({s.rows(), size.heads * size.V}, 3);
    for (const bool causal : {false, true}) {
      CAPTURE(size.K, causal);
      const AttentionOptions<double> options{.heads = size.heads, .causal = causal};
      const auto expected = plain_attention(q, k, v, s, options);
      CHECK(greatest_difference(attention(q, k, v, s, options), expected) < 1e-12);
      const auto single = attention(converted<float>(q), converted<float>(k), converted<float>(v), s,
                                    {.heads = size.heads, .causal = causal});
      CHECK(greatest_difference(single, expected) < 1e-5);
    }
  }
}

TEST_CASE("attention: a mask and a bias reach over several tiles and broadcast") {
  const std::vector<int> lengths{150, 70};
  const auto s = Sequences::packed(lengths);
  const auto q = random({s.rows(), 6}, 1), k = random({s.rows(), 6}, 2), v = random({s.rows(), 4}, 3);
  for (const Shape& shape :
       {Shape{2, 2, 150, 150}, Shape{1, 2, 150, 160}, Shape{2, 1, 1, 150}, Shape{1, 1, 150, 150}}) {
    CAPTURE(shape);
    AttentionOptions<double> options{.heads = 2, .scale = 0.3, .mask = random_mask(shape, 4), .bias = random(shape, 5)};
    CHECK(greatest_difference(attention(q, k, v, s, options), plain_attention(q, k, v, s, options)) < 1e-12);
  }
}

TEST_CASE("attention: gradients match finite differences") {
  const auto s = Sequences::packed({3, 0, 5, 1});
  const Index N = s.rows();
  const auto check = [](const auto& f, const Inputs& at) { expect_gradients(f, at, 2e-7); };
  const auto there = [](const Sequences& sequences, const auto& in) { return sequences.to(in[0].device()); };

  SECTION("separate tensors, values of another width") {
    check([&](const auto& in) { return attention(in[0], in[1], in[2], there(s, in), {.heads = 2}); },
          {random({N, 4}, 1), random({N, 4}, 2), random({N, 6}, 3)});
  }
  SECTION("columns of one product, some of them unused") {
    check(
        [&](const auto& in) {
          return attention(columns(in[0], 8, 4), columns(in[0], 4, 4), columns(in[0], 0, 4), there(s, in),
                           {.heads = 2, .causal = true});
        },
        {random({N, 13}, 1)});
  }
  SECTION("one tensor for all three, and one tensor for keys and values") {
    check([&](const auto& in) { return attention(in[0], in[0], in[0], there(s, in)); }, {random({N, 3}, 1)});
    check([&](const auto& in) { return attention(in[0], columns(in[1], 0, 3), columns(in[1], 3, 3), there(s, in)); },
          {random({N, 3}, 1), random({N, 6}, 2)});
  }
  SECTION("padding has no gradient") {
    const auto padded = Sequences::padded({2, 3}, 4);
    check(
        [&](const auto& in) {
          return attention(columns(in[0], 0, 3), columns(in[0], 3, 3), columns(in[0], 6, 3), there(padded, in));
        },
        {random({8, 9}, 1)});
  }
  SECTION("cross-attention") {
    const auto keys = Sequences::packed({2, 4, 0, 3});
    check(
        [&](const auto& in) {
          const Sequences of_keys = there(keys, in);
          return attention(in[0], in[1], in[2], there(s, in), {.heads = 2, .scale = 0.4, .keys = &of_keys});
        },
        {random({N, 4}, 1), random({9, 4}, 2), random({9, 2}, 3)});
  }
  SECTION("a bias, broadcast or not, with a mask") {
    for (const Shape& shape :
         {Shape{4, 2, 5, 5}, Shape{1, 2, 5, 6}, Shape{4, 1, 5, 5}, Shape{1, 1, 6, 5}, Shape{1, 2, 1, 5}}) {
      CAPTURE(shape);
      const auto mask = random_mask({4, 1, 5, 5}, 5);
      check(
          [&](const auto& in) {
            return attention(in[0], in[1], in[2], there(s, in),
                             {.heads = 2, .mask = mask.to(in[0].device()), .bias = in[3]});
          },
          {random({N, 4}, 1), random({N, 4}, 2), random({N, 4}, 3), random(shape, 4)});
    }
  }
  SECTION("dropout") {
    check(
        [&](const auto& in) {
          Random again(3);
          return attention(in[0], in[1], in[2], there(s, in), {.heads = 2, .dropout = 0.3, .random = &again});
        },
        {random({N, 4}, 1), random({N, 4}, 2), random({N, 4}, 3)});
  }
  SECTION("several tiles of queries and keys") {
    const auto longer = Sequences::packed({133});
    for (const bool causal : {false, true})
      check(
          [&](const auto& in) {
            Random again(3);
            return attention(columns(in[0], 0, 1), columns(in[0], 1, 1), columns(in[0], 2, 1), there(longer, in),
                             {.causal = causal, .dropout = 0.2, .random = &again});
          },
          {random({133, 3}, 1)});  // few columns, because each element costs two products of 133 x 133 scores
  }
}

TEST_CASE("attention: a scale that is negative or zero") {
  for (const double scale : {-0.5, 0.0})
    for (const Index K : {8, 136}) expect_attention_of<float>({.queries = {40}, .scale = scale}, K);
}

TEST_CASE("attention: an input that requires no gradient gets none") {
  on_each_device<float>([](Device device) {
    const auto s = Sequences::packed({40}).to(device);
    const auto constant = [&](std::uint64_t seed) { return converted<float>(random<float>({40, 8}, seed), device); };
    const auto gradients = [&](bool of_q, bool of_k, bool of_v) {
      const auto input = [&](bool is_wanted, std::uint64_t seed) {
        return is_wanted ? variable(constant(seed)) : constant(seed);
      };
      const auto q = input(of_q, 1), k = input(of_k, 2), v = input(of_v, 3);
      backward(attention(q, k, v, s), constant(4));
      std::vector<std::vector<float>> all;
      for (const auto& x : {q, k, v}) all.push_back(x.requires_grad() ? x.grad().host() : std::vector<float>());
      return all;
    };
    const auto all = gradients(true, true, true);
    for (const int wanted : {1, 2, 3, 4, 5, 6}) {
      const auto some = gradients(wanted & 1, wanted & 2, wanted & 4);
      for (std::size_t i = 0; i < 3; ++i) CHECK(some[i] == (wanted >> i & 1 ? all[i] : std::vector<float>()));
    }
    CHECK_FALSE(attention(constant(1), constant(2), constant(3), s).requires_grad());
  });
}
