// What attention promises beyond its formula: masks hide NaN, padding and threads change nothing, memory is linear,
// dropout is exact.
#include <heddle/autograd/backward.hpp>
#include <heddle/ops/attention/attention.hpp>

#include "catch.hpp"
#include "harness/devices.hpp"
#include "harness/numbers.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

template <class T = float>
Tensor<T> normal(Shape shape, std::uint64_t seed) {
  Random random(seed);
  return randn<T>(shape, random);
}

template <class T>
Tensor<T> filled(Shape shape, T value) {
  return Tensor<T>(shape, std::vector<T>(static_cast<std::size_t>(shape.size()), value));
}

struct Results {
  std::vector<float> y, dq, dk, dv, dbias;
  friend bool operator==(const Results&, const Results&) = default;
};

// y and all gradients, for a fixed dy.
Results results(const Tensor<float>& q, const Tensor<float>& k, const Tensor<float>& v, const Sequences& s,
                AttentionOptions<float> options) {
  const auto vq = variable(q), vk = variable(k), vv = variable(v);
  if (options.bias) options.bias = variable(options.bias);
  const auto y = attention(vq, vk, vv, s, options);
  backward(y, normal(y.shape(), 99));
  return {y.host(), vq.grad().host(), vk.grad().host(), vv.grad().host(),
          options.bias ? options.bias.grad().host() : std::vector<float>{}};
}

void set_row(Tensor<float>& x, Index n, float value) { std::fill_n(x.data() + n * x.dim(1), x.dim(1), value); }

// Rows [first, last) of a matrix that is `width` wide.
std::vector<float> rows(const std::vector<float>& x, Index first, Index last, Index width) {
  return {x.begin() + first * width, x.begin() + last * width};
}
bool all_zero(const std::vector<float>& x) {
  return std::all_of(x.begin(), x.end(), [](float value) { return value == 0; });
}
bool any_nan(const std::vector<float>& x) {
  return std::any_of(x.begin(), x.end(), [](float value) { return std::isnan(value); });
}

}  // namespace

TEST_CASE("attention: a fully masked query gives zeros and zero gradients") {
  const auto s = Sequences::packed({3, 70});
  const Index N = s.rows(), D = 8;
  auto mask = filled<bool>({2, 1, 70, 70}, true);
  for (Index j = 0; j < 70; ++j) mask.data()[1 * 70 + j] = false;  // query 1 of sequence 0
  std::fill_n(mask.data() + 70 * 70, 70 * 70, false);              // all of sequence 1
  const auto r = results(normal({N, D}, 1), normal({N, D}, 2), normal({N, D}, 3), s, {.heads = 2, .mask = mask});
  for (const auto* x : {&r.y, &r.dq}) {
    CHECK(all_zero(rows(*x, 1, 2, D)));
    CHECK_FALSE(all_zero(rows(*x, 0, 1, D)));
  }
  for (const auto* x : {&r.y, &r.dq, &r.dk, &r.dv}) {
    CHECK(all_zero(rows(*x, 3, N, D)));
    CHECK_FALSE(any_nan(*x));
  }
}

