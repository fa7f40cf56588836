// The surname classifier: an encoder layer on a learned CLS row and a name's characters. The CLS row of its result is
// classified. Weights are named as in bench/peers/surnames_model.py.
#pragma once
#include <heddle/heddle.hpp>

#include "../common/flags.hpp"

namespace heddle::examples {

// A post-norm layer of one head without output projection, whose two norms share their weights. Only the first row of
// each sequence is read afterwards, so only that row has a query and a result.
struct OwnLayer {
  nn::Linear<> query, key_value;
  nn::LayerNorm<> norm;
  nn::FeedForward<> ff;

  OwnLayer(const ModelSizes& s, Random& random)
      : query(s.d_model, s.d_model, random),
        key_value(s.d_model, 2 * s.d_model, random),
        norm(s.d_model),
        ff(s.d_model, s.ff_width, random, nn::Activation::relu) {}

  template <class A>
  Tensor<A> operator()(const Tensor<A>& x, const Sequences& sequences) const {  // [N, D] to [B, D]
    const Index D = x.dim(1), B = sequences.count();
    const Sequences queries =
        Sequences::packed(std::vector<int>(static_cast<std::size_t>(B), 1)).to(sequences.device());
    const Tensor<A> first = first_rows(x, sequences), kv = key_value(x);  // [B, D], [N, 2 * D]
    const Tensor<A> seen =
        attention(query(first), columns(kv, 0, D), columns(kv, D, D), queries, {.keys = &sequences});  // [B, D]
    const Tensor<A> y = norm(first, seen, 0, nullptr);
    return norm(y, ff(y), 0, nullptr);
  }

  // Returns the queries, keys and weights of all rows, for pictures.
  nn::AttentionRecord<float> record(const Tensor<float>& x, const Sequences& sequences) const {  // [N, D]
    const Tensor<float> q = query(x), k = slice(key_value(x), 1, 0, x.dim(1));
    return {q, k, attention_weights(q, k, sequences)};
  }

  static void visit(auto& self, auto&& f) {
    f("linear_q", self.query);
    f(std::vector<std::string>{"linear_k.weight", "linear_v.weight"}, self.key_value.weight);
    f(std::vector<std::string>{"linear_k.bias", "linear_v.bias"}, self.key_value.bias);
    f("layer_norm", self.norm);
    f("feed_forward_layer", self.ff);
  }
};

struct SurnameModel {
  nn::Linear<> projection;
  nn::Embedding<> cls;
  Buffer<float> positions;  // [L, 1, D]
  std::optional<OwnLayer> own;
  std::optional<nn::TransformerEncoderLayer<>> library;
  nn::Linear<> out;
  double dropout;

  SurnameModel(const ModelSizes& s, Index symbols, Index classes, double p, bool has_library_layer, Random& random)
      : projection(symbols, s.d_model, random),
        cls(1, s.d_model, random),
        positions(reshape(nn::sinusoidal_table<float>(s.max_length, s.d_model), {s.max_length, 1, s.d_model})),
        out(s.d_model, classes, random),
        dropout(p) {
    const nn::EncoderOptions same{
        .D = s.d_model, .heads = 1, .ff_width = s.ff_width, .dropout = p, .activation = nn::Activation::relu};
    has_library_layer ? void(library.emplace(same, random)) : void(own.emplace(s, random));
  }

  // Returns the logits of the languages. Dropout is active if and only if `random` is given.
  template <class A>
  Tensor<A> forward(const Tensor<int>& ids, const Sequences& sequences,
                    Random* random = nullptr) const {                                   // [N] to [B, C]
    const Tensor<A> x = heddle::dropout(embedded<A>(ids, sequences), dropout, random);  // [N, D]
    return out(own ? (*own)(x, sequences) : first_rows((*library)(x, sequences, random), sequences));
  }

  // Returns the layer's attention.
  std::vector<nn::AttentionRecord<float>> attention(const Tensor<int>& ids, const Sequences& sequences) const {
    const Tensor<float> x = embedded<float>(ids, sequences);
    return {own ? own->record(x, sequences) : library->attention.record(x, sequences)};
  }

  static void visit(auto& self, auto&& f) {
    f("proj_layer", self.projection);
    f("cls_embedding_layer", self.cls);
    f("pos_encoding.pe", self.positions);
    f("encoder", self.own);
    f("encoder", self.library);
    f("classif", self.out);
  }

 private:
  template <class A>
  Tensor<A> embedded(const Tensor<int>& ids, const Sequences& sequences) const {  // [N] to [N, D]
    // The projection of a one-hot row is a column of the weight plus the bias. The table holds it for each symbol, and
    // then the CLS row.
    const Tensor<A> symbols = transpose(projection.weight.as<A>(), 0, 1) + projection.bias->as<A>();  // [S, D]
    const Tensor<A> table = concat({symbols, cls.weight.as<A>()}, 0);                                 // [S + 1, D]
    const Tensor<A> pe = reshape(positions.as<A>(), {positions.shape()[0], positions.shape()[2]});    // [L, D]
    return embed(ids, table) + take_rows(pe, sequences.position());
  }
};

}  // namespace heddle::examples
