// Properties of attention beyond its formula: masks hide NaN, padding and threads change nothing, memory is linear,
// dropout is exact.
#include <heddle/autograd/backward.hpp>
#include <heddle/core/create.hpp>
#include <heddle/ops/attention/attention.hpp>

#include "attention_form.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

template <class T = float>
Tensor<T> normal(Shape shape, std::uint64_t seed) {
  Random random(seed);
  return randn<T>(shape, random);
}

template <class T>
Evaluation evaluate_attention(const AttentionForm& form, const Inputs& inputs, Device device) {
  return evaluate<T>(attention_function(form), inputs, device);
}

// Returns rows [first, last) of a matrix.
std::vector<double> rows(const Computed& x, Index first, Index last) {
  const Index width = x.shape[1];
  return {x.values.begin() + first * width, x.values.begin() + last * width};
}
bool all_zero(const std::vector<double>& x) {
  return std::all_of(x.begin(), x.end(), [](double value) { return value == 0; });
}
bool all_finite(const std::vector<double>& x) {
  return std::all_of(x.begin(), x.end(), [](double value) { return std::isfinite(value); });
}
bool any_nan(const std::vector<double>& x) {
  return std::any_of(x.begin(), x.end(), [](double value) { return std::isnan(value); });
}

}  // namespace

TEMPLATE_TEST_CASE("attention: a query that sees no key gives zeros and zero gradients", "", float, bf16) {
  const Index T = is_exhaustive() ? 70 : 34, N = 3 + T;
  for (const Index K : {4, 8, 136}) {
    CAPTURE(K);
    AttentionForm form{.heads = 2, .queries = {3, static_cast<int>(T)}, .mask = full<bool>({2, 1, T, T}, true)};
    for (Index j = 0; j < T; ++j) form.mask.data()[1 * T + j] = false;  // query 1 of sequence 0
    std::fill_n(form.mask.data() + T * T, T * T, false);                // all of sequence 1
    expect_attention_of<TestType>(form, K);
    const Inputs inputs = attention_inputs<TestType>(form, K, K);
    on_each_device<TestType>([&](Device device) {
      const Evaluation all = evaluate_attention<TestType>(form, inputs, device);
      for (const Computed& part : all) {
        INFO(part.name);
        CHECK(all_zero(rows(part, 3, N)));
        CHECK_FALSE(any_nan(part.values));
      }
      for (const std::size_t part : {0u, 1u}) {  // y and dq
        CHECK(all_zero(rows(all[part], 1, 2)));
        CHECK_FALSE(all_zero(rows(all[part], 0, 1)));
      }
    });
  }
}

TEMPLATE_TEST_CASE("attention: a query that sees no key has zero gradients, whatever dy is", "", float, bf16) {
  for (const Index keys : {4, 5}) {
    CAPTURE(keys);
    AttentionForm form{.queries = {4}, .keys = {static_cast<int>(keys)}, .mask = full<bool>({1, 1, 4, keys}, true)};
    std::fill_n(form.mask.data(), keys, false);  // query 0
    Tensor<double> dy = ones<double>({4, 8});
    std::fill_n(dy.data(), 8, quiet_nan<double>);
    const Evaluation all =
        evaluate<TestType>(attention_function(form), attention_inputs<TestType>(form, 8, 8), Device::cpu, dy);
    CHECK(all_zero(rows(all[1], 0, 1)));
    for (const std::size_t part : {1u, 2u}) CHECK_FALSE(any_nan(all[part].values));  // dq and dk
  }
}

