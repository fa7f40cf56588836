// The CUDA kernels of attention against the CPU's: values and all gradients, for each width of tiles and beyond.
#include <heddle/core/create.hpp>
#include <heddle/ops/attention/attention.hpp>
#include <heddle/ops/concat.hpp>
#include <heddle/ops/slice.hpp>

#include "../harness/agreement.hpp"
#include "../ops/attention_form.hpp"
#include "lowered_limits.hpp"
#include "same_always.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

// Returns whether a sanitizer makes everything slow, so that shapes must be small.
bool watched() { return races_are_watched() || !detail::memory_is_cached; }
// Returns ragged lengths; shorter ones if a tool watches, because ThreadSanitizer supports about 8,000
// threads at a time.
Lengths ragged() { return watched() ? Lengths{1, 0, 33} : Lengths{1, 0, 33, 70}; }

// Returns all results of one call on the GPU, in T.
template <class T>
Evaluation on_gpu(const AttentionForm& form, const Inputs& inputs) {
  return evaluate<T>(attention_function(form), inputs, Device::cuda);
}

}  // namespace

TEMPLATE_TEST_CASE("cuda attention: each width of tiles and beyond, ragged lengths", "", float, bf16) {
  const Index three_halves = 24 / Index{sizeof(TestType)};  // of an access, so that only one of two heads is aligned
  for (const Index K :
       {Index{1}, three_halves, Index{16}, Index{24}, Index{32}, Index{64}, Index{80}, Index{128}, Index{160}})
    for (const bool causal : {false, true})
      expect_attention_of<TestType>({.heads = 2, .queries = ragged(), .causal = causal}, K);
  expect_attention_of<TestType>({.queries = {5, 0, 3, 17}}, 768);
}

TEMPLATE_TEST_CASE("cuda attention: on either side of the tiles' and the blocks' sizes", "", float, bf16) {
  for (const int T :
       watched() ? Lengths{32, 65} : Lengths{15, 16, 17, 31, 32, 33, 48, 49, 64, 65, 81, 96, 128, 129, 257})
    for (const bool causal : {false, true}) {
      CAPTURE(T);
      expect_attention_of<TestType>({.queries = {T}, .causal = causal}, 16);
      for (const Index K : {64, 128, 136})
        if ((T == 65 || T == 81 || T == 129) && !watched())
          expect_attention_of<TestType>({.queries = {T}, .causal = causal, .dropout = 0.1}, K);
    }
}

TEMPLATE_TEST_CASE("cuda attention: lengths and widths differ between queries, keys and values", "", float, bf16) {
  const Lengths queries = watched() ? Lengths{3, 0, 34} : Lengths{3, 0, 70, 4},
                keys = watched() ? Lengths{35, 2, 0} : Lengths{67, 2, 31, 0};
  for (const auto& [K, V] : {std::pair<Index, Index>{16, 16}, {24, 64}, {64, 7}, {40, 160}, {136, 3}})
    for (const bool causal : {false, true})
      expect_attention_of<TestType>({.heads = 2, .queries = queries, .keys = keys, .causal = causal, .dropout = 0.2}, K,
                                    V);
}

TEMPLATE_TEST_CASE("cuda attention: dropout draws the same mask as on the CPU", "", float, bf16) {
  for (const Index K : {16, 64, 128, 160})
    for (const bool causal : {false, true})
      for (const double dropout : {0.3, 0.7})  // from 1/2 on, the threshold's top bit is set
        expect_attention_of<TestType>({.heads = 3, .queries = ragged(), .causal = causal, .dropout = dropout}, K);
}

