// Attention within a window of distances, and every combination of options.
#include <heddle/ops/attention/attention.hpp>

#include "attention_form.hpp"
#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

double greatest_error(const Evaluation& actual, const Evaluation& exact) {
  double most = 0;
  for (std::size_t part = 0; part < exact.size(); ++part)
    for (std::size_t i = 0; i < exact[part].values.size(); ++i)
      most = std::max(most, std::abs(actual[part].values[i] - exact[part].values[i]));
  return most;
}

Evaluation by_formula(const AttentionForm& form, const Inputs& inputs) {
  const PlainAttentionScope loops;
  return evaluate<double, bf16>(attention_function(form), inputs, Device::cpu);
}

}  // namespace

TEST_CASE("attention: every combination of options equals the formula, with all gradients") {
  // Under sanitizers the lengths take turns.
  std::vector<Lengths> runs{{1, 17, 65, 129}};
  if (is_exhaustive()) {
    runs.clear();
    for (const int longest : odd_lengths) runs.push_back({longest});
  }
  for (const Lengths& lengths : runs)
    for_each_combination<bf16>(lengths, [&](const AttentionForm& form, const Tensor<double>& bias) {
      Inputs inputs = attention_inputs<bf16>(form, 5, 3);
      if (bias) inputs.push_back(bias);
      const Evaluation exact = by_formula(form, inputs);
      const auto error_in = [&]<class T>(T) {
        return greatest_error(evaluate<T, bf16>(attention_function(form), inputs, Device::cpu), exact);
      };
      CHECK(error_in(double()) < 1e-13);
      CHECK(error_in(float()) < 1e-5);
      CHECK(error_in(bf16()) < 0.1);
    });
}

TEST_CASE("attention: gradients within a window match finite differences") {
  const auto s = Sequences::packed({5, 0, 9, 1}), keys = Sequences::packed({7, 2, 4, 3});
  for (const bool causal : {false, true})
    expect_gradients(
        [&](const auto& in) {
          const Sequences of_keys = keys.to(in[0].device());
          Random again(3);
          return attention(in[0], in[1], in[2], s.to(in[0].device()),
                           {.heads = 2,
                            .causal = causal,
                            .window = 2,
                            .dropout = 0.3,
                            .random = &again,
                            .bias = in[3],
                            .keys = &of_keys});
        },
        {random({15, 4}, 1), random({16, 4}, 2), random({16, 6}, 3), random({1, 2, 9, 7}, 4)}, 2e-7);
}

TEMPLATE_TEST_CASE("attention: a window as wide as the longest sequence changes no bit", "", float, bf16) {
  on_each_device<TestType>([](Device device) {
    for (const Index K : {16, 136})
      for (const bool causal : {false, true}) {
        AttentionForm form{.queries = {70, 3}, .keys = {33, 69}, .causal = causal, .dropout = 0.1};
        const Inputs inputs = attention_inputs<TestType>(form, K, K);
        const Evaluation without = evaluate<TestType>(attention_function(form), inputs, device);
        for (const Index window : {Index{69}, Index{1} << 40, std::numeric_limits<Index>::max() - 1}) {
          form.window = window;
          CHECK((evaluate<TestType>(attention_function(form), inputs, device) == without));
        }
      }
  });
}