TEST_CASE("attention: NaN and infinity in a masked key or value change no bit") {
  const Index T = 150, D = 8;  // several tiles
  const auto s = Sequences::packed({static_cast<int>(T), 5});
  const auto q = normal({s.rows(), D}, 1), k = normal({s.rows(), D}, 2), v = normal({s.rows(), D}, 3);
  const Index hidden[] = {0, 7, 130, 149};
  auto mask = filled<bool>({2, 1, 1, T}, true);
  auto bias = normal({1, 1, T, T}, 4);
  for (const Index j : hidden) {
    mask.data()[j] = false;
    for (Index i = 0; i < T; ++i) bias.data()[i * T + j] = -infinity<float>;
  }
  for (const float poison : {std::nanf(""), infinity<float>, -infinity<float>}) {
    auto poisoned_k = Tensor<float>(k.shape(), k.host()), poisoned_v = Tensor<float>(v.shape(), v.host());
    for (const Index j : hidden) {
      set_row(poisoned_k, j, poison);
      set_row(poisoned_v, j, poison);
    }
    Random a(5), b(5);
    CHECK(results(q, k, v, s, {.heads = 2, .dropout = 0.2, .random = &a, .mask = mask}) ==
          results(q, poisoned_k, poisoned_v, s, {.heads = 2, .dropout = 0.2, .random = &b, .mask = mask}));
  }
  const auto one = Sequences::packed({static_cast<int>(T)});
  const auto first = [&](const Tensor<float>& x) { return x.leading(0, T); };
  auto poisoned_k = Tensor<float>(k.shape(), k.host()), poisoned_v = Tensor<float>(v.shape(), v.host());
  for (const Index j : hidden) {
    set_row(poisoned_k, j, std::nanf(""));
    set_row(poisoned_v, j, infinity<float>);
  }
  const auto clean = results(first(q), first(k), first(v), one, {.heads = 2, .bias = bias});
  CHECK(clean == results(first(q), first(poisoned_k), first(poisoned_v), one, {.heads = 2, .bias = bias}));
  for (const Index j : hidden) {
    CHECK(all_zero(rows(clean.dk, j, j + 1, D)));
    CHECK(all_zero(rows(clean.dv, j, j + 1, D)));
    for (Index i = 0; i < T; ++i) CHECK(clean.dbias[static_cast<std::size_t>(i * T + j)] == 0);
  }
}

TEST_CASE("attention: a NaN that some queries see reaches those, and no other") {
  const Index T = 140, D = 4, at = 100;
  const auto s = Sequences::packed({static_cast<int>(T)});
  const auto q = normal({T, D}, 1), k = normal({T, D}, 2), v = normal({T, D}, 3);
  SECTION("causal: the queries from there on") {
    for (const bool in_key : {true, false}) {
      auto poisoned = Tensor<float>(k.shape(), (in_key ? k : v).host());
      set_row(poisoned, at, std::nanf(""));
      const auto clean = results(q, k, v, s, {.causal = true});
      const auto r = results(q, in_key ? poisoned : k, in_key ? v : poisoned, s, {.causal = true});
      for (Index i = 0; i < T; ++i) {
        CAPTURE(i, in_key);
        if (i < at) CHECK(rows(r.y, i, i + 1, D) == rows(clean.y, i, i + 1, D));
        if (i >= at) CHECK(std::isnan(r.y[static_cast<std::size_t>(i * D)]));
        CHECK(any_nan(rows(r.dq, i, i + 1, D)) == (i >= at));
      }
    }
  }
  SECTION("blocks packed by a mask: the block that holds it, in all gradients too") {
    const Index half = T / 2;
    auto mask = filled<bool>({1, 1, T, T}, false);
    for (Index i = 0; i < T; ++i)
      for (Index j = 0; j < T; ++j) mask.data()[i * T + j] = (i < half) == (j < half);
    auto qn = Tensor<float>(q.shape(), q.host()), kn = Tensor<float>(k.shape(), k.host()),
         vn = Tensor<float>(v.shape(), v.host());
    for (auto* x : {&qn, &kn, &vn}) set_row(*x, at, std::nanf(""));
    const auto clean = results(q, k, v, s, {.heads = 2, .mask = mask}),
               r = results(qn, kn, vn, s, {.heads = 2, .mask = mask});
    CHECK(rows(r.y, 0, half, D) == rows(clean.y, 0, half, D));
    CHECK(rows(r.dq, 0, half, D) == rows(clean.dq, 0, half, D));
    CHECK(rows(r.dk, 0, half, D) == rows(clean.dk, 0, half, D));
    CHECK(rows(r.dv, 0, half, D) == rows(clean.dv, 0, half, D));
    CHECK(any_nan(rows(r.y, half, half + 1, D)));
  }
  SECTION("without a mask: everywhere") {
    auto poisoned = Tensor<float>(v.shape(), v.host());
    set_row(poisoned, at, std::nanf(""));
    const auto r = results(q, k, poisoned, s, {});
    for (Index i = 0; i < T; ++i) CHECK(std::isnan(r.y[static_cast<std::size_t>(i * D)]));
  }
}