namespace {

template <class T>
void expect_hidden(Index K, bool by_bias, Device device) {
  CAPTURE(K, by_bias);
  // On the CPU, the keys of the narrowest head fill more than one tile. All other sequences are short, because kernels
  // are slow under sanitizers.
  const Index length = device == Device::cpu && K == 8 ? 150 : is_exhaustive() ? 70 : 34;
  const std::vector<Index> hidden{0, 7, length / 2 - 2, length - 20, length - 1};
  AttentionForm form{.heads = 2, .queries = {static_cast<int>(length), 5}, .dropout = 0.2};
  Inputs inputs = attention_inputs<T>(form, K, K);
  if (by_bias) inputs.push_back(random<T>({2, 1, length, length}, 4));
  if (!by_bias) form.mask = full<bool>({2, 1, 1, length}, true);
  for (const Index j : hidden) {
    if (!by_bias) form.mask.data()[j] = false;
    for (Index i = 0; by_bias && i < length; ++i) inputs[3].data()[i * length + j] = -infinity<double>;
  }
  const Evaluation clean = evaluate_attention<T>(form, inputs, device);
  for (const Computed& part : clean) REQUIRE(all_finite(part.values));
  for (const Index j : hidden) {
    CHECK(all_zero(rows(clean[2], j, j + 1)));
    CHECK(all_zero(rows(clean[3], j, j + 1)));
    std::vector<double> of_bias;
    for (Index i = 0; by_bias && i < length; ++i)
      of_bias.push_back(clean[4].values[static_cast<std::size_t>(i * length + j)]);
    CHECK(all_zero(of_bias));
  }
  for (const double poison : {std::nan(""), infinity<double>, -infinity<double>}) {
    Inputs poisoned = inputs;
    for (const std::size_t x : {1u, 2u}) poisoned[x] = with_rows(inputs[x], hidden, poison);
    CHECK((evaluate_attention<T>(form, poisoned, device) == clean));
  }
  if (K > 8) return;
  Inputs poisoned = inputs;
  poisoned[1] = with_rows(inputs[1], hidden, std::nan(""));
  poisoned[2] = with_rows(inputs[2], hidden, infinity<double>);
  CHECK((evaluate_attention<T>(form, poisoned, device) == clean));
}

}  // namespace

TEMPLATE_TEST_CASE("attention: NaN and infinity in a masked key or value change no bit", "", float, bf16) {
  on_each_device<TestType>([](Device device) {
    for (const Index K : is_exhaustive() ? std::vector<Index>{8, 64, 136} : std::vector<Index>{8, 136})
      for (const bool by_bias : {false, true}) expect_hidden<TestType>(K, by_bias, device);
  });
}

TEST_CASE("attention: a NaN reaches only the queries that see it") {
  const Index T = 140, D = 4, at = 100;
  const auto clean_and_poisoned = [&](const AttentionForm& form, const std::vector<std::size_t>& which, Device device) {
    const Inputs inputs = attention_inputs<float>(form, D / form.heads, D / form.heads);
    Inputs poisoned = inputs;
    for (const std::size_t x : which) poisoned[x] = with_rows(inputs[x], {at}, std::nan(""));
    return std::pair(evaluate_attention<float>(form, inputs, device),
                     evaluate_attention<float>(form, poisoned, device));
  };
  const AttentionForm plain{.queries = {static_cast<int>(T)}};
  on_each_device<float>([&](Device device) {
    SECTION("causal: this query and all later ones, on " + std::string(to_string(device))) {
      AttentionForm causal = plain;
      causal.causal = true;
      for (const std::size_t which : {1u, 2u}) {  // a key or a value
        const auto [clean, r] = clean_and_poisoned(causal, {which}, device);
        for (Index i = 0; i < T; ++i) {
          CAPTURE(i, which);
          if (i < at) CHECK(rows(r[0], i, i + 1) == rows(clean[0], i, i + 1));
          if (i >= at) CHECK(std::isnan(r[0].values[static_cast<std::size_t>(i * D)]));
          CHECK(any_nan(rows(r[1], i, i + 1)) == (i >= at));
        }
      }
    }
    SECTION("two blocks separated by a mask: only queries of its own block, in all gradients too, on " +
            std::string(to_string(device))) {
      const Index half = T / 2;
      AttentionForm blocks = plain;
      blocks.heads = 2;
      blocks.mask = Tensor<bool>({1, 1, T, T});
      for (Index i = 0; i < T; ++i)
        for (Index j = 0; j < T; ++j) blocks.mask.data()[i * T + j] = (i < half) == (j < half);
      const auto [clean, r] = clean_and_poisoned(blocks, {0, 1, 2}, device);
      for (std::size_t part = 0; part < 4; ++part) CHECK(rows(r[part], 0, half) == rows(clean[part], 0, half));
      CHECK(any_nan(rows(r[0], half, half + 1)));
    }
    SECTION("without a mask: everywhere, on " + std::string(to_string(device))) {
      const auto [clean, r] = clean_and_poisoned(plain, {2}, device);
      for (Index i = 0; i < T; ++i) CHECK(std::isnan(r[0].values[static_cast<std::size_t>(i * D)]));
    }
  });
}

