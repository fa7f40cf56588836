// Random calls of attention: lengths, widths, masks, biases, and columns of wider matrices.
#include <heddle/heddle.hpp>

#include "../../instances.hpp"
#include "../../ops/attention_form.hpp"
#include "../lowered_limits.hpp"
#include "families.hpp"

namespace heddle::testing {

namespace {

// A drawn call.
struct DrawnAttention {
  AttentionForm form;
  Index K, V;                 // widths of a head
  Index left = 0, right = 0;  // unused columns on either side of q, k and v
  Shape score_shape;          // of a mask or a bias
  std::vector<Index> hidden;  // rows of k and v that no query sees
  bool has_bias = false;
};

int draw_length(Draw& draw) {
  if (draw.once_in(6)) return 0;
  if (draw.once_in(3)) return draw.one_of({1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129});
  return static_cast<int>(draw.between(1, draw.once_in(4) ? 150 : 70));
}
Lengths draw_lengths(Draw& draw, Index B) {
  Lengths lengths;
  for (Index b = 0; b < B; ++b) lengths.push_back(draw_length(draw));
  return lengths;
}
int longest(const Lengths& lengths) { return *std::max_element(lengths.begin(), lengths.end()); }

void draw_widths(Draw& draw, DrawnAttention& call) {
  call.K = draw.one_of<Index>({1, 5, 8, 16, 16, 24, 32, 32, 40, 64, 64, 64, 72, 96, 128, 128, 136, 160});
  call.V = draw.once_in(4) ? draw.one_of<Index>({1, 7, 8, 16, 32, 64, 100, 128, 144}) : call.K;
  if (draw.once_in(3)) {
    call.left = draw.between(0, 8);
    call.right = draw.between(0, 8);
  }
  draw.tell("K", call.K, "V", call.V, "left", call.left, "right", call.right);
}

// Draws the shape [B or 1, H or 1, Tq or 1, Tk] of a mask or a bias, which may be larger than the longest sequences.
Shape draw_score_shape(Draw& draw, const AttentionForm& form) {
  const Index B = static_cast<Index>(form.queries.size());
  const Index queries = std::max<Index>(form.of_queries().longest(), 1) + draw.between(0, 2);
  const Index keys = std::max<Index>(form.of_keys().longest(), 1) + draw.between(0, 3);
  return {draw.once_in(2) ? B : 1, draw.once_in(2) ? form.heads : 1, draw.once_in(2) ? queries : 1, keys};
}

// Draws a mask. It may hide one key of every sequence from all queries.
void draw_mask(Draw& draw, DrawnAttention& call) {
  AttentionForm& form = call.form;
  form.mask = random_mask(call.score_shape, draw.seed(), 0.8);
  if (draw.once_in(2)) return;
  const Index keys = call.score_shape[3], key = draw.between(0, keys - 1);
  for (Index i = key; i < form.mask.size(); i += keys) form.mask.data()[i] = false;
  const Sequences of_keys = form.of_keys();
  for (std::size_t b = 0; b < of_keys.lengths().size(); ++b)
    if (key < of_keys.lengths()[b]) call.hidden.push_back(of_keys.begins()[b] + key);
}

DrawnAttention draw_attention(Draw& draw) {
  DrawnAttention call;
  AttentionForm& form = call.form;
  form.heads = draw.between(1, 3);
  const Index B = draw.between(1, 3);
  form.queries = draw_lengths(draw, B);
  if (draw.once_in(3)) form.keys = draw_lengths(draw, B);
  form.causal = draw.once_in(2);
  if (draw.once_in(3)) form.window = draw.one_of<Index>({0, 1, 7, 15, 16, 31, 32, 64, 100});
  form.dropout = draw.one_of({0.0, 0.0, 0.1, 0.5});
  if (draw.once_in(5)) form.scale = draw.one_of({1.0, -0.3, 0.0, 0.02});
  if (draw.once_in(4))
    form.padded_to =
        std::max(longest(form.queries), longest(form.keys.empty() ? form.queries : form.keys)) + draw.between(1, 5);
  draw.tell("heads", form.heads, "queries", Catch::Detail::stringify(form.queries), "keys",
            Catch::Detail::stringify(form.keys), "causal", form.causal, "window", form.window, "dropout", form.dropout,
            "scale", form.scale.value_or(0), "padded", form.padded_to);
  draw_widths(draw, call);
  call.score_shape = draw_score_shape(draw, form);
  if (draw.once_in(2)) draw_mask(draw, call);
  call.has_bias = draw.once_in(3);
  draw.tell("mask", form.mask.has_data(), "bias", call.has_bias, "of", call.score_shape);
  return call;
}

// Draws q, k and v, and a bias, in which some elements may be -infinity.
template <class T>
Inputs draw_operands(Draw& draw, const DrawnAttention& call) {
  const AttentionForm& form = call.form;
  const Index unused = call.left + call.right, queries = form.of_queries().rows(), keys = form.of_keys().rows();
  Inputs inputs{draw.numbers<T>({queries, form.heads * call.K + unused}),
                draw.numbers<T>({keys, form.heads * call.K + unused}),
                draw.numbers<T>({keys, form.heads * call.V + unused})};
  if (!call.has_bias) return inputs;
  inputs.push_back(draw.numbers<T>(call.score_shape));
  if (draw.once_in(2))
    for (Index i = 0; i < inputs[3].size(); i += 5) inputs[3].data()[i] = -infinity<double>;
  return inputs;
}

auto function_of(const DrawnAttention& call) {
  return [call](const auto& in) {
    using A = typename std::decay_t<decltype(in[0])>::Element;
    const Index width = call.form.heads * call.K, value_width = call.form.heads * call.V;
    return call_attention<A>(call.form, columns(in[0], call.left, width), columns(in[1], call.left, width),
                             columns(in[2], call.left, value_width), in.size() > 3 ? in[3] : Tensor<A>());
  };
}

// Checks that NaN and infinity in keys that no query sees change no bit.
template <class T>
void check_hidden_keys(const DrawnAttention& call, Inputs inputs) {
  if (call.hidden.empty()) return;
  const auto f = function_of(call);
  const Evaluation clean = evaluate<T>(f, inputs, Device::cuda);
  for (const std::size_t x : {1u, 2u})
    inputs[x] = with_rows(inputs[x], call.hidden, x == 1 ? quiet_nan<double> : infinity<double>);
  REQUIRE((evaluate<T>(f, inputs, Device::cuda) == clean));
}

// A scope in which products may use TF32.
struct AllowedTf32 {
  AllowedTf32() { cuda::allow_tf32(true); }
  AllowedTf32(const AllowedTf32&) = delete;
  ~AllowedTf32() { cuda::allow_tf32(false); }
};

}  // namespace

void check_attention(Draw& draw) {
  draw.with_type([&]<class T>(T) {
    const DrawnAttention call = draw_attention(draw);
    const Inputs inputs = draw_operands<T>(draw, call);
    const LoweredLimits low({.block_heads = 0});  // a block owns a head wherever one can
    expect_attention<T>(function_of(call), inputs, usual_sizes<T>(call.form, call.K, call.V, call.has_bias));
    check_hidden_keys<T>(call, inputs);
  });
}

// The bound is that of the test of TF32 in tests/cuda/attention.cpp, plus TF32's last bit, 2^-10, of the usual size.
void check_attention_in_tf32(Draw& draw) {
  const DrawnAttention call = draw_attention(draw);
  const Inputs inputs = draw_operands<float>(draw, call);
  const auto f = function_of(call);
  const Evaluation exact = evaluate<double, float>(f, inputs, Device::cpu),
                   plain = evaluate<bf16, float>(f, inputs, Device::cpu);
  const AllowedTf32 scope;
  expect_close(evaluate<float>(f, inputs, Device::cuda), exact, [&](std::size_t part) {
    return plain_errors<float>(exact[part].values, plain[part].values,
                               {.times = 3.0 / 8,
                                .last_bits = 0x1p13,
                                .usual_size = usual_sizes<float>(call.form, call.K, call.V, call.has_bias)[part]});
  });
  check_hidden_keys<float>(call, inputs);
}

}  // namespace heddle::testing
