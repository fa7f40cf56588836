// The encoder classifier of the program sst2. Weights have the names of the PyTorch module in
// bench/peers/sst2_model.py.
#pragma once
#include <heddle/heddle.hpp>

namespace heddle::examples {

struct Sst2Sizes {
  Index vocabulary, max_length, d_model, heads, head_dim, ff_width, layers, classes;
  double dropout = 0.1;
};

// A post-norm layer that nn::EncoderLayer cannot express: dropout follows the feed-forward network and the whole layer,
// instead of each sublayer.
struct Sst2Layer {
  nn::MultiHeadAttention<> attention;
  nn::LayerNorm<> norm1, norm2;
  nn::FeedForward<> ff;
  double dropout;

  Sst2Layer(const Sst2Sizes& s, Random& random)
      : attention(s.d_model, static_cast<int>(s.heads), random, s.head_dim),
        norm1(s.d_model),
        norm2(s.d_model),
        ff(s.d_model, s.ff_width, random),
        dropout(s.dropout) {}
  Sst2Layer(const Sst2Layer& other, Cloning& c)
      : attention(c(other.attention)),
        norm1(c(other.norm1)),
        norm2(c(other.norm2)),
        ff(c(other.ff)),
        dropout(other.dropout) {}

  template <class A>
  Tensor<A> operator()(Tensor<A> x, const Sequences& sequences, Random* random) const {  // [N, D]
    x = norm1(x, attention(x, sequences), 0, nullptr);
    return norm2.dropped(x, ff(x), dropout, dropout, random);
  }

  static void visit(auto& self, auto&& f) {
    f("attention", self.attention);
    f("norm1", self.norm1);
    f("norm2", self.norm2);
    f("ff", self.ff);
  }
};

struct Sst2Model {
  nn::Embedding<> embedding;
  nn::SinusoidalPositions<> positions;
  std::vector<Sst2Layer> layers;
  nn::LayerNorm<> norm;
  nn::Linear<> out;
  double dropout;

  Sst2Model(const Sst2Sizes& s, Random& random)
      : embedding(s.vocabulary, s.d_model, random),
        positions(s.max_length, s.d_model),
        norm(s.d_model),
        out(s.d_model, s.classes, random),
        dropout(s.dropout) {
    for (Index i = 0; i < s.layers; ++i) layers.emplace_back(s, random);
  }
  Sst2Model(const Sst2Model& other, Cloning& c)
      : embedding(c(other.embedding)),
        positions(c(other.positions)),
        layers(c(other.layers)),
        norm(c(other.norm)),
        out(c(other.out)),
        dropout(other.dropout) {}

  // Returns the logits of the classes. Dropout is active if and only if `random` is given.
  template <class A>
  Tensor<A> forward(const Tensor<int>& ids, const Sequences& sequences,
                    Random* random = nullptr) const {                             // [N] to [B, C]
    Tensor<A> x = heddle::dropout(embedded<A>(ids, sequences), dropout, random);  // [N, D]
    for (const Sst2Layer& layer : layers) x = layer(x, sequences, random);
    return out(norm(first_rows(x, sequences)));
  }

  // Returns the attention of each layer.
  std::vector<nn::AttentionRecord<float>> attention(const Tensor<int>& ids, const Sequences& sequences) const {
    std::vector<nn::AttentionRecord<float>> records;
    Tensor<float> x = embedded<float>(ids, sequences);
    for (const Sst2Layer& layer : layers) {
      records.push_back(layer.attention.record(x, sequences));
      x = layer(x, sequences, nullptr);
    }
    return records;
  }

  static void visit(auto& self, auto&& f) {
    f("embedding", self.embedding);
    f("pos_encoding", self.positions);
    f("transformer_blocks", self.layers);
    f("norm", self.norm);
    f("out", self.out);
  }

 private:
  template <class A>
  Tensor<A> embedded(const Tensor<int>& ids, const Sequences& sequences) const {  // [N] to [N, D]
    return positions.embed<A>(embedding, ids, sequences);
  }
};

}  // namespace heddle::examples
