// Calls of attention that differ in lengths, masks, bias and dropout, and the comparison of their results between
// devices.
#pragma once
#include <heddle/ops/slice.hpp>
#include <optional>

#include "../harness/compare.hpp"
#include "../harness/devices.hpp"
#include "plain_attention.hpp"

namespace heddle::testing {

using Lengths = std::vector<int>;

/// The arguments of a call of attention besides q, k, v and a bias.
struct AttentionForm {
  Index heads = 1;
  Lengths queries, keys = {};  // lengths; those of the keys equal those of the queries if `keys` is empty
  bool causal = false;
  double dropout = 0;
  Tensor<bool> mask = {};
  Index padded_to = 0;
  std::optional<double> scale = {};
  Index window = AttentionOptions<float>().window;

  Sequences sequences(const Lengths& lengths) const {
    return padded_to > 0 ? Sequences::padded(lengths, padded_to) : Sequences::packed(lengths);
  }
  Sequences of_queries() const { return sequences(queries); }
  Sequences of_keys() const { return sequences(keys.empty() ? queries : keys); }
};

/// A scope in which call_attention() computes calls in float and double with plain_attention().
struct PlainAttentionScope {
  inline static bool is_active = false;
  PlainAttentionScope() { is_active = true; }
  ~PlainAttentionScope() { is_active = false; }
};

template <class A>
Tensor<A> call_attention(const AttentionForm& form, const ColumnSlice<A>& q, const ColumnSlice<A>& k,
                         const ColumnSlice<A>& v, const Tensor<A>& bias = {}) {
  const Device device = q.device();
  const Sequences queries = form.of_queries().to(device), keys = form.of_keys().to(device);
  Random random(7);
  random.take(3);
  const AttentionOptions<A> options{.heads = form.heads,
                                    .scale = form.scale,
                                    .causal = form.causal,
                                    .window = form.window,
                                    .dropout = form.dropout,
                                    .random = &random,
                                    .mask = form.mask.has_data() ? form.mask.to(device) : form.mask,
                                    .bias = bias,
                                    .keys = &keys};
  const auto alone = [](const ColumnSlice<A>& x) { return slice(x.x, 1, x.first, x.first + x.width); };
  if constexpr (!std::is_same_v<A, bf16>)
    if (PlainAttentionScope::is_active) return plain_attention(alone(q), alone(k), alone(v), queries, options);
  return attention(q, k, v, queries, options);
}

/// Returns a function of q, k, v and, if there are four inputs, a bias.
inline auto attention_function(const AttentionForm& form) {
  return [form](const auto& in) {
    using A = typename std::decay_t<decltype(in[0])>::Element;
    return call_attention<A>(form, in[0], in[1], in[2], in.size() > 3 ? in[3] : Tensor<A>());
  };
}

/// Returns random q, k and v for heads of these widths.
template <class T>
Inputs attention_inputs(const AttentionForm& form, Index K, Index V) {
  const Index Nq = form.of_queries().rows(), Nk = form.of_keys().rows();
  return {random<T>({Nq, form.heads * K}, 1), random<T>({Nk, form.heads * K}, 2), random<T>({Nk, form.heads * V}, 3)};
}

inline Tensor<bool> random_mask(const Shape& shape, std::uint64_t seed, double share = 0.7) {
  Random random(seed);
  const auto u = uniform<double>(shape, 0, 1, random);
  Tensor<bool> mask(shape);
  for (Index i = 0; i < u.size(); ++i) mask.data()[i] = u.data()[i] < share;
  return mask;
}

/// The lengths and windows of for_each_combination().
const Lengths odd_lengths{1, 2, 15, 16, 17, 63, 64, 65, 127, 129, 257};
const std::vector<Index> odd_windows{0, 1, 7, 15, 16, 31, 64, 100};

/// Calls f(form, bias) for every combination of options that decide which scores there are: causal, a window, a mask, a
/// bias with -infinity, dropout, and keys of other sequences. The bias is empty in calls without one. The combinations
/// take turns with the lengths of the longest sequence.
template <class T, class F>
void for_each_combination(const Lengths& lengths, F f) {
  for (std::size_t options = 0; options < 64; ++options) {
    const int longest = lengths[(options + options / 4) % lengths.size()];
    const auto has = [&](int option) { return (options >> option & 1) != 0; };
    AttentionForm form{.heads = 2, .queries = {longest, longest / 2 + 1}, .causal = has(0)};
    if (has(1)) form.keys = {std::max(longest - 5, 1), longest};
    if (has(2)) form.dropout = 0.2;
    if (has(3)) form.window = odd_windows[(options + options / 8 * 3) % odd_windows.size()];
    const Index queries = form.of_queries().longest(), keys = form.of_keys().longest();
    if (has(4)) form.mask = random_mask({2, 1, queries, keys}, 4, 0.8);
    Tensor<double> bias;
    if (has(5)) {
      bias = random<T>({1, 2, queries, keys}, 5);
      for (Index i = 0; i < bias.size(); i += 7) bias.data()[i] = -infinity<double>;
    }
    CAPTURE(form.queries, form.keys, form.mask.has_data(), static_cast<bool>(bias));
    f(form, bias);
  }
}

/// Returns a copy of x in which these rows hold `value`.
inline Tensor<double> with_rows(const Tensor<double>& x, const std::vector<Index>& rows, double value) {
  Tensor<double> y(x.shape(), x.host());
  for (const Index n : rows) std::fill_n(y.data() + n * y.dim(1), y.dim(1), value);
  return y;
}

/// Checks f, which calls attention, on every device except the CPU. The bound of an error is computed from the CPU's
/// errors. In float, the CPU's error of a value is the larger of two: that of attention, which sums in blocks, and that
/// of plain loops. Additional last bits allow for the log-sum-exp, from which gradients are computed, and for a GPU's
/// exp: the rounding of a log-sum-exp between 8 and 16 changes a probability by up to four last bits, and exp by one or
/// two. In bf16 two roundings are accepted, because the GPU also rounds each probability to bf16 before the product
/// with the values. Infinity is compared as NaN, because the order of a sum decides whether it becomes infinity or NaN.
/// `usual_sizes` has PlainErrors::usual_size of y and of each gradient, or is empty.
template <class T, class F>
void expect_attention(F&& f, const Inputs& inputs, const std::vector<double>& usual_sizes = {}) {
  const auto only_nan = [](Evaluation all) {
    for (Computed& part : all)
      for (double& value : part.values)
        if (!std::isfinite(value)) value = quiet_nan<double>;
    return all;
  };
  const Evaluation exact = evaluate<double, T>(f, inputs, Device::cpu);
  Evaluation plain = evaluate<T>(f, inputs, Device::cpu);
  if constexpr (std::is_same_v<T, float>) {
    const PlainAttentionScope loops;
    const Evaluation in_order = evaluate<T>(f, inputs, Device::cpu);
    for (std::size_t part = 0; part < plain.size(); ++part)
      for (std::size_t i = 0; i < plain[part].values.size(); ++i) {
        double& value = plain[part].values[i];
        const double other = in_order[part].values[i], goal = exact[part].values[i];
        if (std::abs(other - goal) > std::abs(value - goal)) value = other;
      }
  }
  plain = only_nan(plain);
  on_each_device<T>([&](Device device) {
    if (device == Device::cpu) return;
    expect_close(only_nan(evaluate<T>(f, inputs, device)), only_nan(exact), [&](std::size_t part) {
      return plain_errors<T>(
          exact[part].values, plain[part].values,
          {.last_bits = 8, .roundings = 2, .usual_size = usual_sizes.empty() ? 0 : usual_sizes[part]});
    });
  });
}

/// Returns the usual sizes of y and of the gradients. A query that sees one key has a gradient of 0: the difference of
/// two equal terms, each the product of a row of dy and a row of v, times an element of k or q, which may be 4 in
/// normal numbers. y and the gradient of v are sums of probabilities times an element of v or dy. These may all be
/// nearly equal, and with a bias several times the mean. In bf16 the GPU rounds differences and probabilities: the
/// sizes are multiplied so that 8 last bits in float become a rounding to bf16.
template <class T>
std::vector<double> usual_sizes(const AttentionForm& form, Index K, Index V, bool has_bias) {
  const auto root = [](Index n) { return std::sqrt(static_cast<double>(n)); };
  const double last_bit = std::is_same_v<T, bf16> ? 0x1p12 : 1;
  const double kept = last_bit / (1 - form.dropout), product = kept * root(V);
  const double scale = 4 * std::abs(form.scale.value_or(1 / root(K)));
  const Index queries = form.of_queries().rows(), keys = std::max<Index>(form.of_keys().longest(), 1);
  const double probability = (has_bias ? 4.0 : 1.0) / static_cast<double>(keys);
  return {4 * kept * probability * root(keys), scale * product, scale * product * root(queries),
          4 * kept * probability * root(queries), product * root(queries * form.heads)};
}

template <class T>
void expect_attention_of(const AttentionForm& form, Index K, Index V, const Tensor<double>& bias = {}) {
  CAPTURE(K, V, form.heads, form.causal, form.window, form.dropout);
  Inputs inputs = attention_inputs<T>(form, K, V);
  if (bias) inputs.push_back(bias);
  expect_attention<T>(attention_function(form), inputs);
}
template <class T>
void expect_attention_of(const AttentionForm& form, Index K) {
  expect_attention_of<T>(form, K, K);
}

}  // namespace heddle::testing
