#pragma once
#include <vector>

#include <heddle/base/random.hpp>
#include <heddle/core/tensor.hpp>
#include <heddle/nn/attention.hpp>

namespace heddle::models {

/// The optional arguments of an encoder's forward pass.
template <Floating A>
struct ForwardOptions {
  Tensor<int> types = {};    ///< [N] token types; all 0 if empty
  Random* random = nullptr;  ///< generator of the dropout, which is active if and only if this is given
  /// Receives the rows before the first layer, then those after each layer, [N, D]; a layer of ALBERT that stands for
  /// several is several here. The last ones of ModernBERT are after its final norm.
  std::vector<Tensor<A>>* hidden_states = {};
  std::vector<Tensor<A>>* attentions = {};  ///< receives the weights [B, H, T, T] of each layer, without dropout
  std::vector<nn::AttentionRecord<A>>* records = {};  ///< receives the queries, keys and weights of each layer

  /// Stores the requested results of a layer's attention for the layer's input x [N, D]. A bias of the attention may
  /// follow the sequences.
  void record(const auto& layer, const Tensor<A>& x, const Sequences& sequences, const auto&... bias) const {
    if (!attentions && !records) return;
    nn::AttentionRecord<A> r = layer.record(x, sequences, bias...);
    if (attentions) attentions->push_back(r.weights);
    if (records) records->push_back(std::move(r));
  }
};

}  // namespace heddle::models