namespace {

// A call of the kernels themselves, for two heads.
struct KernelCall {
  Index K;
  Lengths queries, keys;
  Index window = kernel::any_distance;
  bool has_bias = false;
  double scale = 1, dropout = 0;
  bool stores_decisions = false;
  Index unused = 0;  // columns on the left of dy
};

// Returns y, dq, dk, dv and dbias.
template <class T>
std::vector<T> results_of(const KernelCall& of) {
  const Sequences q_rows = Sequences::packed(of.queries).to(Device::cuda),
                  k_rows = Sequences::packed(of.keys).to(Device::cuda);
  const auto there = [&](Shape shape, std::uint64_t seed) { return cast<T>(random<T>(shape, seed)).to(Device::cuda); };
  constexpr Index heads = 2;
  const Index columns = heads * of.K;
  const Tensor<T> q = there({q_rows.rows(), columns}, 1), k = there({k_rows.rows(), columns}, 2),
                  v = there({k_rows.rows(), columns}, 3), dy = there({q_rows.rows(), of.unused + columns}, 4);
  AttentionOptions<T> options{.heads = heads, .scale = of.scale, .window = of.window, .keys = &k_rows};
  if (of.has_bias) options.bias = there({1, 1, q_rows.longest(), k_rows.longest()}, 6);
  Random draws(5);
  detail::AttentionCall<T> call("attention", q, k, q_rows, options);
  call.draw("attention", of.dropout, &draws);
  const Index words = q_rows.count() * heads * kernel::kept_words(q_rows.longest(), k_rows.longest());
  if (of.stores_decisions) call.kept = Tensor<int>({words / 2}, Device::cuda);

  Tensor<T> y = empty_like(q), dq = empty_like(q), dk = empty_like(k), dv = empty_like(v);
  Tensor<float> lse({heads, q.dim(0)}, Device::cuda), delta = empty_like(lse), dbias;
  if (of.has_bias) dbias = zeros<float>(call.bias.shape()).to(Device::cuda);
  using kernel::matrix_view;
  const auto all_columns = [](auto& x) { return matrix_view(x, 0, x.dim(1)); };
  kernel::attention(Cuda{}, call.plan(), all_columns(q), all_columns(k), all_columns(v), all_columns(y), view<2>(lse));
  kernel::attention_backward(Cuda{}, call.plan(), all_columns(q), all_columns(k), all_columns(v),
                             all_columns(std::as_const(y)), view<2>(std::as_const(lse)),
                             matrix_view(dy, of.unused, columns), view<2>(delta), all_columns(dq), all_columns(dk),
                             all_columns(dv), of.has_bias ? kernel::per_score(dbias) : kernel::PerScore<float>());
  std::vector<T> all;
  const auto append = [&](const Tensor<T>& x) {
    const std::vector<T> values = x.host();
    all.insert(all.end(), values.begin(), values.end());
  };
  for (const auto* x : {&y, &dq, &dk, &dv}) append(*x);
  if (of.has_bias) append(cast<T>(dbias));
  return all;
}

using LengthPairs = std::vector<std::pair<Lengths, Lengths>>;  // of queries and keys

}  // namespace

TEMPLATE_TEST_CASE("cuda attention: stored decisions give the same bits as drawn ones", "", float, bf16) {
  const LengthPairs shapes =
      watched()
          ? LengthPairs{{{33, 0, 2}, {1, 3, 65}}}
          : LengthPairs{{{1}, {1}}, {{31, 0, 16}, {33, 5, 0}}, {{65, 3}, {257, 17}}, {{130, 1, 48}, {64, 95, 32}}};
  for (const Index K : {16, 32, 64, 128})
    for (const auto& [queries, keys] : shapes)
      for (const Index window : {kernel::any_distance, Index{20}}) {
        CAPTURE(K, queries, keys, window);
        KernelCall call{K, queries, keys, window, true, 1, 0.3};
        const auto drawn = results_of<TestType>(call);
        call.stores_decisions = true;
        CHECK(same_bits(results_of<TestType>(call), drawn));
      }
}

namespace {

// Checks a call's results if blocks own heads against those if they do not.
void expect_same_bits_of_block_heads(KernelCall call) {
  for (const double dropout : {0.0, 0.3})
    for (const bool stores : {false, true}) {
      if (dropout == 0 && stores) continue;
      CAPTURE(call.K, call.scale, dropout, stores);
      call.dropout = dropout;
      call.stores_decisions = stores;
      const auto with_limit = [&](Index heads) {
        cuda::Limits limits = cuda::limits;
        limits.block_heads = heads;
        const LoweredLimits low(limits);
        return results_of<bf16>(call);
      };
      CHECK(same_bits(with_limit(0), with_limit(std::numeric_limits<Index>::max())));
    }
}

}  // namespace

