// Statistics of attention heads, and attention rollout.
#pragma once
#include <cstdlib>

#include <heddle/view/attention_map.hpp>

namespace heddle::pictures {

/// A description of one head; each number is a mean over the queries of a text.
struct HeadStatistics {
  double entropy = 0;    ///< entropy of the weights in bits: 0 for one key, log2(T) for equal weights
  double distance = 0;   ///< tokens from query to key; 1 for adjacent ones
  double cls = 0;        ///< share of the weight on [CLS] tokens
  double sep = 0;        ///< share of the weight on [SEP] tokens
  double self = 0;       ///< share of the weight on the query's own token
  double neighbors = 0;  ///< share of the weight on the tokens before and after it
};

namespace detail {

inline HeadStatistics head_statistics(const CheckedMap& map, Index l, Index h) {
  HeadStatistics s;
  const auto T = map.T();
  for (Index i = 0; i < T; ++i)
    for (Index j = 0; j < T; ++j) {
      const double w = static_cast<double>(map.weight(l, h, i, j)) / static_cast<double>(T);
      const Index distance = std::abs(i - j);
      const std::string& token = map.map().tokens[static_cast<std::size_t>(j)];
      if (w > 0) s.entropy -= w * std::log2(w * static_cast<double>(T));
      s.distance += w * static_cast<double>(distance);
      s.cls += token == "[CLS]" ? w : 0;
      s.sep += token == "[SEP]" ? w : 0;
      s.self += distance == 0 ? w : 0;
      s.neighbors += distance == 1 ? w : 0;
    }
  return s;
}

// Returns a [T, T] matrix for each layer. Row i holds the share of each input token in token i after the layer:
//   R_l = A_l R_{l-1},  A_l = (mean over the heads of the weights + I) / 2, each row divided by its sum,  R_{-1} = I
// (Abnar and Zuidema 2020, "Quantifying Attention Flow in Transformers").
inline std::vector<std::vector<float>> rollout(const CheckedMap& map) {
  const Index T = map.T(), H = map.H();
  const auto size = static_cast<std::size_t>(T * T);
  std::vector<std::vector<float>> layers;
  std::vector<double> mixing(size), before(size), after(size);
  for (Index i = 0; i < T; ++i) before[static_cast<std::size_t>(i * T + i)] = 1;
  for (Index l = 0; l < map.L(); ++l) {
    for (Index i = 0; i < T; ++i) {
      double* const row = mixing.data() + i * T;
      double sum = 0;
      for (Index j = 0; j < T; ++j) {
        row[j] = i == j ? 0.5 : 0;
        for (Index h = 0; h < H; ++h)
          row[j] += 0.5 / static_cast<double>(H) * static_cast<double>(map.weight(l, h, i, j));
        sum += row[j];
      }
      for (Index j = 0; j < T; ++j) row[j] /= sum;
    }
    std::fill(after.begin(), after.end(), 0.0);
    for (Index i = 0; i < T; ++i)
      for (Index k = 0; k < T; ++k) {
        const double part = mixing[static_cast<std::size_t>(i * T + k)];
        for (Index j = 0; part > 0 && j < T; ++j)
          after[static_cast<std::size_t>(i * T + j)] += part * before[static_cast<std::size_t>(k * T + j)];
      }
    before.swap(after);
    layers.emplace_back(before.begin(), before.end());
  }
  return layers;
}

}  // namespace detail

/// Returns the statistics of each head, layer by layer. Rows of weights need not sum to 1. @throws ShapeError for a map
/// without layers or tokens, a tensor whose shape does not fit, and a `second` that is out of range; Error for a weight
/// outside [0, 1], a query or key that is not finite, and a `scale` that is negative or not finite.
inline std::vector<HeadStatistics> attention_statistics(const AttentionMap& map) {
  const detail::CheckedMap checked(map);
  std::vector<HeadStatistics> all;
  for (Index l = 0; l < checked.L(); ++l)
    for (Index h = 0; h < checked.H(); ++h) all.push_back(detail::head_statistics(checked, l, h));
  return all;
}

/// Returns the attention rollout after each layer (Abnar and Zuidema 2020), [layers, T, T]: row i holds the shares of
/// the input tokens in token i; they sum to 1. Heads are averaged. Half of each layer's result is attributed to its
/// input, for the residual connection. @throws ShapeError and Error as attention_statistics() does.
inline Tensor<float> attention_rollout(const AttentionMap& map) {
  const detail::CheckedMap checked(map);
  std::vector<float> values;
  for (const std::vector<float>& layer : detail::rollout(checked))
    values.insert(values.end(), layer.begin(), layer.end());
  return Tensor<float>({checked.L(), checked.T(), checked.T()}, values);
}

}  // namespace heddle::pictures