TEST_CASE("attention: packed and padded batches give the same bits, dropout included") {
  const std::vector<int> lengths{5, 0, 33, 1, 140};
  const Index T = 147, D = 12;
  const auto packed = Sequences::packed(lengths), padded = Sequences::padded(lengths, T);
  const auto place = [&](const Tensor<float>& x) {
    auto y = filled<float>({padded.rows(), x.dim(1)}, std::nanf(""));  // what padding holds is never read
    for (std::size_t b = 0; b < lengths.size(); ++b)
      std::copy_n(x.data() + packed.begin().data()[b] * x.dim(1), lengths[b] * x.dim(1),
                  y.data() + padded.begin().data()[b] * x.dim(1));
    return y;
  };
  const auto x = normal({packed.rows(), 3 * D}, 1), dy = normal({packed.rows(), D}, 2);
  const auto run = [&](const Tensor<float>& rows_of_x, const Tensor<float>& rows_of_dy, const Sequences& s) {
    Random random(4);
    const auto v = variable(rows_of_x);
    const auto y = attention(columns(v, 0, D), columns(v, D, D), columns(v, 2 * D, D), s,
                             {.heads = 3, .dropout = 0.1, .random = &random});
    backward(y, rows_of_dy);
    return std::pair(y, v.grad());
  };
  const auto [y, dx] = run(x, dy, packed);
  const auto [padded_y, padded_dx] = run(place(x), place(dy), padded);
  const auto zero_padded = [&](const Tensor<float>& z) {
    auto expected = place(z);
    for (Index i = 0; i < expected.size(); ++i)
      if (std::isnan(expected.data()[i])) expected.data()[i] = 0;
    return expected.host();
  };
  CHECK(padded_y.host() == zero_padded(y));
  CHECK(padded_dx.host() == zero_padded(dx));
}

TEST_CASE("attention: the number of threads changes no bit") {
  const int before = threads();
  const auto s = Sequences::packed({70, 3, 0, 129, 40, 200});
  const auto q = normal({s.rows(), 8}, 1), k = normal({s.rows(), 8}, 2), v = normal({s.rows(), 8}, 3);
  for (const Shape& shape : {Shape{1, 1, 200, 200}, Shape{6, 1, 1, 200}, Shape{1, 2, 200, 200}}) {
    const auto bias = normal(shape, 4);
    const auto run = [&](int count) {
      set_threads(count);
      Random random(5);
      return results(q, k, v, s, {.heads = 2, .dropout = 0.1, .random = &random, .bias = bias});
    };
    const auto one = run(1);
    CHECK(one == run(2));
    CHECK(one == run(5));
  }
  set_threads(before);
}

TEST_CASE("attention: memory is linear in the length") {
  const int T = is_exhaustive() ? 16384 : 8192;
  const auto s = Sequences::packed({T});
  const auto q = normal({T, 2}, 1), k = normal({T, 2}, 2), v = variable(normal({T, 2}, 3));
  const auto stats = [] { return HostPool::instance().stats(); };
  const std::size_t limit =
      std::max(stats().peak, stats().in_use + (std::size_t{1} << 22));  // 4 MiB; a [T, T] matrix has 256 MiB or 1 GiB
  const auto y = attention(q, k, v, s, {.causal = true});
  backward(y, y);
  CHECK(stats().peak <= limit);
}

