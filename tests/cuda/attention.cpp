// The CUDA kernels of attention against the CPU's: values and all gradients, for each width of tiles and beyond, and what
// attention promises about masks, NaN, dropout and sequences.
#include <heddle/ops/attention/attention.hpp>
#include <heddle/ops/slice.hpp>

#include "../harness/agreement.hpp"
#include "../ops/plain_attention.hpp"
#include "same_always.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

using Lengths = std::vector<int>;

// What a call is made of besides q, k, v and a bias.
struct Form {
  Index heads = 1;
  Lengths queries, keys = {};  // the same where keys is empty
  bool causal = false;
  double dropout = 0;
  Tensor<bool> mask = {};
  Index padded_to = 0;

  Sequences sequences(const Lengths& lengths) const {
    return padded_to > 0 ? Sequences::padded(lengths, padded_to) : Sequences::packed(lengths);
  }
  Sequences of_queries() const { return sequences(queries); }
  Sequences of_keys() const { return sequences(keys.empty() ? queries : keys); }
};

// By plain loops instead of the library's attention while there is one of these.
struct Plainly {
  inline static bool now = false;
  Plainly() { now = true; }
  ~Plainly() { now = false; }
};

template <class A>
Tensor<A> call(const Form& form, const ColumnSlice<A>& q, const ColumnSlice<A>& k, const ColumnSlice<A>& v,
               const Tensor<A>& bias = {}) {
  const Device device = q.device();
  const Sequences queries = form.of_queries().to(device), keys = form.of_keys().to(device);
  Random random(5);
  random.take(3);
  const AttentionOptions<A> options{.heads = form.heads,
                                    .causal = form.causal,
                                    .dropout = form.dropout,
                                    .random = &random,
                                    .mask = form.mask ? form.mask.to(device) : form.mask,
                                    .bias = bias,
                                    .keys = &keys};
  const auto alone = [](const ColumnSlice<A>& x) { return slice(x.x, 1, x.first, x.first + x.width); };
  if constexpr (std::is_same_v<A, float>)
    if (Plainly::now) return plain_attention(alone(q), alone(k), alone(v), queries, options);
  return attention(q, k, v, queries, options);
}

// Float is measured by the worse of two: the CPU's, whose sums are made in blocks, and plain loops; the last bits are those of the
// log-sum-exp, which gradients begin with. On the GPU each probability is rounded to bf16 before it weighs a value, on
// the CPU results alone are: so bf16 is measured by the CPU's bf16, and may round twice more. Which of NaN and infinity
// comes out where both go in depends on a sum's order.
template <class T, class F>
void expect_attention(F&& f, const Inputs& inputs) {
  Evaluation exact = evaluate<double, T>(f, inputs, Device::cpu), actual = evaluate<T>(f, inputs, Device::cuda),
             plain = evaluate<T>(f, inputs, Device::cpu);
  if constexpr (std::is_same_v<T, float>) {
    const Plainly loops;
    const Evaluation in_order = evaluate<T>(f, inputs, Device::cpu);
    for (std::size_t part = 0; part < plain.size(); ++part)
      for (std::size_t i = 0; i < plain[part].values.size(); ++i) {
        double& value = plain[part].values[i];
        const double other = in_order[part].values[i], goal = exact[part].values[i];
        if (std::abs(other - goal) > std::abs(value - goal)) value = other;
      }
  }
  for (Evaluation* all : {&exact, &actual, &plain})
    for (Computed& part : *all)
      for (double& value : part.values)
        if (!std::isfinite(value)) value = quiet_nan<double>;
  expect_close(actual, exact, [&](std::size_t part) {
    return plain_errors<T>(exact[part].values, plain[part].values, {.last_bits = 8, .roundings = 2});
  });
}

// q, k and v of their own.
template <class T>
Inputs operands(const Form& form, Index K, Index V) {
  const Index Nq = form.of_queries().rows(), Nk = form.of_keys().rows();
  return {random<T>({Nq, form.heads * K}, 1), random<T>({Nk, form.heads * K}, 2), random<T>({Nk, form.heads * V}, 3)};
}

template <class T>
void check(const Form& form, Index K, Index V, const Tensor<double>& bias = {}) {
  CAPTURE(K, V, form.heads, form.causal, form.dropout);
  auto inputs = operands<T>(form, K, V);
  if (bias) inputs.push_back(bias);
  expect_attention<T>(
      [&](const auto& in) {
        using A = typename std::decay_t<decltype(in[0])>::Element;
        return call<A>(form, in[0], in[1], in[2], in.size() > 3 ? in[3] : Tensor<A>());
      },
      inputs);
}
template <class T>
void check(const Form& form, Index K) {
  check<T>(form, K, K);
}

