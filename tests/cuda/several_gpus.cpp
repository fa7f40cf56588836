// Threads and tensors of one process on several GPUs.
#include <cuda_runtime.h>

#include <heddle/autograd/cuda_graph.hpp>
#include <heddle/core/host_copy.hpp>
#include <heddle/heddle.hpp>
#include <thread>

#include "../harness/numbers.hpp"
#include "on_gpu.hpp"
#include "schedules.hpp"
#include "tiny_bert.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

Tensor<float> constant_on_gpu(float value, Index count = 300) {
  return heddle::testing::on_gpu({count}, std::vector<float>(static_cast<std::size_t>(count), value));
}
bool is_constant(const Tensor<float>& x, float value) {
  const auto values = x.host();
  return std::all_of(values.begin(), values.end(), [&](float v) { return v == value; });
}

// Calls f, as the body of a test that needs two GPUs.
template <class F>
void with_two_gpus(F&& f) {
  const SeveralGpus two(2);
  if (two)
    f();
  else
    WARN("skipped: there is only one GPU");
}

models::BertClassifier<> small_classifier() {
  Random random(3);
  models::BertClassifier<> model(tiny_bert(0.1), 2, random);
  to(model, Device::cuda);
  return model;
}

// A text of ten tokens with its label.
struct Text {
  Sequences sequences = Sequences::packed({10});
  Tensor<int> ids{{10}, {1, 4, 29, 4, 4, 7, 0, 12, 3, 2}}, labels{{1}, {1}};

  Text on_gpu() const { return {sequences.to(Device::cuda), ids.to(Device::cuda), labels.to(Device::cuda)}; }
};

// Returns the weights after three steps on the calling thread's GPU, as calls or as runs of a cuda::Graph. A is the
// type of the activations.
template <class A>
std::vector<float> weights_after_training(bool records) {
  models::BertClassifier<> model = small_classifier();
  optim::AdamW adam(model, {.lr = 0.01});
  cuda::Graph graph(records ? Device::cuda : Device::cpu);
  const Text text = Text().on_gpu();
  Random random(7);
  const auto step = [&](const Tensor<int>& ids, const Sequences& sequences, const Tensor<int>& labels,
                        Random& dropout) {
    const auto z = cast<float>(std::as_const(model).template forward<A>(ids, sequences, {.random = &dropout}));
    const Tensor<float> loss = cross_entropy(z, labels);
    backward(loss);
    return detach(loss);
  };
  for (int n = 0; n < 3; ++n) {
    if (records)
      graph.run(step, text.ids, text.sequences, text.labels, random);
    else
      step(text.ids, text.sequences, text.labels, random);
    adam.step({.max_norm = 1});
  }
  CHECK(graph.failure() == "");
  CHECK(graph.replays() == (records ? 2 : 0));
  std::vector<float> all;
  each_parameter(model, [&](const Name&, const auto& weight) {
    const auto values = weight.value().host();
    all.insert(all.end(), values.begin(), values.end());
  });
  return all;
}

}  // namespace

TEST_CASE("cuda several GPUs: Device::cuda is the calling thread's GPU") {
  with_two_gpus([] {
    CHECK(cuda::device_count() >= 2);
    CHECK(cuda::current_device() == 0);
    const Tensor<float> first = on_gpu({3}, {1, 2, 3});
    cuda::set_device(1);
    CHECK(cuda::current_device() == 1);
    const std::size_t before = cuda::memory_stats().in_use;
    const Tensor<float> second = on_gpu({3}, {4, 5, 6});
    CHECK(cuda::memory_stats().in_use > before);
    CHECK(first.gpu() == 0);
    CHECK(second.gpu() == 1);
    CHECK(Tensor<float>({1}).gpu() == -1);
    CHECK(Tensor<float>().gpu() == -1);
    CHECK(second.is_on(Device::cuda));
    CHECK_FALSE(first.is_on(Device::cuda));
    CHECK_FALSE(first.is_on(Device::cpu));
    CHECK((second + second).host() == std::vector<float>{8, 10, 12});
    std::thread([] { CHECK(cuda::current_device() == 0); }).join();
    for (const int none : {-1, cuda::device_count()})
      CHECK_THROWS_WITH(cuda::set_device(none), "cuda::set_device: there is no GPU " + std::to_string(none) +
                                                    "; the number of GPUs is " + std::to_string(cuda::device_count()));
    CHECK(cuda::current_device() == 1);
  });
}

