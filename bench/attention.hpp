// The work of the attention benchmarks: B sequences whose lengths fall evenly from `length` to (2 fill - 1) `length`.
// Their rows are packed, or padded with a mask of keys.
#pragma once
#include "inputs.hpp"

namespace heddle::bench {

struct AttentionCase {
  Index batch, heads, head_dim, length;
  double fill = 1, dropout = 0;
  bool backward = false;
  Index window = AttentionOptions<float>().window;

  std::vector<int> lengths() const {
    std::vector<int> all;
    for (Index b = 0; b < batch; ++b) {
      const double share = batch > 1 ? static_cast<double>(b) / static_cast<double>(batch - 1) : 0;
      all.push_back(std::max(1, static_cast<int>(static_cast<double>(length) * (1 - 2 * (1 - fill) * share) + 0.5)));
    }
    return all;
  }
  // Counts two products in the forward and five in the backward, each of every query with every key that it sees.
  double flops() const {
    double pairs = 0;
    for (const Index n : lengths()) {
      const Index reach = std::min(window, n - 1);  // a query far from both ends sees 2 reach + 1 keys
      pairs += static_cast<double>(n * (2 * reach + 1) - reach * (reach + 1));
    }
    return (backward ? 14.0 : 4.0) * pairs * static_cast<double>(heads * head_dim);
  }
};

template <class T>
auto attention_call_of(const AttentionCase& c, const Tensor<T>& qkv, const Tensor<T>& dy, const Sequences& texts,
                       const Tensor<bool>& mask) {
  return [=, leaf = c.backward ? variable(qkv) : qkv, random = Random(1)]() mutable {
    const Index D = c.heads * c.head_dim;
    const auto part = [&](Index i) { return columns(leaf, i * D, D); };
    AttentionOptions<T> options{
        .heads = c.heads, .window = c.window, .dropout = c.dropout, .random = &random, .mask = mask};
    const Tensor<T> y = attention(part(0), part(1), part(2), texts, options);
    if (!c.backward) return;
    backward(y, dy);
    leaf.set_grad({});
  };
}

// Returns the function to time: attention on packed rows.
template <class T>
auto attention_call(const AttentionCase& c) {
  const Sequences texts = Sequences::packed(c.lengths());
  const Index N = texts.rows(), D = c.heads * c.head_dim;
  return attention_call_of(c, cast<T>(normal({N, 3 * D})), cast<T>(normal({N, D})), texts, Tensor<bool>());
}

// Returns the same attention on padded rows, with a mask of keys instead of lengths.
template <class T>
auto masked_attention_call(const AttentionCase& c) {
  const std::vector<int> lengths = c.lengths(), whole(lengths.size(), static_cast<int>(c.length));
  Tensor<bool> mask({c.batch, 1, 1, c.length});  // [B, 1, 1, T]
  for (Index b = 0; b < c.batch; ++b)
    for (Index t = 0; t < c.length; ++t) mask.data()[b * c.length + t] = t < lengths[static_cast<std::size_t>(b)];
  const Sequences texts = Sequences::packed(whole);
  const Index D = c.heads * c.head_dim;
  const Tensor<T> qkv = cast<T>(normal({texts.rows(), 3 * D})), dy = cast<T>(normal({texts.rows(), D}));
  return attention_call_of(c, qkv, dy, texts, mask);
}

}  // namespace heddle::bench
