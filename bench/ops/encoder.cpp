// An encoder of BERT-base's size: twelve post-norm layers of width 768. FLOP/s count the linear layers alone.
#include "../bench.hpp"

namespace heddle::bench {
namespace {

constexpr int layers = 12;
constexpr Index width = 768;
constexpr double products =
    2.0 * layers * 12 * width * width;  // FLOPs of the linear layers for one token in the forward

nn::Encoder<> bert_base(double dropout) {
  Random random(1);
  return nn::Encoder<>(
      layers, {.D = width, .heads = 12, .dropout = dropout, .attention_dropout = dropout, .eps = 1e-12}, random);
}

template <class T>
bool add_forward(const char* type, Index B, Index S) {
  return add("encoder/" + std::string(type) + '/' + sizes({B, S}) + "/forward", products * static_cast<double>(B * S),
             0, [=] {
               return [model = std::make_shared<nn::Encoder<>>(bert_base(0)), x = cast<T>(normal({B * S, width})),
                       texts = Sequences::packed(std::vector<int>(static_cast<std::size_t>(B), static_cast<int>(S)))] {
                 const NoGrad quiet;
                 benchmark::DoNotOptimize((*model)(x, texts).device_data());
               };
             });
}

template <class T>
bool add_step(const char* type, Index B, Index S) {
  return add("encoder/" + std::string(type) + '/' + sizes({B, S}) + "/step", 3 * products * static_cast<double>(B * S),
             0, [=] {
               auto model = std::make_shared<nn::Encoder<>>(bert_base(0.1));
               return [model, optimizer = std::make_shared<optim::AdamW>(*model), x = cast<T>(normal({B * S, width})),
                       dy = cast<T>(normal({B * S, width})), random = std::make_shared<Random>(2),
                       texts = Sequences::packed(std::vector<int>(static_cast<std::size_t>(B), static_cast<int>(S)))] {
                 backward((*model)(x, texts, random.get()), dy);
                 optimizer->step();
               };
             });
}

const bool added = [] {
  for (const auto& [B, S] : {std::pair<Index, Index>{8, 128}, {4, 512}, {1, 21}}) {
    add_forward<float>("fp32", B, S);
    add_forward<bf16>("bf16", B, S);
  }
  return add_step<float>("fp32", 8, 128) && add_step<bf16>("bf16", 8, 128);
}();

}  // namespace
}  // namespace heddle::bench
