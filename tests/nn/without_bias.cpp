// Layers without biases: they compute what biases of zero give, and every function that visits a model leaves the
// absent ones out.
#include <heddle/heddle.hpp>

#include "../catch.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

template <class M>
std::vector<std::string> names_of(const M& model) {
  std::vector<std::string> names;
  each_parameter(model, [&](const Name& name, const auto&) { names.push_back(name.str()); });
  return names;
}

// Sets all biases to zero. The weights of a layer are drawn before its bias, so a layer without bias that is drawn
// alone has the same ones.
template <class M>
void clear_biases(M& model) {
  each_parameter(model, [](const Name& name, auto& p) {
    if (name.str().ends_with("bias")) p.assign(zeros<float>(p.shape()));
  });
}

}  // namespace

TEST_CASE("attention without biases: has no biases and computes what zeros give") {
  Random random(1), data(2);
  nn::MultiHeadAttention<> with(8, 2, random);
  nn::MultiHeadAttention<> without(8, 2, random, 0, false);
  CHECK(names_of(without) == std::vector<std::string>{"query.weight|key.weight|value.weight", "out.weight"});
  clear_biases(with);
  without.qkv.weight.assign(with.qkv.weight.value());
  without.out.weight.assign(with.out.weight.value());
  const Tensor<float> x = randn<float>({5, 8}, data);
  const Sequences sequences = Sequences::packed({3, 2});
  CHECK(without(x, sequences).host() == with(x, sequences).host());
  CHECK(without.record(x, sequences).weights.host() == with.record(x, sequences).weights.host());
  CHECK(clone(without)(x, sequences).host() == with(x, sequences).host());
}

TEST_CASE("attention without biases: in an encoder, which is trained and whose biases may also be removed") {
  Random random(1), data(2);
  nn::Encoder<> encoder(2, {.D = 8, .heads = 2, .attention_bias = false}, random);
  for (const std::string& name : names_of(encoder))
    CHECK((name.find("attention") == name.npos || !name.ends_with("bias")));
  nn::Encoder<> reset(2, {.D = 8, .heads = 2}, random);
  for (auto& layer : reset.layers) layer.attention.qkv.bias.reset(), layer.attention.out.bias.reset();
  CHECK(names_of(reset) == names_of(encoder));
  CHECK(parameter_count(reset) == parameter_count(encoder));
  optim::AdamW adam(reset, {.lr = 0.1});
  const Tensor<float> x = randn<float>({5, 8}, data);
  const Sequences sequences = Sequences::packed({3, 2});
  const auto before = reset(x, sequences).host();
  const Tensor<float> y = reset(x, sequences);
  backward(sum(y * x));
  adam.step();
  CHECK(reset(x, sequences).host() != before);
  CHECK(clone(reset)(x, sequences).host() == reset(x, sequences).host());
}

TEST_CASE("attention without biases: to other sequences, and under PyTorch's names") {
  Random random(1), data(2);
  const nn::CrossAttention<> across(8, 2, random, 6, false);
  CHECK(names_of(across) == std::vector<std::string>{"query.weight", "key.weight|value.weight", "out.weight"});
  const Sequences one = Sequences::packed({2}), other = Sequences::packed({3});
  CHECK(across(randn<float>({2, 8}, data), one, randn<float>({3, 6}, data), other).shape() == Shape{2, 8});
  const nn::TransformerEncoderLayer<> layer({.D = 8, .heads = 2, .attention_bias = false}, random);
  const auto names = names_of(layer);
  CHECK(std::find(names.begin(), names.end(), "self_attn.in_proj_bias") == names.end());
  CHECK(std::find(names.begin(), names.end(), "self_attn.in_proj_weight") != names.end());
}
