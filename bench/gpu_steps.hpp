// The training steps that are timed on the GPU.
#pragma once
#include <functional>
#include <heddle/autograd/cuda_graph.hpp>
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

// Returns a training step as in the program sst2: copy the rows to the GPU, forward, backward, Adam, copy the loss to
// the host. It is replayed as a CUDA graph if `replays`.
inline Call sst2_step(Index vocabulary, bool replays) {
  struct Training {
    Random random{1};
    examples::Sst2Model model;
    std::vector<data::Batch> data;
    std::optional<optim::Adam> adam;
    std::uint64_t step = 0;
    cuda::Graph graph;
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
  return [t, replays] {
    const data::Batch& batch = t->data[t->step++ % t->data.size()];
    const auto compute = [&t](const data::Batch& there, Random& random) {
      const Tensor<float> of_batch =
          cross_entropy(t->model.forward<float>(there.ids, there.sequences, &random), there.labels);
      backward(of_batch);
      return detach(of_batch);
    };
    const Tensor<float> loss =
        replays ? t->graph.run(compute, data::filled(batch), t->random) : compute(batch.to(Device::cuda), t->random);
    t->adam->step();
    require(std::isfinite(loss.item()), "the loss of step ", t->step, " is not finite");
  };
}

// Returns a training step of post-norm layers with heads of 64, such as twelve of width 768 (BERT-base). Every text has
// the full length. The step is replayed as a CUDA graph if `replays`.
inline Call encoder_step(int layers, int D, Index B, Index S, bool replays) {
  struct Training {
    Random random{1};
    nn::Encoder<> model;
    std::optional<optim::AdamW> adam;
    cuda::Graph graph;
    Training(int layers, int D)
        : model(layers, {.D = D, .heads = D / 64, .dropout = 0.1, .attention_dropout = 0.1, .eps = 1e-12}, random) {}
  };
  const auto t = std::make_shared<Training>(layers, D);
  to(t->model, Device::cuda);
  t->adam.emplace(t->model);
  const std::vector<int> lengths(static_cast<std::size_t>(B), static_cast<int>(S));
  return [t, replays, x = normal<bf16>(B * S, D), dy = normal<bf16>(B * S, D),
          texts = Sequences::packed(lengths).to(Device::cuda)] {
    const auto compute = [&t, &dy](const Tensor<bf16>& rows, const Sequences& sequences, Random& random) {
      backward(t->model(rows, sequences, &random), dy);
    };
    replays ? t->graph.run(compute, x, texts, t->random) : compute(x, texts, t->random);
    t->adam->step();
  };
}

}  // namespace heddle::bench::gpu