TEST_CASE("cuda attention: gradients have the same bits if a block owns a head") {
  const LengthPairs shapes = watched() ? LengthPairs{{{33, 0, 2}, {1, 3, 65}}}
                                       : LengthPairs{{{1, 0, 2}, {1, 3, 0}},
                                                     {{31, 0, 16}, {33, 5, 0}},
                                                     {{65, 3, 127}, {64, 17, 128}},
                                                     {{256, 33}, {129, 256}},
                                                     {{257}, {31}},
                                                     {{31}, {257}}};
  for (const Index K : {8, 13, 16, 24, 32, 40, 64, 72})
    for (const auto& [queries, keys] : shapes) {
      if (K != 64 && K != 40 && queries[0] == 256) continue;
      CAPTURE(queries, keys);
      expect_same_bits_of_block_heads({K, queries, keys});
    }
  for (const double scale : {-0.5, 0.0})
    expect_same_bits_of_block_heads({.K = 16, .queries = {33}, .keys = {32}, .scale = scale});
  expect_same_bits_of_block_heads({.K = 16, .queries = {33}, .keys = {32}, .unused = 1});
  // exp(-lse), which is the probability of a key after the sequence's last, is infinite for some queries.
  expect_same_bits_of_block_heads({.K = 16, .queries = {33}, .keys = {1}, .scale = 100});
}

TEST_CASE("cuda attention: gradients if a block owns more heads than one") {
  const LoweredLimits low({.head_blocks = 2});
  expect_same_bits_of_block_heads({.K = 8, .queries = {34, 34, 0, 34, 34}, .keys = {33, 0, 33, 33, 0}});
}

TEST_CASE("cuda attention: gradients against the CPU's if a block owns a head") {
  const LoweredLimits low({.block_heads = 0});
  for (const auto& [K, V] : {std::pair<Index, Index>{16, 16}, {24, 64}, {64, 7}})
    for (const double dropout : {0.0, 0.2})
      expect_attention_of<bf16>({.heads = 2, .queries = ragged(), .dropout = dropout}, K, V);
}

TEST_CASE("cuda attention: decisions are stored while they take no more memory than the result") {
  const auto are_stored = [](int length, Index K, double dropout) {
    const Sequences sequences = Sequences::packed({length}).to(Device::cuda);
    const Tensor<bf16> q({length, K}, Device::cuda);
    Random random(1);
    detail::AttentionCall<bf16> call("attention", q, q, sequences, {});
    call.draw("attention", dropout, &random);
    call.store_decisions(q);
    return call.kept.has_data();
  };
  CHECK(are_stored(256, 16, 0.1));
  CHECK_FALSE(are_stored(257, 16, 0.1));
  CHECK_FALSE(are_stored(256, 16, 0));
  CHECK(are_stored(512, 128, 0.1));
  CHECK_FALSE(are_stored(512, 136, 0.1));  // has a kernel that keeps scores
  CHECK_FALSE(are_stored(0, 16, 0.1));
}

TEMPLATE_TEST_CASE("cuda attention: within a window of distances", "", float, bf16) {
  const Lengths lengths = watched() ? Lengths{1, 0, 65} : Lengths{1, 0, 33, 150};
  for (const Index K : {16, 32, 64, 128, 136})
    for (const bool causal : {false, true})
      for (const Index window : watched() ? std::vector<Index>{17} : std::vector<Index>{0, 5, 31, 64}) {
        if (window != 31 && K != 16 && K != 64) continue;
        expect_attention_of<TestType>(
            {.heads = 2, .queries = lengths, .causal = causal, .dropout = K == 64 ? 0.1 : 0, .window = window}, K);
      }
}

TEMPLATE_TEST_CASE("cuda attention: every combination of options", "", float, bf16) {
  const auto check = [](Index K, const Lengths& lengths) {
    for_each_combination<TestType>(lengths, [&](const AttentionForm& form, const Tensor<double>& bias) {
      Inputs inputs = attention_inputs<TestType>(form, K, K);
      if (bias) inputs.push_back(bias);
      expect_attention<TestType>(attention_function(form), inputs, usual_sizes<TestType>(form, K, K, !!bias));
    });
  };
  for (const Index K : is_long_run() ? std::vector<Index>{16, 24, 32, 64, 128, 136} : std::vector<Index>{24, 136}) {
    if (!is_long_run()) check(K, watched() ? Lengths{15, 17, 33} : Lengths{15, 17, 33, 65});
    for (const int longest : is_long_run() ? odd_lengths : Lengths()) check(K, {longest});
  }
}