TEMPLATE_TEST_CASE("attention: a NaN reaches only the queries whose window has its key", "", float, bf16) {
  const Index T = is_exhaustive() ? 200 : 100;
  struct Case {
    Index at, window;
  };
  on_each_device<TestType>([&](Device device) {
    int turn = 0;
    for (const Index K : {8, 64, 136})
      for (const bool causal : {false, true})
        for (const Case c : {Case{T / 2, 9}, Case{65, 1}})  // key 65 is the first that no query of 0 to 63 sees
          for (const std::size_t which : {1u, 2u}) {        // a key or a value
            if (!is_exhaustive() && turn++ % 3 != 0) continue;
            const Index at = c.at, window = c.window;
            CAPTURE(K, causal, at, window, which);
            const AttentionForm form{.queries = {static_cast<int>(T)}, .causal = causal, .window = window};
            const Inputs inputs = attention_inputs<TestType>(form, K, K);
            Inputs poisoned = inputs;
            poisoned[which] = with_rows(inputs[which], {at}, quiet_nan<double>);
            const Evaluation clean = evaluate<TestType>(attention_function(form), inputs, device),
                             actual = evaluate<TestType>(attention_function(form), poisoned, device);
            for (const std::size_t part : {0u, 1u})  // y and dq
              for (Index i = 0; i < T; ++i) {
                const bool sees = i - at <= window && at - i <= (causal ? 0 : window);
                const auto element = static_cast<std::size_t>(i * K);
                if (std::isnan(actual[part].values[element]) != sees) FAIL("query " << i << " of part " << part);
                if (!sees) CHECK(actual[part].values[element] == clean[part].values[element]);
              }
          }
  });
}

TEMPLATE_TEST_CASE("attention: a NaN in the first key that no query sees changes no bit", "", float, bf16) {
  on_each_device<TestType>([](Device device) {
    for (const int queries : {1, 2, 3})
      for (const std::size_t which : {1u, 2u}) {  // a key or a value
        CAPTURE(queries, which);
        const AttentionForm form{.queries = {queries}, .keys = {7}, .causal = true};
        const Inputs inputs = attention_inputs<TestType>(form, 8, 8);
        Inputs poisoned = inputs;
        poisoned[which] = with_rows(inputs[which], {queries}, quiet_nan<double>);
        const Evaluation clean = evaluate<TestType>(attention_function(form), inputs, device),
                         actual = evaluate<TestType>(attention_function(form), poisoned, device);
        for (const std::size_t part : {0u, 1u}) CHECK(actual[part].values == clean[part].values);  // y and dq
      }
  });
}

TEST_CASE("attention: a product that overflows reaches only the queries that see its value") {
  const Index at = 60;
  on_each_device<float>([&](Device device) {
    const AttentionForm form{.queries = {64}, .window = 5};
    Inputs inputs = attention_inputs<float>(form, 4, 4);
    inputs[2] = with_rows(inputs[2], {at}, 3e38);
    const Evaluation all = evaluate<float>(attention_function(form), inputs, device, full<double>({64, 4}, 2));
    for (Index i = 0; i < at - 5; ++i)
      for (Index d = 0; d < 4; ++d) REQUIRE(std::isfinite(all[1].values[static_cast<std::size_t>(i * 4 + d)]));
  });
}

TEST_CASE("attention: queries beyond all keys' windows give zeros") {
  for (const Index K : {8, 136}) {
    // Wide heads: a block of keys must not read what no block of queries wrote.
    for (const Index window : {1, 40, 60})
      expect_attention_of<float>({.queries = {65, 150}, .keys = {60, 20}, .window = window}, K);
    const AttentionForm form{.queries = {150}, .keys = {20}, .window = 5};
    on_each_device<float>([&](Device device) {
      const Evaluation all = evaluate<float>(attention_function(form), attention_inputs<float>(form, K, K), device);
      for (const std::size_t part : {0u, 1u})  // y and dq
        for (Index i = 25 * K; i < 150 * K; ++i) REQUIRE(all[part].values[static_cast<std::size_t>(i)] == 0);
    });
  }
}

TEST_CASE("attention: a window below 0 is refused") {
  const auto s = Sequences::packed({3});
  const Tensor<float> x({3, 4});
  for (const Index window : {Index{-1}, Index{-1} << 32, std::numeric_limits<Index>::min()}) {
    const AttentionOptions<float> options{.window = window};
    const std::string said = "window must not be negative, got " + std::to_string(window);
    CHECK_THROWS_WITH(attention(x, x, x, s, options), "attention: " + said);
    CHECK_THROWS_WITH(attention_weights(x, x, s, options), "attention_weights: " + said);
  }
}
