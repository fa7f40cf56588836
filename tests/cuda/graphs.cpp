// cuda::Graph: recorded runs and their replays, compared with calls of the same function.
#include <cuda_runtime.h>

#include <heddle/autograd/cuda_graph.hpp>
#include <heddle/data/batches.hpp>
#include <heddle/heddle.hpp>
#include <optional>

#include "../harness/numbers.hpp"
#include "on_gpu.hpp"
#include "schedules.hpp"
#include "tiny_bert.hpp"

using namespace heddle;
using namespace heddle::testing;
using heddle::testing::ContainsSubstring;

namespace {

constexpr int class_count = 3;

models::BertClassifier<> make_model(double dropout, models::BertFamily family) {
  Random random(3);
  models::BertClassifier<> model(tiny_bert(dropout, family), class_count, random);
  to(model, Device::cuda);
  return model;
}

// Returns batch `number` of texts of different lengths.
data::Batch ragged_batch(Index number) {
  Random random(5, static_cast<std::uint64_t>(number));
  data::LabelledSequences texts;
  std::vector<Index> rows;
  for (Index n = 0; n < 6; ++n) {
    std::vector<int> ids(1 + random.next() % 38);
    for (int& id : ids) id = static_cast<int>(random.next() % 50);
    texts.add(ids, static_cast<int>(random.next() % class_count), 1);
    rows.push_back(n);
  }
  return texts.batch(rows);
}

struct StepResult {
  Tensor<float> loss, logits;
};

// The forward and the backward of a training step.
template <class A>
auto training_step(const models::BertClassifier<>& model) {
  return [&model](const data::Batch& batch, Random& random) {
    const Tensor<float> z =
        cast<float>(model.forward<A>(batch.ids, batch.sequences, {.types = batch.types, .random = &random}));
    const Tensor<float> loss = cross_entropy(z, batch.labels);
    backward(loss);
    return StepResult{detach(loss), detach(z)};
  };
}

// Trained holds what a training computes: the losses, and the weights at the end.
struct Trained {
  std::vector<float> losses, weights;
};

// Trains on `steps` batches with a Graph, or with calls. A batch is filled unless `fills` is false. Calls after(graph)
// at the end.
template <class A, class F>
Trained train(double dropout, Index steps, bool records, bool fills, F after,
              models::BertFamily family = models::BertFamily::bert) {
  const models::BertClassifier<> model = make_model(dropout, family);
  auto& trained = const_cast<models::BertClassifier<>&>(model);
  optim::AdamW optimizer(trained, {.lr = 1e-3});
  const auto step = training_step<A>(model);
  cuda::Graph graph;
  Random random(7);
  Trained result;
  for (Index n = 0; n < steps; ++n) {
    const data::Batch batch = fills ? data::filled(ragged_batch(n), 40) : ragged_batch(n);
    const StepResult r = records ? graph.run(step, batch, random) : step(batch.to(Device::cuda), random);
    optimizer.step({.factor = 1.0 / static_cast<double>(n + 1), .max_norm = 1});
    result.losses.push_back(r.loss.item());
  }
  to(trained, Device::cpu);
  each_parameter(trained, [&](const Name&, auto& p) {
    result.weights.insert(result.weights.end(), p.data(), p.data() + p.size());
  });
  after(graph);
  return result;
}

}  // namespace

TEMPLATE_TEST_CASE("cuda graphs: training with ragged batches has the bits of calls", "", float, bf16) {
  const Index steps = races_are_watched() ? 6 : 50;
  const auto nothing = [](const cuda::Graph&) {};
  const Trained called = train<TestType>(0.1, steps, false, true, nothing);
  const Trained replayed = train<TestType>(0.1, steps, true, true, [&](const cuda::Graph& graph) {
    CHECK(graph.failure() == "");
    if (steps < 50) return;
    CHECK(graph.recorded() >= 3);
    CHECK(graph.replays() >= 30);
  });
  CHECK(replayed.losses == called.losses);
  CHECK(replayed.weights == called.weights);
}

