// The news classifier: BERT's embedding layer, one self-attention, and a linear map of the first row. Weights are named
// as in bench/peers/ag_news_model.py.
#pragma once
#include <heddle/heddle.hpp>
#include <heddle/models/bert.hpp>

#include "../common/flags.hpp"

namespace heddle::examples {

// Self-attention of H heads, each K wide, of which only the first row of each sequence is computed. The score of a key
// is q (W x + b) = (q W) x + q b, and q b is the same for every key of a query, so it does not change the softmax. The
// result is sum_t p_t (W x_t + b) = W (sum_t p_t x_t) + b. So the weights of keys and values are multiplied with one
// row per text and head, and the bias of the keys has no gradient.
struct FirstRowAttention {
  nn::Linear<> query, key, value, out;
  Index heads;

  FirstRowAttention(Index D, Index H, Index K, Random& random)
      : query(D, H * K, random), key(D, H * K, random), value(D, H * K, random), out(H * K, D, random), heads(H) {}

  template <class A>
  Tensor<A> operator()(const Tensor<A>& x, const Sequences& sequences) const {  // [N, D] to [B, D]
    const Index D = x.dim(1), B = sequences.count(), H = heads, K = query.weight.shape()[0] / H;
    const Tensor<A> q = by_head(query(first_rows(x, sequences)), B, K);           // [H, B, K]
    const Tensor<A> queries = matmul(q, reshape(key.weight.as<A>(), {H, K, D}));  // [H, B, D]
    // The H queries of a text form one sequence, because all heads see the same keys.
    const Sequences heads_of_texts =
        Sequences::packed(std::vector<int>(static_cast<std::size_t>(B), static_cast<int>(H))).to(sequences.device());
    const Tensor<A> means = attention(reshape(permute(queries, {1, 0, 2}), {B * H, D}), x, x, heads_of_texts,
                                      {.scale = scale(K), .keys = &sequences});  // [B * H, D]
    const Tensor<A> values =
        matmul(by_head(means, B, D), reshape(value.weight.as<A>(), {H, K, D}), {.transpose_b = true});  // [H, B, K]
    return out(reshape(permute(values, {1, 0, 2}), {B, H * K}) + value.bias->as<A>());
  }

  // Returns the queries, keys and weights of all rows, for pictures.
  nn::AttentionRecord<float> record(const Tensor<float>& x, const Sequences& sequences) const {  // [N, D]
    const Tensor<float> q = query(x), k = key(x);
    return {q, k, attention_weights(q, k, sequences, {.heads = heads})};
  }

  static void visit(auto& self, auto&& f) {
    f("fc_q", self.query);
    f("fc_k", self.key);
    f("fc_v", self.value);
    f("fc_o", self.out);
  }

 private:
  static double scale(Index K) { return 1 / std::sqrt(static_cast<double>(K)); }
  template <class A>
  Tensor<A> by_head(const Tensor<A>& rows, Index B, Index width) const {  // [B, H * width] or [B * H, width]
    return permute(reshape(rows, {B, heads, width}), {1, 0, 2});          // [H, B, width]
  }
};

struct NewsModel {
  models::BertEmbeddings<> embeddings;
  FirstRowAttention attend;
  nn::Linear<> head;

  NewsModel(const ModelSizes& s, Index vocabulary, Index classes, Random& random)
      : embeddings({.vocabulary = vocabulary, .D = s.d_model, .positions = s.max_length, .dropout = 0}, random),
        attend(s.d_model, s.heads, s.head_dim, random),
        head(s.d_model, classes, random) {}

  // Returns the logits of the classes. The model has no dropout.
  template <class A>
  Tensor<A> forward(const Tensor<int>& ids, const Sequences& sequences, Random* = nullptr) const {  // [N] to [B, C]
    return head(attend(embeddings.forward<A>(ids, sequences), sequences));
  }

  // Returns the layer's attention.
  std::vector<nn::AttentionRecord<float>> attention(const Tensor<int>& ids, const Sequences& sequences) const {
    return {attend.record(embeddings.forward(ids, sequences), sequences)};
  }

  static void visit(auto& self, auto&& f) {
    f("embedder.embeddings", self.embeddings);
    f("attn", self.attend);
    f("classifier_head", self.head);
  }
};

}  // namespace heddle::examples