TEMPLATE_TEST_CASE("attention: a NaN or an infinity reaches the same queries on every device", "", float, bf16) {
  const Index T = is_exhaustive() ? 70 : 34, at = is_exhaustive() ? 50 : 20;
  for (const Index K : {8, 64, 136})
    for (const double poison : {std::nan(""), infinity<double>})
      for (const std::size_t which : {0u, 1u, 2u}) {
        CAPTURE(K, poison, which);
        AttentionForm form{.queries = {static_cast<int>(T)}, .causal = true};
        Inputs inputs = attention_inputs<TestType>(form, K, K);
        inputs[which] = with_rows(inputs[which], {}, 0);
        inputs[which].data()[at * K + 3] = poison;
        expect_attention<TestType>(attention_function(form), inputs);
        // Two blocks that do not see each other.
        form.causal = false;
        form.mask = Tensor<bool>({1, 1, T, T});
        for (Index i = 0; i < T; ++i)
          for (Index j = 0; j < T; ++j) form.mask.data()[i * T + j] = (i < T / 2) == (j < T / 2);
        expect_attention<TestType>(attention_function(form), inputs);
      }
}

TEMPLATE_TEST_CASE("attention: packed and padded batches give the same bits, dropout included", "", float, bf16) {
  const Lengths lengths = is_exhaustive() ? Lengths{5, 0, 33, 1, 140} : Lengths{5, 0, 33};
  const auto check = [&](Index K, Device device) {
    CAPTURE(K);
    const AttentionForm packed{.heads = 3, .queries = lengths, .dropout = 0.1},
        padded{.heads = 3, .queries = lengths, .dropout = 0.1, .padded_to = lengths.back() + 7};
    const Sequences from = packed.of_queries(), to = padded.of_queries();
    const auto place = [&](const Tensor<double>& x, double elsewhere) {
      auto y = full<double>({to.rows(), x.dim(1)}, elsewhere);
      for (std::size_t b = 0; b < lengths.size(); ++b)
        std::copy_n(std::as_const(x).data() + from.begin().data()[b] * x.dim(1), lengths[b] * x.dim(1),
                    y.data() + to.begin().data()[b] * x.dim(1));
      return y;
    };
    const auto results = [&](const AttentionForm& form, const Tensor<double>& x, const Tensor<double>& dy) {
      const auto in = variable(converted<TestType>(x, device));
      const Index D = 3 * K;
      const auto y = call_attention<TestType>(form, columns(in, 0, D), columns(in, D, D), columns(in, 2 * D, D));
      backward(y, converted<TestType>(dy, device));
      return std::pair(converted<double>(y), converted<double>(in.grad()));
    };
    const auto x = random<TestType>({from.rows(), 9 * K}, 1), dy = random<TestType>({from.rows(), 3 * K}, 2);
    const auto [y, dx] = results(packed, x, dy);
    // The rows of padding are never read.
    const auto [padded_y, padded_dx] = results(padded, place(x, std::nan("")), place(dy, std::nan("")));
    CHECK((padded_y.host() == place(y, 0).host()));
    CHECK((padded_dx.host() == place(dx, 0).host()));
  };
  on_each_device<TestType>([&](Device device) {
    for (const Index K : {12, 136}) check(K, device);
  });
}