Tensor<bool> random_mask(const Shape& shape, std::uint64_t seed, double share = 0.7) {
  Random random(seed);
  const auto u = uniform<double>(shape, 0, 1, random);
  Tensor<bool> mask(shape);
  for (Index i = 0; i < u.size(); ++i) mask.data()[i] = u.data()[i] < share;
  return mask;
}

// Small shapes where a sanitizer makes everything slow.
bool watched() { return races_are_watched() || !detail::memory_is_cached; }
// ThreadSanitizer knows no more than some 8,000 threads at a time.
Lengths ragged() { return watched() ? Lengths{1, 0, 33} : Lengths{1, 0, 33, 70}; }

// All results of one call on the GPU, in T.
template <class T>
Evaluation on_gpu(const Form& form, const Inputs& inputs) {
  return evaluate<T>(
      [&](const auto& in) { return call<T>(form, in[0], in[1], in[2], in.size() > 3 ? in[3] : Tensor<T>()); }, inputs,
      Device::cuda);
}

Tensor<double> copy_of(const Tensor<double>& x) { return Tensor<double>(x.shape(), x.host()); }
Tensor<double> with_rows(const Tensor<double>& x, const std::vector<Index>& rows, double value) {
  auto y = copy_of(x);
  for (const Index n : rows) std::fill_n(y.data() + n * y.dim(1), y.dim(1), value);
  return y;
}

}  // namespace

TEMPLATE_TEST_CASE("cuda attention: each width of tiles and beyond, ragged lengths", "", float, bf16) {
  for (const Index K : {1, 16, 24, 32, 64, 80, 128, 160})
    for (const bool causal : {false, true}) check<TestType>({.heads = 2, .queries = ragged(), .causal = causal}, K);
  check<TestType>({.queries = {5, 0, 3, 17}}, 768);
}

TEMPLATE_TEST_CASE("cuda attention: on either side of the tiles' and the blocks' sizes", "", float, bf16) {
  for (const int T : watched() ? Lengths{32, 65} : Lengths{15, 16, 17, 31, 32, 64, 65, 128, 129, 257})
    for (const bool causal : {false, true}) {
      CAPTURE(T);
      check<TestType>({.queries = {T}, .causal = causal}, 16);
      for (const Index K : {128, 136})
        if (T == 65 && !watched()) check<TestType>({.queries = {T}, .causal = causal, .dropout = 0.1}, K);
    }
}

TEMPLATE_TEST_CASE("cuda attention: other keys than queries, other values than keys", "", float, bf16) {
  const Lengths queries = watched() ? Lengths{3, 0, 34} : Lengths{3, 0, 70, 4},
                keys = watched() ? Lengths{35, 2, 0} : Lengths{67, 2, 31, 0};
  for (const auto& [K, V] : {std::pair<Index, Index>{16, 16}, {24, 64}, {64, 7}, {40, 160}, {136, 3}})
    for (const bool causal : {false, true})
      check<TestType>({.heads = 2, .queries = queries, .keys = keys, .causal = causal, .dropout = 0.2}, K, V);
}

TEMPLATE_TEST_CASE("cuda attention: dropout is the CPU's", "", float, bf16) {
  for (const Index K : {16, 64, 128, 160})
    for (const bool causal : {false, true})
      check<TestType>({.heads = 3, .queries = ragged(), .causal = causal, .dropout = 0.3}, K);
}

TEMPLATE_TEST_CASE("cuda attention: a mask, a bias and its gradient, shared along any axis", "", float, bf16) {
  const Lengths lengths = watched() ? Lengths{34, 3} : Lengths{33, 0, 70};
  const Index B = static_cast<Index>(lengths.size()), T = watched() ? 34 : 70;
  for (const Shape& shape : {Shape{B, 2, T, T}, Shape{1, 2, T + 1, T + 9}, Shape{B, 1, 1, T}, Shape{1, 1, T, T},
                             Shape{1, 2, 1, T}, Shape{1, 1, 1, T}})
    for (const Index K : {16, 136}) {
      if (K > 128 && shape[0] == 1) continue;
      CAPTURE(shape);
      Form form{.heads = 2, .queries = lengths, .dropout = 0.1};
      check<TestType>(form, K, K, random<TestType>(shape, 5));
      form.mask = random_mask(shape, 4);
      form.causal = true;
      auto bias = random<TestType>(shape, 6);
      for (Index i = 0; i < bias.size(); i += 7) bias.data()[i] = -infinity<double>;
      check<TestType>(form, K, K, bias);
    }
}