TEST_CASE("cuda graphs: training RoBERTa, whose positions depend on the ids, has the bits of calls") {
  const auto nothing = [](const cuda::Graph&) {};
  const auto trained = [&](bool records) {
    return train<float>(0.1, 8, records, true, nothing, models::BertFamily::roberta);
  };
  const Trained called = trained(false), replayed = trained(true);
  CHECK(replayed.losses == called.losses);
  CHECK(replayed.weights == called.weights);
}

TEST_CASE("cuda graphs: a filled batch has the loss and the gradients of the batch") {
  const Index steps = 4;
  const auto nothing = [](const cuda::Graph&) {};
  const Trained given = train<float>(0, steps, false, false, nothing);
  const Trained with_more = train<float>(0, steps, true, true, nothing);
  for (std::size_t n = 0; n < given.losses.size(); ++n) CHECK(std::abs(with_more.losses[n] - given.losses[n]) < 1e-5f);
}

TEST_CASE("cuda graphs: replays take new inputs, weights and generators") {
  each_schedule([&] {
    const Tensor<float> w = variable(on_gpu({2}, {2, 3}));
    cuda::Graph graph;
    Random random(1);
    for (int n = 0; n < 6; ++n) {
      const auto number = static_cast<float>(n);
      const Tensor<float> x({2}, {number, 1}), on_device = on_gpu({2}, {5, number});
      const auto [y, drawn] = graph.run(
          [&](const Tensor<float>& a, const Tensor<float>& b, Random& r) {
            const Tensor<float> product = w * a + b;
            backward(sum(product));
            return std::pair(detach(product), dropout(ones<float>({40}, Device::cuda), 0.5, r));
          },
          x, on_device, random);
      CHECK(y.host() == std::vector<float>{2 * number + 5, 3 + number});
      CHECK(w.grad().host() == std::vector<float>{number, 1});
      w.set_grad({});
      Random same(1);
      same.seek(static_cast<std::uint64_t>(n) << 32);
      CHECK(drawn.host() == dropout(ones<float>({40}), 0.5, same).host());
      CHECK(random.position() == same.position());
    }
    CHECK(graph.recorded() == 1);
    CHECK(graph.replays() == 5);
  });
}

TEST_CASE("cuda graphs: gradients add up over runs of several sizes") {
  each_schedule([&] {
    const Tensor<float> w = variable(on_gpu({1}, {2}));
    cuda::Graph graph;
    float expected = 0;
    for (int n = 0; n < 12; ++n) {
      const Index size = 1 + n % 3;
      graph.run([&](const Tensor<float>& x) { backward(sum(w * x)); }, full<float>({size}, static_cast<float>(n)));
      expected += static_cast<float>(size) * static_cast<float>(n);
      CHECK(w.grad().item() == expected);
      if (n == 7) {
        w.set_grad({});
        expected = 0;
      }
    }
    CHECK(graph.recorded() == 3);
  });
}

TEST_CASE("cuda graphs: what a call makes stays intact in replays of another size") {
  const Tensor<float> w = variable(on_gpu({1}, {1}));
  const auto square = [&](const Tensor<float>& x) {
    const Tensor<float> z = w * x;
    backward(sum(z * z));
  };
  cuda::Graph graph;
  const Tensor<float> a = full<float>({64}, 1), b = full<float>({200}, 1);
  graph.run(square, a);
  graph.run(square, a);
  w.set_grad({});
  graph.run(square, b);
  graph.run(square, a);
  CHECK(w.grad().item() == 2 * 200 + 2 * 64);

  Random random(1);
  nn::Linear<> first(4, 4, random), second(4, 4, random);
  to(first, Device::cuda), to(second, Device::cuda);
  Tensor<float> table;  // made when it is needed
  const auto layers = [&](const Tensor<bf16>& x, const Tensor<bf16>& more) {
    const Tensor<bf16> y = first(x);
    if (!more) return cast<float>(y);
    if (!table) table = full<float>({3, 4}, 1).to(Device::cuda);
    return cast<float>(y + second(more)) + table;
  };
  cuda::Graph of_layers;
  const Tensor<bf16> x = cast<bf16>(randn<float>({3, 4}, random));
  const std::vector<float> one = layers(x.to(Device::cuda), {}).host(),
                           both = layers(x.to(Device::cuda), x.to(Device::cuda)).host();
  table = {};
  second.weight.assign(second.weight.value());  // its cast is made anew
  for (int n = 0; n < 3; ++n) CHECK(of_layers.run(layers, x, Tensor<bf16>()).host() == one);
  for (int n = 0; n < 4; ++n) {
    CHECK(of_layers.run(layers, x, x).host() == both);
    CHECK(of_layers.run(layers, x, Tensor<bf16>()).host() == one);
  }
}