TEMPLATE_TEST_CASE("cuda attention: a scale that is negative or zero", "", float, bf16) {
  const Index T = ragged().back();
  for (const double scale : {-0.5, 0.0})
    for (const Index K : {16, 136}) {
      AttentionForm form{.queries = ragged(), .causal = true, .scale = scale};
      expect_attention_of<TestType>(form, K);
      form.mask = random_mask({1, 1, 1, T}, 4);
      expect_attention_of<TestType>(form, K);
    }
}

TEMPLATE_TEST_CASE("cuda attention: a mask, a bias and its gradient, shared along any axis", "", float, bf16) {
  const Lengths lengths = watched() ? Lengths{34, 3} : Lengths{33, 0, 70};
  const Index B = static_cast<Index>(lengths.size()), T = watched() ? 34 : 70;
  for (const Shape& shape : {Shape{B, 2, T, T}, Shape{1, 2, T + 1, T + 9}, Shape{B, 1, 1, T}, Shape{1, 1, T, T},
                             Shape{1, 2, 1, T}, Shape{1, 1, 1, T}})
    for (const Index K : {16, 136}) {
      if (K > 128 && shape[0] == 1) continue;
      CAPTURE(shape);
      AttentionForm form{.heads = 2, .queries = lengths, .dropout = 0.1};
      expect_attention_of<TestType>(form, K, K, random<TestType>(shape, 5));
      form.mask = random_mask(shape, 4);
      form.causal = true;
      auto bias = random<TestType>(shape, 6);
      for (Index i = 0; i < bias.size(); i += 7) bias.data()[i] = -infinity<double>;
      expect_attention_of<TestType>(form, K, K, bias);
    }
}

TEMPLATE_TEST_CASE("cuda attention: columns of one product, aligned or not, some of them unused", "", float, bf16) {
  for (const Index heads : {1, 2})
    for (const Index K : {8, 13, 32, 160}) {
      const Index D = heads * K;
      for (const auto& columns_around : {std::pair<Index, Index>{0, 0}, {3, 0}, {0, 8}, {3, 5}}) {
        const Index unused = columns_around.first, right = columns_around.second;
        CAPTURE(heads, K, unused, right);
        const AttentionForm form{.heads = heads, .queries = ragged()};
        const auto packed = random<TestType>({form.of_queries().rows(), unused + 3 * D + right}, 1);
        expect_attention<TestType>(
            [&](const auto& in) {
              using A = typename std::decay_t<decltype(in[0])>::Element;
              return call_attention<A>(form, columns(in[0], unused, D), columns(in[0], D + unused, D),
                                       columns(in[0], 2 * D + unused, D));
            },
            {packed});
      }
    }
}

TEMPLATE_TEST_CASE("cuda attention: more heads than the y dimension of a grid allows", "", float, bf16) {
  const LoweredLimits low({.head_blocks = 2});
  const Lengths queries{32, 32, 0, 32, 32}, keys{31, 0, 31, 31, 0};
  for (const Index K : {8, 136})
    for (const bool causal : {false, true})
      expect_attention_of<TestType>({.heads = 2, .queries = queries, .keys = keys, .causal = causal}, K);
}

TEMPLATE_TEST_CASE("cuda attention: wide heads in several groups, of one head or more", "", float, bf16) {
  const Lengths lengths = watched() ? Lengths{34, 0, 3} : Lengths{33, 0, 70};
  const Index T = *std::max_element(lengths.begin(), lengths.end()), H = 2;
  for (const Index scores : {Index{1}, 4 * T * T}) {
    CAPTURE(scores);
    const LoweredLimits low({.attention_scores = scores});
    AttentionForm form{.heads = H, .queries = lengths, .causal = true, .dropout = 0.1};
    form.mask = random_mask({3, H, T, T}, 4, 0.9);
    expect_attention_of<TestType>(form, 136, 136, random<TestType>({3, H, T, T}, 6));
  }
}

TEMPLATE_TEST_CASE("cuda attention: a NaN in the masked last key of a full tile changes no bit", "", float, bf16) {
  // Tiles have 32 or 64 keys, and wide heads' have 64.
  for (const Index K : {16, 64, 128, 136})
    for (const int T : watched() ? Lengths{64} : Lengths{32, 64, 128}) {
      CAPTURE(K, T);
      AttentionForm form{.heads = 1, .queries = {T}, .dropout = 0.1};
      form.mask = full<bool>({1, 1, 1, T}, true);
      std::vector<Index> last;
      for (Index j = 31; j < T; j += 32) last.push_back(j);
      for (const Index j : last) form.mask.data()[j] = false;
      const Inputs inputs = attention_inputs<TestType>(form, K, K);
      const Evaluation clean = on_gpu<TestType>(form, inputs);
      for (const double poison : {std::nan(""), infinity<double>}) {
        Inputs poisoned = inputs;
        for (const std::size_t x : {1u, 2u}) poisoned[x] = with_rows(inputs[x], last, poison);
        CHECK((on_gpu<TestType>(form, poisoned) == clean));
      }
    }
}