TEST_CASE("attention: the number of threads changes no bit") {
  const int before = threads();
  const AttentionForm form{.heads = 2, .queries = {70, 3, 0, 129, 40, 200}, .dropout = 0.1};
  Inputs inputs = attention_inputs<float>(form, 4, 4);
  inputs.emplace_back();
  for (const Shape& shape : {Shape{1, 1, 200, 200}, Shape{6, 1, 1, 200}, Shape{1, 2, 200, 200}}) {
    inputs[3] = random<float>(shape, 4);
    const auto run = [&](int count) {
      set_threads(count);
      return evaluate_attention<float>(form, inputs, Device::cpu);
    };
    const auto one = run(1);
    CHECK((one == run(2)));
    CHECK((one == run(5)));
  }
  set_threads(before);
}

TEST_CASE("attention: memory is linear in the length") {
  const int T = is_exhaustive() ? 16384 : 2048;
  const auto s = Sequences::packed({T});
  const auto q = normal({T, 2}, 1), k = normal({T, 2}, 2), v = variable(normal({T, 2}, 3));
  const auto stats = [] { return HostPool::instance().stats(); };
  const std::size_t limit =
      std::max(stats().peak, stats().in_use + (std::size_t{1} << 22));  // 4 MiB; a [T, T] matrix has 16 MiB or 1 GiB
  const auto y = attention(q, k, v, s, {.causal = true});
  backward(y, y);
  CHECK(stats().peak <= limit);
}

TEST_CASE("attention: dropout is the documented function of the draws") {
  const std::vector<int> lengths{40, 3, 131};
  const auto s = Sequences::packed(lengths);
  const Index H = 2, K = 4, longest = 131, drawn = 256, groups = drawn / 32;
  const auto q = normal<double>({s.rows(), H * K}, 1), k = normal<double>({s.rows(), H * K}, 2);
  Tensor<double> v(
      {s.rows(), H * longest});  // row j is the j-th unit vector: y is the matrix of the probabilities after dropout
  std::fill_n(v.data(), v.size(), 0.0);
  for (Index n = 0; n < s.rows(); ++n)
    for (Index h = 0; h < H; ++h) v.data()[n * v.dim(1) + h * longest + s.position().data()[n]] = 1;

  Random random(11, 3);
  random.take(17);
  const auto y = attention(q, k, v, s, {.heads = H, .dropout = 0.3, .random = &random});
  CHECK(random.position() == 17 + (std::uint64_t{1} << 32));
  const auto p = attention_weights(q, k, s, {.heads = H});
  const kernel::DropoutRule rule("attention", 0.3);
  Index kept = 0, all = 0;
  for (Index b = 0; b < 3; ++b)
    for (Index h = 0; h < H; ++h)
      for (Index i = 0; i < lengths[static_cast<std::size_t>(b)]; ++i)
        for (Index j = 0; j < lengths[static_cast<std::size_t>(b)]; ++j) {
          const Index t = j % 8 / 2, e = j % 32 / 8 * 2 + j % 2;
          const auto call = static_cast<std::uint64_t>((((b * H + h) * drawn + i) * groups + j / 32) * 4 + t);
          const kernel::PhiloxWords words = kernel::Draws{11, 3, 17}(call);
          const bool keep = draw16(words, static_cast<int>(e)) >= rule.threshold;
          const double weight = p.data()[((b * H + h) * longest + i) * longest + j];
          const double actual = y.data()[(s.begin().data()[b] + i) * y.dim(1) + h * longest + j];
          CAPTURE(b, h, i, j);
          REQUIRE(actual == Approx(keep ? weight * 65536 / (65536 - rule.threshold) : 0.0).epsilon(1e-6));
          kept += keep;
          ++all;
        }
  const double share = static_cast<double>(kept) / static_cast<double>(all);
  CHECK(share == Approx(0.7).margin(4 * std::sqrt(0.21 / static_cast<double>(all))));
}

TEST_CASE("attention: without a generator, or with probability 0, nothing is dropped or drawn") {
  on_each_device<float>([](Device device) {
    const auto s = Sequences::packed({9}).to(device);
    const auto x = normal({9, 4}, 1).to(device);
    Random random(1);
    const auto y = attention(x, x, x, s).host();
    CHECK(attention(x, x, x, s, {.dropout = 0.5}).host() == y);
    CHECK(attention(x, x, x, s, {.random = &random}).host() == y);
    CHECK(random.position() == 0);
  });
}

