#pragma once
#include <vector>

#include <heddle/base/random.hpp>
#include <heddle/core/tensor.hpp>

namespace heddle::models {

/// The optional arguments of an encoder's forward pass.
template <class A>
struct ForwardOptions {
  Tensor<int> types = {};    ///< [N] token types; all 0 if empty
  Random* random = nullptr;  ///< dropout is active if and only if it is given
  std::vector<Tensor<A>>* hidden_states =
      {};  ///< receives layers + 1 tensors [N, D]: the embeddings, then each layer's result
  std::vector<Tensor<A>>* attentions = {};  ///< receives the probabilities [B, H, T, T] of each layer, without dropout
};

}  // namespace heddle::models
