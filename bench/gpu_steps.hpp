// The training steps that are timed on the GPU.
#pragma once
#include <functional>
#include <heddle/data/batches.hpp>
#include <optional>

#include "../examples/sst2/model.hpp"
#include "gpu.hpp"

namespace heddle::bench::gpu {

using Call = std::function<void()>;

constexpr Index batch_size = 32, batches = 8;

// Returns the lengths of a batch, distributed approximately as in SST-2: 4 tokens plus fixed quantiles of an
// exponential distribution with mean 10.
inline std::vector<int> sst2_lengths(Index batch) {
  std::vector<int> lengths;
  for (Index i = batch * batch_size; i < (batch + 1) * batch_size; ++i)
    lengths.push_back(4 + static_cast<int>(-10 * std::log(1 - static_cast<double>((i * 7919 + 13) % 997) / 997)));
  return lengths;
}

// Returns a training step as in the program sst2: copy the rows to the GPU, forward, copy the loss to the host,
// backward, Adam.
inline Call sst2_step(Index vocabulary) {
  struct Training {
    Random random{1};
    examples::Sst2Model model;
    std::vector<data::Batch> data;
    std::optional<optim::Adam> adam;
    std::uint64_t step = 0;
    explicit Training(Index vocabulary) : model({vocabulary, 512, 64, 4, 16, 256, 2, 2}, random) {}
  };
  const auto t = std::make_shared<Training>(vocabulary);
  to(t->model, Device::cuda);
  t->adam.emplace(t->model);
  for (Index b = 0; b < batches; ++b) {
    data::LabelledSequences texts;
    int token = 0;
    for (const int length : sst2_lengths(b)) {
      std::vector<int> ids;
      for (int i = 0; i < length; ++i) ids.push_back(static_cast<int>(Index{token++} * 104729 % vocabulary));
      texts.add(ids, static_cast<int>(texts.count() % 2));
    }
    std::vector<Index> rows;
    for (Index row = 0; row < batch_size; ++row) rows.push_back(row);
    t->data.push_back(texts.batch(rows));
  }
  return [t] {
    const data::Batch batch = t->data[t->step % t->data.size()].to(Device::cuda);
    Random random(1, t->step++);
    const Tensor<float> loss =
        cross_entropy(t->model.forward<float>(batch.ids, batch.sequences, &random), batch.labels);
    require(std::isfinite(loss.item()), "the loss of step ", t->step, " is not finite");
    backward(loss);
    t->adam->step();
  };
}

// Returns a training step of post-norm layers with heads of 64, such as twelve of width 768 (BERT-base). Every text has
// the full length.
inline Call encoder_step(int layers, int D, Index B, Index S) {
  struct Training {
    Random random{1};
    nn::Encoder<> model;
    std::optional<optim::AdamW> adam;
    Training(int layers, int D)
        : model(layers, {.D = D, .heads = D / 64, .dropout = 0.1, .attention_dropout = 0.1, .eps = 1e-12}, random) {}
  };
  const auto t = std::make_shared<Training>(layers, D);
  to(t->model, Device::cuda);
  t->adam.emplace(t->model);
  const std::vector<int> lengths(static_cast<std::size_t>(B), static_cast<int>(S));
  return [t, x = normal<bf16>(B * S, D), dy = normal<bf16>(B * S, D),
          texts = Sequences::packed(lengths).to(Device::cuda)] {
    backward(t->model(x, texts, &t->random), dy);
    t->adam->step();
  };
}

}  // namespace heddle::bench::gpu