TEMPLATE_TEST_CASE("cuda attention: a single NaN or infinity among the values", "", float, bf16) {
  const Index T = ragged().back();
  for (const Index K : {16, 64, 136})
    for (const double poison : {std::nan(""), infinity<double>}) {
      CAPTURE(K, poison);
      const AttentionForm form{.queries = ragged(), .causal = true, .dropout = 0.1};
      Inputs inputs = attention_inputs<TestType>(form, K, K);
      inputs[2].data()[(inputs[2].dim(0) - T / 2) * K + 5] = poison;
      expect_attention<TestType>(attention_function(form), inputs);
    }
}

TEMPLATE_TEST_CASE("cuda attention: a NaN in one head reaches no other head", "", float, bf16) {
  // The columns behind a head of 24 are those of the next one, in tiles of 32 columns.
  for (const Index K : {24, 136}) {
    const AttentionForm form{.heads = 2, .queries = {watched() ? 64 : 128}, .dropout = 0.1};
    const Inputs inputs = attention_inputs<TestType>(form, K, K);
    const auto of_first_head = [&](const Inputs& in) {
      std::vector<Tensor<double>> first;
      for (const Computed& part : on_gpu<TestType>(form, in))
        first.push_back(slice(Tensor<double>(part.shape, part.values), 1, 0, K));
      return first;
    };
    const auto clean = of_first_head(inputs);
    for (const std::size_t x : {0u, 1u, 2u}) {
      CAPTURE(K, x);
      Inputs poisoned = inputs;
      poisoned[x] = concat({slice(inputs[x], 1, 0, K), full<double>({inputs[x].dim(0), K}, quiet_nan<double>)}, 1);
      const auto got = of_first_head(poisoned);
      for (std::size_t part = 0; part < clean.size(); ++part) CHECK(got[part].host() == clean[part].host());
    }
  }
}

TEMPLATE_TEST_CASE("cuda attention: queries whose scores are all -infinity", "", float, bf16) {
  const Lengths lengths = watched() ? Lengths{34} : Lengths{70};
  const Index T = lengths[0];
  for (const Index K : {16, 128, 136}) {
    CAPTURE(K);
    const AttentionForm form{.heads = 1, .queries = lengths, .dropout = 0.1};
    Inputs inputs = attention_inputs<TestType>(form, K, K);
    // The product makes all scores of query 3 -infinity, which gives NaN on both devices.
    for (Index n = 0; n < T; ++n) inputs[1].data()[n * K] = 1;
    inputs[0].data()[3 * K] = -infinity<double>;
    expect_attention<TestType>(attention_function(form), inputs);
    // A bias that hides all keys of a query gives zeros.
    inputs[0].data()[3 * K] = 0;
    inputs.push_back(random<TestType>({1, 1, T, T}, 4));
    for (const Index i : {Index{0}, Index{17}, T - 1}) std::fill_n(inputs[3].data() + i * T, T, -infinity<double>);
    expect_attention<TestType>(attention_function(form), inputs);
    const Evaluation all = on_gpu<TestType>(form, inputs);
    for (const std::size_t part : {0u, 1u})  // y and dq
      for (Index d = 0; d < K; ++d) CHECK(all[part].values[static_cast<std::size_t>(17 * K + d)] == 0);
    for (Index j = 0; j < T; ++j) CHECK(all[4].values[static_cast<std::size_t>(17 * T + j)] == 0);
  }
}