TEST_CASE("cuda several GPUs: a tensor on another GPU is refused") {
  with_two_gpus([] {
    const Tensor<float> weight = variable(on_gpu({2}, {1, 2}));
    Tensor<float> first = on_gpu({2}, {3, 4});
    const Tensor<float> loss = sum(weight * first);
    cuda::set_device(1);
    const Tensor<float> second = on_gpu({2}, {5, 6});
    const std::string why =
        "a tensor of shape [2] is on GPU 0, but the calling thread's GPU is 1; call cuda::set_device(0), or copy the "
        "tensor with to(Device::cuda)";
    CHECK_THROWS_WITH(first + second, why);
    CHECK_THROWS_WITH(second + first, why);
    CHECK_THROWS_WITH(sum(first), why);
    CHECK_THROWS_WITH(first.device_data(), why);
    CHECK_THROWS_WITH(HostCopy(first), why);
    CHECK_THROWS_WITH(backward(loss), ContainsSubstring("is on GPU 0, but the calling thread's GPU is 1"));
    CHECK_THROWS_WITH(weight.set_grad(second), "set_grad: x [2] is on GPU 0, the gradient on GPU 1");
    CHECK(first.host() == std::vector<float>{3, 4});
    CHECK(cuda::current_device() == 1);
    CHECK(sum(second).item() == 11);
    cuda::set_device(0);
    CHECK(sum(first).item() == 7);
  });
}

TEST_CASE("cuda several GPUs: to() copies between GPUs, after earlier work and before later work") {
  with_two_gpus([] {
    each_schedule([] {
      cuda::set_device(0);
      const Tensor<float> x = constant_on_gpu(1);
      Tensor<float> y = x + x;
      cuda::set_device(1);
      const Tensor<float> z = y.to(Device::cuda), twice = z + z;
      CHECK(z.gpu() == 1);
      CHECK(z.to(Device::cuda).device_data() == z.device_data());
      y = {};
      cuda::set_device(0);
      const Tensor<float> next = constant_on_gpu(7);  // may have the memory of y
      cuda::set_device(1);
      CHECK(is_constant(twice, 4));
    });
  });
}

TEST_CASE("cuda several GPUs: memory that a thread releases from another GPU is reused after its work") {
  with_two_gpus([] {
    each_schedule([] {
      cuda::set_device(0);
      cudaStream_t own = nullptr;
      REQUIRE(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking) == cudaSuccess);
      Tensor<float> x = constant_on_gpu(1);
      cuda::synchronize();
      cuda::set_stream(own);
      {
        const Tensor<float> twice = x + x;
        const float* const block = std::as_const(x).device_data();
        cuda::set_device(1);
        const std::size_t here = cuda::memory_stats().in_use;
        x = {};
        CHECK(cuda::memory_stats().in_use == here);
        const Tensor<float> other = constant_on_gpu(3);
        CHECK(other.device_data() != block);
        cuda::set_device(0);
        cuda::set_stream(nullptr);
        const Tensor<float> next = constant_on_gpu(5);  // on the stream that x belonged to
        if (detail::memory_is_cached) CHECK(next.device_data() == block);
        cuda::synchronize();
        cuda::set_stream(own);
        CHECK(is_constant(twice, 2));
        cuda::set_device(1);
        CHECK(is_constant(other, 3));
      }
      cuda::set_device(0);
      cuda::set_stream(nullptr);
      cuda::trim();
      CHECK(cudaStreamDestroy(own) == cudaSuccess);
    });
  });
}