TEMPLATE_TEST_CASE("cuda attention: a query that sees no key gives zeros and zero gradients", "", float, bf16) {
  const Index T = watched() ? 34 : 70;
  for (const Index K : {8, 136}) {
    Form form{.heads = 2, .queries = {3, static_cast<int>(T)}, .mask = Tensor<bool>({2, 1, T, T})};
    std::fill_n(form.mask.data(), form.mask.size(), true);
    for (Index j = 0; j < T; ++j) form.mask.data()[1 * T + j] = false;  // query 1 of sequence 0
    std::fill_n(form.mask.data() + T * T, T * T, false);                // all of sequence 1
    check<TestType>(form, K);
    const auto all = on_gpu<TestType>(form, operands<TestType>(form, K, K));
    for (const auto& part : all)
      for (const double value : part.values) REQUIRE(!std::isnan(value));
    for (Index d = 0; d < 2 * K; ++d) {
      CHECK(all[0].values[static_cast<std::size_t>(2 * K + d)] == 0);
      CHECK(all[0].values[static_cast<std::size_t>(3 * 2 * K + d)] == 0);
    }
  }
}

TEMPLATE_TEST_CASE("cuda attention: what a masked key or value holds changes no bit", "", float, bf16) {
  const Index T = watched() ? 34 : 70;
  const std::vector<Index> hidden = watched() ? std::vector<Index>{0, 33} : std::vector<Index>{0, 7, 33, 69};
  for (const Index K : {8, 64, 136})
    for (const bool by_bias : {false, true}) {
      CAPTURE(K, by_bias);
      Form form{.heads = 2, .queries = {static_cast<int>(T), 5}, .dropout = 0.2};
      auto inputs = operands<TestType>(form, K, K);
      if (by_bias) inputs.push_back(random<TestType>({2, 1, T, T}, 4));
      if (!by_bias) {
        form.mask = Tensor<bool>({2, 1, 1, T});
        std::fill_n(form.mask.data(), form.mask.size(), true);
      }
      for (const Index j : hidden) {
        if (!by_bias) form.mask.data()[j] = false;
        for (Index i = 0; by_bias && i < T; ++i) inputs[3].data()[i * T + j] = -infinity<double>;
      }
      const auto clean = on_gpu<TestType>(form, inputs);
      for (const auto& part : clean)
        for (const double value : part.values) REQUIRE(std::isfinite(value));
      for (const double poison : {std::nan(""), infinity<double>, -infinity<double>}) {
        auto poisoned = inputs;
        for (const std::size_t x : {1u, 2u}) poisoned[x] = with_rows(inputs[x], hidden, poison);
        CHECK((on_gpu<TestType>(form, poisoned) == clean));
      }
    }
}

TEMPLATE_TEST_CASE("cuda attention: a NaN or an infinity that some queries see reaches those, as on the CPU", "", float,
                   bf16) {
  const Index T = watched() ? 34 : 70, at = watched() ? 20 : 50;
  for (const Index K : {8, 64, 136})
    for (const double poison : {std::nan(""), infinity<double>})
      for (const std::size_t which : {0u, 1u, 2u}) {
        CAPTURE(K, poison, which);
        Form form{.queries = {static_cast<int>(T)}, .causal = true};
        auto inputs = operands<TestType>(form, K, K);
        inputs[which] = copy_of(inputs[which]);
        inputs[which].data()[at * K + 3] = poison;
        const auto f = [&](const auto& in) {
          using A = typename std::decay_t<decltype(in[0])>::Element;
          return call<A>(form, in[0], in[1], in[2]);
        };
        expect_attention<TestType>(f, inputs);
        // Two blocks that do not see each other.
        form.causal = false;
        form.mask = Tensor<bool>({1, 1, T, T});
        for (Index i = 0; i < T; ++i)
          for (Index j = 0; j < T; ++j) form.mask.data()[i * T + j] = (i < T / 2) == (j < T / 2);
        expect_attention<TestType>(f, inputs);
      }
}