TEMPLATE_TEST_CASE("attention: a sequence without queries or keys is no error", "", float, bf16) {
  expect_attention_of<TestType>({.queries = {}}, 8);
  expect_attention_of<TestType>({.queries = {0, 0}}, 8);
  for (const Index K : {8, 136}) {
    expect_attention_of<TestType>({.queries = {2, 0}, .keys = {0, 3}}, K);
    expect_attention_of<TestType>({.queries = {2, 3}, .keys = {0, 0}}, K);
    expect_attention_of<TestType>({.queries = {0, 0}, .keys = {2, 3}}, K);
    expect_attention_of<TestType>({.queries = {0, 2}, .keys = {3, 2}}, K, K, random<TestType>({1, 1, 1, 3}, 4));
  }
  on_each_device<TestType>([](Device device) {
    const AttentionForm none{.queries = {}}, apart{.queries = {2, 0}, .keys = {0, 3}};
    CHECK(evaluate_attention<TestType>(none, attention_inputs<TestType>(none, 4, 4), device)[0].shape == Shape{0, 4});
    for (const Computed& part : evaluate_attention<TestType>(apart, attention_inputs<TestType>(apart, 4, 4), device))
      CHECK(all_zero(part.values));
  });
}

TEST_CASE("attention: errors name operands, shapes and limits") {
  const auto s = Sequences::packed({3, 2}), keys = Sequences::packed({4});
  const Tensor<float> x({5, 6}), y({5, 4}), z({4, 6});
  CHECK_THROWS_WITH(attention(x, y, x, s),
                    "attention: 'heads * K' disagrees between q and k\n"
                    "  q  [5, 6]    axis 1 is 6\n"
                    "  k  [5, 4]    axis 1 is 4");
  CHECK_THROWS_WITH(attention(x, x, y, s, {.heads = 3}),
                    "attention: v [5, 4] is not 3 heads wide: 'heads' must be positive, and axis 1 must be a positive "
                    "multiple of it");
  CHECK_THROWS_WITH(attention(x, x, x, s, {.heads = 0}),
                    "attention: q [5, 6] is not 0 heads wide: 'heads' must be positive, and axis 1 must be a positive "
                    "multiple of it");
  CHECK_THROWS_WITH(attention(z, x, x, s),
                    "attention: q [4, 6] must have one row for each of the 5 rows of its 2 sequences");
  CHECK_THROWS_WITH(attention(x, z, z, s),
                    "attention: k [4, 6] must have one row for each of the 5 rows of its 2 sequences");
  CHECK_THROWS_WITH(attention(x, z, z, s, {.keys = &keys}),
                    "attention: there are 2 sequences of queries and 1 of keys; both must have the same number");
  CHECK_THROWS_WITH(
      attention(x, x, x, s, {.mask = Tensor<bool>({3, 1, 1, 3})}),
      "attention: mask [3, 1, 1, 3] must be [1 or 2, 1 or 1, 1 or at least 3, at least 3] for these sequences, heads, "
      "queries and keys");
  CHECK_THROWS_WITH(attention(x, x, x, s, {.bias = Tensor<float>({3, 3})}), "attention: bias [3, 3] must have 4 axes");
  CHECK_THROWS_WITH(attention(x, x, x, s, {.dropout = 1}),
                    "attention: the dropout probability must be in [0, 1), got 1");
  CHECK_THROWS_WITH(columns(x, 4, 3), "columns: [4, 7) is not within the last axis of [5, 6]");
  CHECK_THROWS_AS(columns(x, 4, 3), ShapeError);
}

TEST_CASE("attention: a backward after q was overwritten is an error") {
  const auto s = Sequences::packed({2});
  auto q = variable(normal({2, 2}, 1));
  const auto y = attention(q, q, q, s);
  q.data()[0] = 1;
  CHECK_THROWS_AS(backward(y, empty_like(y)), Error);
}