TEMPLATE_TEST_CASE("cuda attention: empty sequences with a bias and its gradient", "", float, bf16) {
  for (const Index K : {8, 136}) {
    expect_attention_of<TestType>({.queries = {}}, K, K, random<TestType>({1, 1, 3, 3}, 4));
    expect_attention_of<TestType>({.queries = {0, 0}}, K, K, random<TestType>({2, 1, 2, 2}, 4));
    expect_attention_of<TestType>({.queries = {2, 0}, .keys = {0, 3}}, K, K, random<TestType>({2, 1, 2, 3}, 4));
    expect_attention_of<TestType>({.queries = {0, 2, 0}, .keys = {3, 2, 0}}, K, K, random<TestType>({1, 1, 1, 3}, 4));
    expect_attention_of<TestType>({.heads = 2, .queries = {0, 33, 0}}, K, K, random<TestType>({3, 2, 33, 33}, 4));
  }
}

TEMPLATE_TEST_CASE("cuda attention_weights: the probabilities themselves", "", float, bf16) {
  const Lengths lengths = watched() ? Lengths{3, 0, 34} : Lengths{3, 0, 70, 150};
  for (const Index K : {5, 64, 200})
    for (const Index padded_to : {0, 151})
      for (const bool causal : {false, true}) {
        CAPTURE(K, padded_to, causal);
        const AttentionForm form{.heads = 2, .queries = lengths, .padded_to = padded_to};
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

// TF32 operands have 11 significant bits, bf16 operands 8. Hence the error is about an eighth of the CPU's in bf16;
// three eighths are accepted.
TEST_CASE("cuda attention: TF32 where it is allowed") {
  struct Allowed {
    Allowed() { cuda::allow_tf32(true); }
    ~Allowed() { cuda::allow_tf32(false); }
  };
  for (const Index K : {16, 24, 64, 128, 136})
    for (const bool causal : {false, true}) {
      CAPTURE(K, causal);
      const Index T = ragged().back();
      AttentionForm form{.heads = 2, .queries = ragged(), .causal = causal, .dropout = 0.1};
      form.mask = random_mask({1, 1, 1, T}, 4, 0.9);
      form.mask.data()[2] = false;  // masks key 2, which is row 3 of the batch in the first long sequence
      auto inputs = attention_inputs<float>(form, K, K);
      inputs.push_back(random<float>({1, 2, T, T}, 6));
      const auto f = [&](const auto& in) {
        using A = typename std::decay_t<decltype(in[0])>::Element;
        return call_attention<A>(form, in[0], in[1], in[2], in[3]);
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

TEMPLATE_TEST_CASE("cuda attention: results do not depend on schedules or garbage in memory", "", float, bf16) {
  for (const Index K : {16, 64, 136}) {
    AttentionForm form{.heads = 2, .queries = {34, 3}, .causal = true, .dropout = 0.1};
    auto inputs = attention_inputs<TestType>(form, K, K);
    inputs.push_back(random<TestType>({1, 2, 1, 34}, 4));
    inputs[1] = with_rows(inputs[1], {33}, std::nan(""));  // so that blocks repeat their work with NaN removed
    for (const Index j : {33, 34 + 33}) inputs[3].data()[j] = -infinity<double>;
    expect_same_always([&] { return on_gpu<TestType>(form, inputs); });
  }
}

TEMPLATE_TEST_CASE("cuda attention: gradients of k and v alone, and of each operand alone, are those of all together",
                   "", float, bf16) {
  using T = TestType;
  const Sequences sequences = Sequences::packed({5, 0, 33}).to(Device::cuda);
  for (const Index D : {32, 128, 272}) {
    CAPTURE(D);
    const auto gradients = [&](const std::array<bool, 3>& wanted) {
      std::array<Tensor<T>, 3> in;
      for (std::size_t i = 0; i < in.size(); ++i) {
        in[i] = converted<T>(random<T>({38, D}, i + 1), Device::cuda);
        if (wanted[i]) in[i] = variable(in[i]);
      }
      backward(attention(in[0], in[1], in[2], sequences, {.heads = 2}),
               converted<T>(random<T>({38, D}, 9), Device::cuda));
      std::array<std::vector<double>, 3> found;
      for (std::size_t i = 0; i < in.size(); ++i)
        if (wanted[i]) found[i] = joined(in[i].grad().host());
      return found;
    };
    const auto all = gradients({true, true, true});
    for (const std::array<bool, 3>& wanted :
         {std::array{false, true, true}, {true, false, false}, {false, true, false}, {false, false, true}}) {
      const auto some = gradients(wanted);
      for (std::size_t i = 0; i < wanted.size(); ++i)
        if (wanted[i]) CHECK(some[i] == all[i]);
    }
  }
}