TEST_CASE("cuda graphs: parameters that are frozen and trained again") {
  Random random(1);
  nn::Linear<> layer(2, 1, random);
  to(layer, Device::cuda);
  cuda::Graph graph;
  for (const bool frozen : {true, false, true, false}) {
    layer.weight.freeze(frozen);
    for (int n = 0; n < 3; ++n) {
      zero_grad(layer);
      graph.run([&](const Tensor<float>& x) { backward(sum(layer(x))); }, full<float>({3, 2}, 2));
      CHECK(layer.bias->grad().item() == 3);
      CHECK(static_cast<bool>(layer.weight.grad()) == !frozen);
    }
  }
}

TEST_CASE("cuda graphs: streams of a thread's own") {
  for (const bool is_bf16 : {false, true}) {
    cudaStream_t stream = nullptr;
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    {
      const Tensor<float> x({2}, {3, 1}), w = variable(on_gpu({2}, {1, 2}));
      Random random(1);
      nn::Linear<> layer(2, 1, random);
      to(layer, Device::cuda);
      const float expected = sum(layer(cast<bf16>(reshape(x, {1, 2})).to(Device::cuda))).item();
      std::optional<cuda::Graph> graph(std::in_place);
      const auto multiply = [&](const Tensor<float>& a) { backward(sum(w * a)); };
      const auto apply = [&](const Tensor<bf16>& a) { return cast<float>(sum(layer(a))); };
      cuda::set_stream(stream);
      for (int n = 0; n < 4; ++n)
        if (is_bf16)
          CHECK(graph->run(apply, cast<bf16>(reshape(x, {1, 2}))).item() == expected);
        else
          graph->run(multiply, x);
      cuda::set_stream(nullptr);
      if (!is_bf16)
        CHECK_THROWS_WITH(graph->run(multiply, x),
                          "a cuda::Graph runs on the stream of its first run; the calling thread "
                          "has another one");
      graph.reset();
      if (!is_bf16) CHECK(w.grad().host() == std::vector<float>{12, 4});
      if (!is_bf16) backward(sum(w * x.to(Device::cuda)));
      cuda::Graph shared;
      if (!is_bf16)
        for (int n = 0; n < 3; ++n) shared.run(multiply, x);
      if (!is_bf16) CHECK(w.grad().host() == std::vector<float>{24, 8});
      cuda::synchronize();
    }
    cuda::trim();
    CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  }
}

TEST_CASE("cuda graphs: results that are inputs, references, or stay after the Graph") {
  Tensor<float> state({2}, {1, 2});
  {
    cuda::Graph graph;
    for (int n = 0; n < 5; ++n) {
      state = graph.run([](const Tensor<float>& x) -> const Tensor<float>& { return x; }, state);
      CHECK(state.host() == std::vector<float>{1, 2});
    }
  }
  CHECK(state.host() == std::vector<float>{1, 2});
}

