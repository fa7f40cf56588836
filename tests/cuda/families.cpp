// The encoders of all families on a GPU: classifiers have the values and gradients of the CPU, with dropout.
#include <heddle/ops/cross_entropy.hpp>

#include "../harness/compare.hpp"
#include "same_always.hpp"
#include "tiny_bert.hpp"

using namespace heddle;
using namespace heddle::testing;
using models::BertFamily;

namespace {

constexpr BertFamily all_families[] = {
    BertFamily::bert,   BertFamily::distilbert, BertFamily::roberta, BertFamily::mpnet, BertFamily::electra,
    BertFamily::albert, BertFamily::modernbert, BertFamily::nomic,   BertFamily::gte,   BertFamily::deberta};

models::BertConfig config_of(BertFamily family) {
  models::BertConfig config = tiny_bert(0.1, family);
  config.layers = 3;
  config.embedding_width = 12;
  config.padding_id = 1;
  config.groups = 2;
  config.deberta = {.buckets = 8, .greatest_distance = 40};
  config.rotary = {.global_every = 2, .window = 2, .ff_dropout = 0.1};
  if (family == BertFamily::nomic || family == BertFamily::gte)
    config.rotary = {.norm_first = false, .global_every = 1, .norm_bias = true, .ff_dropout = 0.1};
  return config;
}

// Returns the logits of a ragged batch and the gradients of all weights, on a device, in A.
template <class A>
std::vector<std::vector<double>> results_of(const models::BertClassifier<>& model, Device device) {
  auto copy = clone(model);
  to(copy, device);
  std::vector<int> ids, types;
  for (int n = 0; n < 48; ++n) ids.push_back(n * 7 % 50), types.push_back(n % 3 == 0);
  const Sequences sequences = Sequences::packed({33, 1, 14}).to(device);
  const Tensor<int> of_tokens =
      copy.config().types > 1 && copy.encoder.embeddings.types ? Tensor<int>({48}, types).to(device) : Tensor<int>();
  Random dropout(5);
  const Tensor<A> logits = copy.forward(Tensor<int>({48}, ids).to(device), sequences,
                                        models::ForwardOptions<A>{.types = of_tokens, .random = &dropout});
  backward(cross_entropy(cast<float>(logits), Tensor<int>({3}, {2, 0, 1}).to(device)));
  std::vector<std::vector<double>> results{joined(logits.host())};
  each_parameter(copy, [&](const Name&, auto& p) { results.push_back(joined(p.grad().to(Device::cpu).host())); });
  return results;
}

}  // namespace

TEST_CASE("cuda families: classifiers have the values and gradients of the CPU") {
  for (const BertFamily family : all_families) {
    INFO(models::encoder_name(family));
    Random random(1);
    const models::BertClassifier<> model(config_of(family), 3, random);
    const auto expected = results_of<float>(model, Device::cpu), found = results_of<float>(model, Device::cuda);
    REQUIRE(found.size() == expected.size());
    double largest = 0;
    for (const auto& one : expected)
      for (const double x : one) largest = std::max(largest, std::abs(x));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      INFO("result " << i);
      expect_close(found[i], expected[i], [&](double) { return 2e-5 * largest; });
    }
  }
}

TEST_CASE("cuda families: results do not depend on schedules or garbage in memory") {
  for (const BertFamily family : {BertFamily::mpnet, BertFamily::modernbert}) {
    Random random(1);
    const models::BertClassifier<> model(config_of(family), 3, random);
    expect_same_always([&] { return results_of<bf16>(model, Device::cuda); });
  }
}
