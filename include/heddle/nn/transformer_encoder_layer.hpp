#pragma once
#include <heddle/nn/encoder.hpp>

namespace heddle::nn {

/// An EncoderLayer whose parameters have the names and shapes of torch.nn.TransformerEncoderLayer, so that weights can
/// be exchanged: self_attn.in_proj_weight and in_proj_bias, self_attn.out_proj, linear1, linear2, norm1, norm2.
template <Floating T = float>
struct TransformerEncoderLayer : EncoderLayer<T> {
  using EncoderLayer<T>::EncoderLayer;

  /// Visits the members.
  static void visit(auto& self, auto&& f) {
    f("self_attn.in_proj_weight", self.attention.qkv.weight);
    f("self_attn.in_proj_bias", self.attention.qkv.bias);
    f("self_attn.out_proj", self.attention.out);
    f("linear1", self.ff.in);
    f("linear2", self.ff.out);
    f("norm1", self.norm1);
    f("norm2", self.norm2);
  }
};

}  // namespace heddle::nn