TEST_CASE("cuda graphs: weights that are written or moved between runs") {
  Random random(1);
  nn::Linear<> layer(2, 1, random);
  to(layer, Device::cuda);
  cuda::Graph graph;
  const auto y = [&](float weight) {
    layer.weight.assign(Tensor<float>({1, 2}, {weight, 1}));
    layer.bias->assign(Tensor<float>({1}, {0.f}));
    return graph.run([&](const Tensor<bf16>& x) { return cast<float>(layer(x)); },
                     cast<bf16>(Tensor<float>({1, 2}, {2, 1})));
  };
  for (int n = 0; n < 5; ++n) CHECK(y(static_cast<float>(n)).item() == static_cast<float>(2 * n + 1));
  CHECK(graph.replays() == 4);
  to(layer, Device::cpu);
  to(layer, Device::cuda);
  for (int n = 0; n < 5; ++n) CHECK(y(static_cast<float>(n)).item() == static_cast<float>(2 * n + 1));
  CHECK(graph.replays() == 8);
}

TEST_CASE("cuda graphs: a model that is destroyed and made again") {
  cuda::Graph graph;
  std::unique_ptr<nn::Linear<>> layer;
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    Random random(seed);
    layer.reset();
    layer = std::make_unique<nn::Linear<>>(2, 1, random);
    to(*layer, Device::cuda);
    for (int n = 0; n < 3; ++n) {
      zero_grad(*layer);
      graph.run([&](const Tensor<float>& x) { backward(sum((*layer)(x))); }, full<float>({3, 2}, 2));
      CHECK(layer->weight.grad().host() == std::vector<float>{6, 6});
    }
  }
  CHECK(graph.replays() == 6);
}

TEST_CASE("cuda graphs: what a run does not allow is an error, and the next run works") {
  const Tensor<float> w = variable(on_gpu({2}, {1, 2}));
  const Tensor<float> x({2}, {3, 4});
  const std::string reason =
      " cannot be part of a run of cuda::Graph, whose replays run on the GPU alone; return "
      "tensors from the function, and go on after the run";
  const auto fails = [&](auto f, const std::string& what) {
    cuda::Graph own;
    CHECK_THROWS_WITH(own.run([&](const Tensor<float>& a) { f(a); }, x), what);
    own.run([&](const Tensor<float>&) {}, x);
  };
  fails([&](const Tensor<float>& a) { sum(a).item(); }, "a copy to the host" + reason);
  fails([&](const Tensor<float>& a) { HostCopy<float>{a}; }, "a copy to the host" + reason);
  fails([&](const Tensor<float>&) { cuda::synchronize(); },
        "item(), host() or another call that waits for the GPU" + reason);
  fails([&](const Tensor<float>&) { cuda::trim(); }, "cuda::trim()" + reason);
  fails([&](const Tensor<float>& a) { cuda::Graph().run([](const Tensor<float>&) {}, a); }, "another run" + reason);
  cuda::Graph same;
  const std::function<void(const Tensor<float>&)> again = [&](const Tensor<float>& a) { same.run(again, a); };
  CHECK_THROWS_WITH(same.run(again, x), "another run" + reason);
  fails([&](const Tensor<float>&) { w.set_grad({}); },
        "set_grad cannot be part of a run of cuda::Graph; set or clear gradients before or after it");
  CHECK_THROWS_WITH(
      cuda::Graph().run([](const Tensor<float>&) {}, variable(x)),
      "cuda::Graph: an input requires a gradient, which a run does not compute; capture the variable in the "
      "function, or detach the input");
  Random twice(1);
  CHECK_THROWS_WITH(cuda::Graph().run([](Random&, Random&) {}, twice, twice),
                    "cuda::Graph: a Random is given twice as an input of a run");
  fails(
      [&](const Tensor<float>& a) {
        nn::Linear<> layer = [] {
          Random random(1);
          return nn::Linear<>(2, 2, random);
        }();
        to(layer, Device::cuda);
        optim::Sgd optimizer(layer, {.lr = 1});
        backward(sum(layer(reshape(a, {1, 2}))));
        optimizer.step();
      },
      "a step of an optimizer" + reason);
  CHECK_THROWS_WITH(
      cuda::Graph().run([](const Sequences& s) { s.lengths(); }, Sequences::packed({1, 2})),
      "Sequences: the lengths of an input of cuda::Graph are on the GPU only, because they differ from one "
      "replay to the next");
}