TEST_CASE("attention: dropout is the documented function of the draws") {
  const std::vector<int> lengths{40, 3, 131};
  const auto s = Sequences::packed(lengths);
  const Index H = 2, K = 4, longest = 131, groups = 5;  // of 32 keys
  const auto q = normal<double>({s.rows(), H * K}, 1), k = normal<double>({s.rows(), H * K}, 2);
  Tensor<double> v({s.rows(), H * longest});  // row j is the j-th unit vector: y is the matrix of dropped probabilities
  std::fill_n(v.data(), v.size(), 0.0);
  for (Index n = 0; n < s.rows(); ++n)
    for (Index h = 0; h < H; ++h) v.data()[n * v.dim(1) + h * longest + s.position().data()[n]] = 1;

  Random random(11, 3);
  random.take(17);
  const auto y = attention(q, k, v, s, {.heads = H, .dropout = 0.3, .random = &random});
  CHECK(random.position() == 17 + 3 * 2 * 131 * 4 * 5);
  const auto p = attention_weights(q, k, s, {.heads = H});
  const kernel::DropoutRule rule("attention", 0.3);
  Index kept = 0, all = 0;
  for (Index b = 0; b < 3; ++b)
    for (Index h = 0; h < H; ++h)
      for (Index i = 0; i < lengths[static_cast<std::size_t>(b)]; ++i)
        for (Index j = 0; j < lengths[static_cast<std::size_t>(b)]; ++j) {
          const Index t = j % 8 / 2, e = j % 32 / 8 * 2 + j % 2;
          const auto call = static_cast<std::uint64_t>((((b * H + h) * longest + i) * groups + j / 32) * 4 + t);
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

TEST_CASE("attention: without a generator, or without a probability, nothing is dropped or drawn") {
  const auto s = Sequences::packed({9});
  const auto x = normal({9, 4}, 1);
  Random random(1);
  const auto y = attention(x, x, x, s).host();
  CHECK(attention(x, x, x, s, {.dropout = 0.5}).host() == y);
  CHECK(attention(x, x, x, s, {.random = &random}).host() == y);
  CHECK(random.position() == 0);
}

TEST_CASE("attention: a sequence without queries or keys is no error") {
  const auto none = Sequences::packed({}), s = Sequences::packed({2, 0}), keys = Sequences::packed({0, 3});
  CHECK(attention(Tensor<float>({0, 4}), Tensor<float>({0, 4}), Tensor<float>({0, 4}), none).shape() == Shape{0, 4});
  const auto r = results(normal({2, 4}, 1), normal({3, 4}, 2), normal({3, 4}, 3), s, {.keys = &keys});
  CHECK(all_zero(r.y));
  CHECK(all_zero(r.dq));
  CHECK(all_zero(r.dk));
  CHECK(all_zero(r.dv));
}

TEST_CASE("attention: errors name operands, shapes and limits") {
  const auto s = Sequences::packed({3, 2}), keys = Sequences::packed({4});
  const Tensor<float> x({5, 6}), y({5, 4}), z({4, 6});
  CHECK_THROWS_WITH(attention(x, y, x, s),
                    "attention: 'heads * K' disagrees between q and k\n"
                    "  q  [5, 6]    axis 1 is 6\n"
                    "  k  [5, 4]    axis 1 is 4");
  CHECK_THROWS_WITH(attention(x, x, y, s, {.heads = 3}),
                    "attention: v [5, 4] is not 3 heads wide: its axis 1 must be a multiple of that");
  CHECK_THROWS_WITH(attention(x, x, x, s, {.heads = 0}),
                    "attention: q [5, 6] is not 0 heads wide: its axis 1 must be a multiple of that");
  CHECK_THROWS_WITH(attention(z, x, x, s),
                    "attention: q [4, 6] must have one row for each of the 5 rows of its 2 sequences");
  CHECK_THROWS_WITH(attention(x, z, z, s),
                    "attention: k [4, 6] must have one row for each of the 5 rows of its 2 sequences");
  CHECK_THROWS_WITH(attention(x, z, z, s, {.keys = &keys}),
                    "attention: there are 2 sequences of queries and 1 of keys");
  CHECK_THROWS_WITH(
      attention(x, x, x, s, {.mask = Tensor<bool>({3, 1, 1, 3})}),
      "attention: mask [3, 1, 1, 3] must be [1 or 2, 1 or 1, 1 or at least 3, at least 3] for these sequences, heads, "
      "queries and keys");
  CHECK_THROWS_WITH(attention(x, x, x, s, {.bias = Tensor<float>({3, 3})}), "attention: bias [3, 3] must have 4 axes");
  CHECK_THROWS_WITH(attention(x, x, x, s, {.dropout = 1}), "attention: a dropout probability is in [0, 1), got 1");
  CHECK_THROWS_WITH(columns(x, 4, 3), "columns: [4, 7) is not within axis 1 of [5, 6]");
  CHECK_THROWS_AS(columns(x, 4, 3), ShapeError);
}

TEST_CASE("attention: a backward after q was overwritten is an error") {
  const auto s = Sequences::packed({2});
  auto q = variable(normal({2, 2}, 1));
  const auto y = attention(q, q, q, s);
  q.data()[0] = 1;
  CHECK_THROWS_AS(backward(y, empty_like(y)), Error);
}