TEMPLATE_TEST_CASE("cuda attention: columns of one packed product, aligned or not, some of them unused", "", float,
                   bf16) {
  for (const Index heads : {1, 2})
    for (const Index K : {8, 13, 32, 160}) {
      const Index D = heads * K;
      for (const Index unused : {Index{0}, Index{3}}) {
        CAPTURE(heads, K, unused);
        const Form form{.heads = heads, .queries = ragged()};
        const auto packed = random<TestType>({form.of_queries().rows(), 3 * D + unused}, 1);
        expect_attention<TestType>(
            [&](const auto& in) {
              using A = typename std::decay_t<decltype(in[0])>::Element;
              return call<A>(form, columns(in[0], unused, D), columns(in[0], D + unused, D),
                             columns(in[0], 2 * D + unused, D));
            },
            {packed});
      }
    }
}

TEMPLATE_TEST_CASE("cuda attention: packed and padded batches give the same bits", "", float, bf16) {
  const Lengths lengths = watched() ? Lengths{5, 0, 33} : Lengths{5, 0, 33, 1, 140};
  const Index T = watched() ? 35 : 147;
  for (const Index K : {12, 136}) {
    const Form packed{.heads = 3, .queries = lengths, .dropout = 0.1},
        padded{.heads = 3, .queries = lengths, .dropout = 0.1, .padded_to = T};
    const Sequences from = packed.of_queries(), to = padded.of_queries();
    const auto place = [&](const Tensor<double>& x, double elsewhere) {
      Tensor<double> y({to.rows(), x.dim(1)});
      std::fill_n(y.data(), y.size(), elsewhere);
      for (std::size_t b = 0; b < lengths.size(); ++b)
        std::copy_n(std::as_const(x).data() + from.begin().data()[b] * x.dim(1), lengths[b] * x.dim(1),
                    y.data() + to.begin().data()[b] * x.dim(1));
      return y;
    };
    const auto results = [&](const Form& form, const Tensor<double>& x, const Tensor<double>& dy) {
      const auto in = variable(converted<TestType>(x, Device::cuda));
      const Index D = 3 * K;
      const auto y = call<TestType>(form, columns(in, 0, D), columns(in, D, D), columns(in, 2 * D, D));
      backward(y, converted<TestType>(dy, Device::cuda));
      return std::pair(converted<double>(y.to(Device::cpu)), converted<double>(in.grad().to(Device::cpu)));
    };
    const auto x = random<TestType>({from.rows(), 9 * K}, 1), dy = random<TestType>({from.rows(), 3 * K}, 2);
    const auto [y, dx] = results(packed, x, dy);
    const auto [padded_y, padded_dx] = results(padded, place(x, std::nan("")), place(dy, std::nan("")));
    CHECK((padded_y.host() == place(y, 0).host()));
    CHECK((padded_dx.host() == place(dx, 0).host()));
  }
}

TEMPLATE_TEST_CASE("cuda attention: no sequence, no query, no key", "", float, bf16) {
  check<TestType>({.queries = {}}, 8);
  check<TestType>({.queries = {0, 0}}, 8);
  for (const Index K : {8, 136}) {
    check<TestType>({.queries = {2, 0}, .keys = {0, 3}}, K);
    check<TestType>({.queries = {2, 3}, .keys = {0, 0}}, K);
    check<TestType>({.queries = {0, 0}, .keys = {2, 3}}, K);
    check<TestType>({.queries = {0, 2}, .keys = {3, 2}}, K, K, random<TestType>({1, 1, 1, 3}, 4));
  }
}

TEMPLATE_TEST_CASE("cuda attention: more heads than a grid is high", "", float, bf16) {
  [[maybe_unused]] const LowGrid low;
  const int longest = LowGrid::height > 100 ? 2 : 32;
  Lengths queries, keys;
  for (Index b = 0; b < LowGrid::height / 2 + 4; ++b) {
    queries.push_back(b % 3 == 2 ? 0 : longest);
    keys.push_back(b % 3 == 1 ? 0 : longest - 1);
  }
  for (const Index K : {8, 136})
    for (const bool causal : {false, true})
      check<TestType>({.heads = 2, .queries = queries, .keys = keys, .causal = causal}, K);
}

TEST_CASE("cuda attention: a scale that is negative or zero") {
  const auto s = Sequences::packed({40});
  for (const double scale : {-0.5, 0.0})
    for (const Index K : {8, 136})
      expect_agrees<float>(
          [&](const auto& in) {
            using A = typename std::decay_t<decltype(in[0])>::Element;
            return attention(in[0], in[1], in[2], s.to(in[0].device()), AttentionOptions<A>{.scale = scale});
          },
          {random<float>({40, K}, 1), random<float>({40, K}, 2), random<float>({40, K}, 3)});
}