TEST_CASE("cuda several GPUs: a thread has a stream on each GPU") {
  with_two_gpus([] {
    void* const shared_of_first = cuda::stream();
    cuda::set_device(1);
    void* const shared_of_second = cuda::stream();
    CHECK(shared_of_second != shared_of_first);
    cudaStream_t own = nullptr;
    REQUIRE(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking) == cudaSuccess);
    cuda::set_stream(own);
    cuda::set_device(0);
    CHECK(cuda::stream() == shared_of_first);
    cuda::set_device(1);
    CHECK(cuda::stream() == static_cast<void*>(own));
    {
      const Tensor<float> x = constant_on_gpu(1), y = x + x;
      CHECK(is_constant(y, 2));
    }
    cuda::set_stream(nullptr);
    CHECK(cuda::stream() == shared_of_second);
    cuda::trim();
    CHECK(cudaStreamDestroy(own) == cudaSuccess);
  });
}

TEMPLATE_TEST_CASE("cuda several GPUs: training has the same bits on each, at the same time", "", float, bf16) {
  with_two_gpus([] {
    const auto on_first = weights_after_training<TestType>(false);
    cuda::set_device(1);
    CHECK(weights_after_training<TestType>(false) == on_first);
    CHECK(weights_after_training<TestType>(true) == on_first);
    std::vector<float> of_thread[2];
    std::vector<std::thread> threads;
    for (const int gpu : {0, 1})
      threads.emplace_back([gpu, &of_thread] {
        cuda::set_device(gpu);
        of_thread[gpu] = weights_after_training<TestType>(false);
      });
    for (std::thread& thread : threads) thread.join();
    for (const auto& weights : of_thread) CHECK(weights == on_first);
  });
}

TEST_CASE("cuda several GPUs: kernels have as much shared memory on each") {
  with_two_gpus([] {
    const auto attend = [] {
      const Sequences sequences = Sequences::packed({130}).to(Device::cuda);
      Random random(1);
      const auto rows = [&random] { return cast<bf16>(randn<float>({130, 128}, random).to(Device::cuda)); };
      const Tensor<bf16> q = rows(), k = rows(), v = rows();
      return cast<float>(attention(q, k, v, sequences)).host();
    };
    const auto on_first = attend();
    cuda::set_device(1);
    CHECK(attend() == on_first);
  });
}

TEST_CASE("cuda several GPUs: a model moves from one to another") {
  with_two_gpus([] {
    models::BertClassifier<> model = small_classifier();
    const auto logits = [&model]<class A>() {
      const Text text = Text().on_gpu();
      return cast<float>(std::as_const(model).forward<A>(text.ids, text.sequences));
    };
    const auto in_bf16 = [&logits] { return logits.operator()<bf16>().host(); };
    const auto before = in_bf16();
    backward(sum(logits.operator()<float>()));
    cuda::set_device(1);
    CHECK_THROWS_AS(in_bf16(), Error);
    to(model, Device::cuda);
    each_parameter(model, [](const Name&, const auto& weight) {
      CHECK(weight.value().gpu() == 1);
      if (const auto gradient = weight.value().grad()) CHECK(gradient.gpu() == 1);
    });
    CHECK(in_bf16() == before);
  });
}

TEST_CASE("cuda several GPUs: a gradient that is not finite stops the updates on its GPU only") {
  with_two_gpus([] {
    const auto step = [](float gradient) {
      nn::LayerNorm<> norm(1);
      to(norm, Device::cuda);
      optim::Sgd sgd(norm, {.lr = 1});
      backward(sum(norm.gamma.value() * on_gpu({1}, {gradient})) + sum(norm.beta->value()));
      sgd.step();
      return norm.gamma.value().host()[0];
    };
    cuda::set_device(1);
    CHECK_THROWS_WITH(step(NAN), ContainsSubstring("not finite"));
    cuda::set_device(0);
    CHECK(step(2) == -1);
    cuda::set_device(1);
    CHECK(step(2) == -1);
  });
}