TEST_CASE("cuda graphs: a recorded run that differs from the run before it is an error") {
  const Tensor<float> x({2}, {3, 4}), w = variable(on_gpu({2}, {1, 2})), v = variable(on_gpu({2}, {1, 2}));
  float number = 0;
  cuda::Graph copies, leaves, draws;
  const auto add_number = [&](const Tensor<float>& a) { return a + full<float>({2}, ++number).to(Device::cuda); };
  CHECK(copies.run(add_number, x).host() == std::vector<float>{4, 5});
  CHECK_THROWS_WITH(copies.run(add_number, x),
                    "cuda::Graph: the function copies 8 bytes from the host that are not those of the run before; "
                    "tensors that change from run to run must be inputs of the run");
  bool other = false;
  const auto reach = [&](const Tensor<float>& a) { backward(sum(a * (std::exchange(other, true) ? w : v))); };
  leaves.run(reach, x);
  CHECK_THROWS_WITH(leaves.run(reach, x),
                    "cuda::Graph: the function reaches other variables or parameters than in the run before");
  CHECK(!w.grad());
  CHECK(v.grad().host() == std::vector<float>{3, 4});
  Random random(1);
  const auto draw = [](Random& r) { r.next(); };
  draws.run(draw, random);
  CHECK_THROWS_WITH(draws.run(draw, random),
                    "Random: a run of cuda::Graph draws numbers on the host, which its replays cannot repeat");
  CHECK(random.position() == 1);
  cuda::Graph captures;
  const auto drop = [&](const Tensor<float>& a) { return dropout(a, 0.5, random); };
  captures.run(drop, x);
  CHECK_THROWS_WITH(
      captures.run(drop, x),
      "cuda::Graph: the function draws from a Random that is not an input of the run, so that each replay "
      "would draw the same");
  cuda::Graph gradients;
  for (int n = 0; n < 3; ++n)
    CHECK(gradients.run([&](const Tensor<float>& a) { return grad(sum(w * a), {w})[0]; }, x).host() == x.host());
}

TEST_CASE("cuda graphs: a run that cannot be recorded is a call") {
  std::vector<Tensor<float>> kept;
  cuda::Graph graph;
  for (int n = 0; n < 8; ++n) {
    const auto y = graph.run(
        [&](const Tensor<float>& x) {
          for (int more = 0; more <= n; ++more) kept.push_back(x + 1.f);  // each run needs more memory than the last
          return kept.back() * 2.f;
        },
        full<float>({300}, static_cast<float>(n)));
    CHECK(y.host() == std::vector<float>(300, static_cast<float>(2 * n + 2)));
  }
  CHECK(graph.recorded() == 0);
  CHECK(graph.failure() == "the recorded run needs more memory than the run before it");
  CHECK(kept.front().host() == std::vector<float>(300, 1));
}

TEST_CASE("cuda graphs: many sizes, empty inputs, no inputs and no result") {
  cuda::Graph graph;
  for (int round = 0; round < 3; ++round)
    for (Index size = 0; size < 70; ++size) {
      const auto y = graph.run([](const Tensor<float>& x, const Tensor<int>&) { return x + 1.f; },
                               full<float>({size}, static_cast<float>(round)), Tensor<int>());
      CHECK(y.host() == std::vector<float>(static_cast<std::size_t>(size), static_cast<float>(round + 1)));
    }
  CHECK(graph.recorded() <= 64);
  const Tensor<float> x = on_gpu({1}, {4});
  cuda::Graph without;
  for (int n = 0; n < 3; ++n) CHECK(without.run([&] { return x * 2.f; }).item() == 8);
  CHECK(without.replays() == 2);
}

TEST_CASE("cuda graphs: on the CPU a run is a call") {
  cuda::Graph graph(Device::cpu);
  Random random(1);
  const Tensor<float> x({2}, {1, 2});
  for (int n = 0; n < 3; ++n)
    CHECK(graph.run([](const Tensor<float>& a, Random& r) { return sum(a).item() + float(r.next() > 0); }, x, random) ==
          4);
  CHECK(random.position() == 3);
  CHECK(graph.replays() == 0);
}