TEST_CASE("cuda attention: what needs no gradient is left out") {
  const auto s = Sequences::packed({40}).to(Device::cuda);
  const auto constant = [](std::uint64_t seed) { return converted<float>(random<float>({40, 8}, seed), Device::cuda); };
  const auto gradients = [&](bool of_q, bool of_k, bool of_v) {
    const auto in = [&](bool wanted, std::uint64_t seed) { return wanted ? variable(constant(seed)) : constant(seed); };
    const auto q = in(of_q, 1), k = in(of_k, 2), v = in(of_v, 3);
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
}

TEMPLATE_TEST_CASE("cuda attention_weights: the probabilities themselves", "", float, bf16) {
  const Lengths lengths = watched() ? Lengths{3, 0, 34} : Lengths{3, 0, 70, 150};
  for (const Index K : {5, 64, 200})
    for (const Index padded_to : {0, 151})
      for (const bool causal : {false, true}) {
        CAPTURE(K, padded_to, causal);
        const Form form{.heads = 2, .queries = lengths, .padded_to = padded_to};
        const Index T = padded_to > 0 ? padded_to : form.of_queries().longest(), B = form.of_queries().count();
        const Tensor<bool> mask = random_mask({B, 1, T, T}, 3, 0.9);
        expect_agrees<TestType>(
            [&](const auto& in) {
              using A = typename std::decay_t<decltype(in[0])>::Element;
              const Device device = in[0].device();
              return attention_weights(in[0], in[1], form.of_queries().to(device),
                                       AttentionOptions<A>{.heads = 2, .causal = causal, .mask = mask.to(device)});
            },
            {random<TestType>({form.of_queries().rows(), 2 * K}, 1),
             random<TestType>({form.of_queries().rows(), 2 * K}, 2)});
      }
}

// Operands have 11 significant bits in TF32, where bf16 has 8: an eighth of the error that the CPU makes in bf16, or up to three times that.
TEST_CASE("cuda attention: TF32 where it is allowed") {
  struct Allowed {
    Allowed() { cuda::allow_tf32(true); }
    ~Allowed() { cuda::allow_tf32(false); }
  };
  for (const Index K : {16, 24, 64, 128, 136})
    for (const bool causal : {false, true}) {
      CAPTURE(K, causal);
      const Index T = ragged().back();
      Form form{.heads = 2, .queries = ragged(), .causal = causal, .dropout = 0.1};
      form.mask = random_mask({1, 1, 1, T}, 4, 0.9);
      form.mask.data()[2] = false;  // of the longer sequences: row 3 of all
      auto inputs = operands<float>(form, K, K);
      inputs.push_back(random<float>({1, 2, T, T}, 6));
      const auto f = [&](const auto& in) {
        using A = typename std::decay_t<decltype(in[0])>::Element;
        return call<A>(form, in[0], in[1], in[2], in[3]);
      };
      const Evaluation exact = evaluate<double, float>(f, inputs, Device::cpu),
                       plain = evaluate<bf16, float>(f, inputs, Device::cpu), in_float = on_gpu<float>(form, inputs);
      const Allowed allowed;
      const Evaluation got = on_gpu<float>(form, inputs);
      expect_close(got, exact, [&](std::size_t part) {
        return plain_errors<float>(exact[part].values, plain[part].values, {.times = 3.0 / 8});
      });
      CHECK(got != in_float);
      auto poisoned = inputs;
      for (const std::size_t x : {1u, 2u}) poisoned[x] = with_rows(inputs[x], {3}, std::nan(""));
      CHECK((on_gpu<float>(form, poisoned) == got));
      if (K == 64) expect_same_always([&] { return on_gpu<float>(form, poisoned); });
    }
}

TEMPLATE_TEST_CASE("cuda attention: schedules and what memory held before change nothing", "", float, bf16) {
  for (const Index K : {16, 64, 136}) {
    Form form{.heads = 2, .queries = {34, 3}, .causal = true, .dropout = 0.1};
    auto inputs = operands<TestType>(form, K, K);
    inputs.push_back(random<TestType>({1, 2, 1, 34}, 4));
    inputs[1] = with_rows(inputs[1], {33}, std::nan(""));  // so that blocks begin again, carefully
    for (const Index j : {33, 34 + 33}) inputs[3].data()[j] = -infinity<double>;
    expect_same_always([&] { return on_gpu<TestType>(form, inputs); });
  }
}