TEST_CASE("cuda several GPUs: a Graph stays on the GPU of its first run") {
  with_two_gpus([] {
    cuda::set_device(1);
    const Tensor<float> x = constant_on_gpu(1);
    const auto twice = [](const Tensor<float>& y) { return y + y; };
    Tensor<float> there;
    {
      cuda::Graph graph;
      for (int n = 0; n < 3; ++n) there = graph.run(twice, x);
      CHECK(is_constant(there, 2));
      there = {};
      cuda::set_device(0);
      CHECK_THROWS_WITH(graph.run(twice, constant_on_gpu(1)), ContainsSubstring("the stream of its first run"));
    }
    CHECK(cuda::current_device() == 0);
    CHECK(is_constant(constant_on_gpu(3), 3));
    cuda::set_device(1);
    CHECK(is_constant(x + x, 2));
  });
}

TEST_CASE("cuda several GPUs: a model may move to another while a Graph has delivered its gradients") {
  with_two_gpus([] {
    const auto forward_and_backward = [](const nn::LayerNorm<>& norm) {
      return [&norm](const Tensor<float>& x) {
        const Tensor<float> loss = sum(norm(x));
        backward(loss);
        return detach(loss);
      };
    };
    nn::LayerNorm<> norm(4);
    to(norm, Device::cuda);
    const Tensor<float> x = on_gpu({2, 4}, {1, 2, 3, 4, 5, 6, 7, 9});
    const auto step = forward_and_backward(norm);
    std::vector<float> gradient;
    {
      cuda::Graph graph;
      for (int n = 0; n < 3; ++n) graph.run(step, x);
      gradient = norm.gamma.value().grad().host();
      cuda::set_device(1);
      to(norm, Device::cuda);
    }
    CHECK(norm.gamma.value().grad().host() == gradient);
    CHECK(norm.gamma.value().grad().gpu() == 1);

    cuda::set_device(0);
    to(norm, Device::cuda);
    zero_grad(norm);
    cuda::Graph graph;
    for (int n = 0; n < 3; ++n) graph.run(step, x);
    const float loss = graph.run(step, x).item();
    cuda::set_device(1);
    to(norm, Device::cuda);
    cuda::set_device(0);
    for (int n = 0; n < 2; ++n) CHECK_THROWS_WITH(graph.run(step, x), ContainsSubstring("is on GPU 1"));
    to(norm, Device::cuda);
    CHECK(graph.run(step, x).item() == loss);
  });
}

TEST_CASE("cuda several GPUs: an invalid id is reported by its GPU") {
  with_two_gpus([] {
    const auto look_up = [] {
      const Tensor<float> table = on_gpu({2, 1}, {1, 2});
      return embed(Tensor<int>({1}, {0}).to(Device::cuda), table);
    };
    cuda::set_device(1);
    const Tensor<float> table = on_gpu({2, 1}, {1, 2});
    embed(Tensor<int>({1}, {5}).to(Device::cuda), table);
    cuda::set_device(0);
    CHECK(look_up().host() == std::vector<float>{1});
    cuda::set_device(1);
    CHECK_THROWS_WITH(cuda::synchronize(), ContainsSubstring("id 5"));
    CHECK(look_up().host() == std::vector<float>{1});
  });
}

TEST_CASE("cuda several GPUs: a copy to the host can be read from any") {
  with_two_gpus([] {
    cuda::set_device(1);
    const HostCopy copy(on_gpu({2}, {1, 2}));
    cuda::set_device(0);
    const HostCopy other(on_gpu({2}, {3, 4}));
    CHECK(copy.get().host() == std::vector<float>{1, 2});
    cuda::set_device(1);
    CHECK(other.get().host() == std::vector<float>{3, 4});
  });
}

TEST_CASE("cuda several GPUs: wrapped memory belongs to the GPU that holds it") {
  std::vector<float> host(2);
  CHECK_THROWS_WITH(Tensor<float>::wrap(host.data(), {2}, Device::cuda),
                    "memory of the host was given as memory of a GPU; copy it there with to(Device::cuda)");
  with_two_gpus([] {
    Tensor<float> x = on_gpu({3}, {1, 2, 3});
    float* const second = x.device_data() + 1;
    cuda::set_device(1);
    const auto part = Tensor<float>::wrap(second, {2}, Device::cuda);
    CHECK(part.gpu() == 0);
    CHECK_THROWS_WITH(sum(part), ContainsSubstring("is on GPU 0"));
    CHECK(sum(part.to(Device::cuda)).item() == 5);
  });
}
