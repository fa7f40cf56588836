// Tensors on several GPUs that travel by NCCL. A stand-in executes its calls.
#include <heddle/distributed/gradients.hpp>
#include <heddle/distributed/machine.hpp>
#include <heddle/heddle.hpp>

#include "nccl_stand_in.hpp"
#include "schedules.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

using distributed::Communicator;

// Calls work(communicator, communicator on hosts) in as many threads as there are processes, each with its own GPU.
// Returns false if there are fewer GPUs.
bool on_gpus(int size, const std::function<void(const Communicator&, const Communicator&)>& work) {
  const SeveralGpus gpus(size);
  if (!gpus) return false;
  on_processes(size, [&](const Communicator& host) {
    cuda::set_device(host.rank());
    const auto open = [] { return &NcclStandIn::functions(); };
    work(Communicator(std::make_shared<distributed::NcclTransport>(host.transport(), open)), host);
  });
  return true;
}

std::vector<float> values_of(int rank, Index count) {
  Random random(7, static_cast<std::uint64_t>(rank));
  std::vector<float> values;
  for (Index i = 0; i < count; ++i)
    values.push_back(static_cast<float>(static_cast<double>(random.next() >> 40) * 0x1p-20 - 8));
  return values;
}

void check_equal(const std::vector<float>& found, const std::vector<float>& expected, const char* what) {
  require(found == expected, what, ": the values differ");
}

}  // namespace

TEST_CASE("nccl: sums and copies of tensors on GPUs have the bits of those on hosts") {
  for (const int size : {2, 3, 4}) {
    const bool ran = on_gpus(size, [&](const Communicator& gpus, const Communicator& hosts) {
      require(gpus.reaches_gpus() && !hosts.reaches_gpus(), "reaches_gpus");
      for (const Index count : {0, 1, 2, 31, 33, 257, 10'000}) {
        const Tensor<float> x({count}, values_of(hosts.rank(), count));
        NcclStandIn::calls();
        const Tensor<float> sum = gpus.all_reduce(x.to(Device::cuda));
        check_equal(sum.host(), hosts.all_reduce(x).host(), "all_reduce");
        require(sum.device() == Device::cuda, "the sum is on the host");
        require(count <= 1 || !NcclStandIn::calls().empty(), "the sum did not travel by NCCL");
        const Tensor<float> fast = gpus.all_reduce(x.to(Device::cuda), distributed::Reduction::fast);
        const std::vector<float> a = fast.host(), b = sum.host();
        for (std::size_t i = 0; i < a.size(); ++i)
          require(std::abs(a[i] - b[i]) <= 1e-4f, "fast: ", a[i], " instead of ", b[i]);
        Tensor<float> copy = x.to(Device::cuda);
        gpus.broadcast(copy, size - 1);
        check_equal(copy.host(), values_of(size - 1, count), "broadcast");
      }
    });
    if (!ran) WARN("skipped: there are fewer than " << size << " GPUs");
  }
}

TEST_CASE("nccl: gradients are added on the GPUs, with the bits of those on hosts") {
  for (const int size : {2, 4}) {
    const bool ran = on_gpus(size, [&](const Communicator& gpus, const Communicator& hosts) {
      std::vector<std::vector<float>> found;
      for (const Communicator* communicator : {&gpus, &hosts}) {
        Random random(1);
        nn::FeedForward<float> model(24, 40, random);
        to(model, Device::cuda);
        distributed::GradientSum sum(model, *communicator, {.mean = false});
        for (int step = 0; step < 2; ++step) {
          const distributed::Parts own = distributed::parts_of(communicator->rank(), size, 8);
          for (Index part = own.first; part < own.last; ++part) {
            const Tensor<float> x = Tensor<float>({5, 24}, values_of(static_cast<int>(part), 120)).to(Device::cuda);
            backward(mean(model(x)));
            sum.add_part();
            if (part % 2 == 1) sum.end_group();
          }
          NcclStandIn::calls();
          sum.finish();
          require(communicator == &hosts || !NcclStandIn::calls().empty(), "the gradients did not travel by NCCL");
          std::vector<float> all;
          each_parameter(model, [&](const Name&, const Parameter<float>& p) {
            require(p.grad().device() == Device::cuda, "a gradient is on the host");
            const auto values = p.grad().host();
            all.insert(all.end(), values.begin(), values.end());
          });
          found.push_back(all);
          zero_grad(model);
        }
      }
      check_equal(found[0], found[2], "step 1");
      check_equal(found[1], found[3], "step 2");
    });
    if (!ran) WARN("skipped: there are fewer than " << size << " GPUs");
  }
}

TEST_CASE("nccl: gradients travel while the backward runs, on another stream, with the bits of those on hosts") {
  // Returns the gradients of some steps.
  const auto train = [](const Communicator& communicator) {
    Random random(1);
    nn::FeedForward<float> model(24, 40, random);
    to(model, Device::cuda);
    distributed::GradientSum sum(model, communicator, {.mean = false, .message_bytes = 1000});
    std::vector<float> found;
    for (int step = 0; step < 3; ++step) {
      const Tensor<float> x = Tensor<float>({5, 24}, values_of(communicator.rank() + step, 120)).to(Device::cuda);
      NcclStandIn::calls();
      sum.add_last_part([&] { backward(mean(model(x))); });
      const auto early = NcclStandIn::calls();
      require((communicator.reaches_gpus() && step > 0) == !early.empty(), "step ", step, " sent ", early.size(),
              " messages during the backward");
      for (const NcclStandIn::Call& call : early)
        require(call.stream != cuda::stream(), "a gradient travels on the stream of the backward");
      sum.finish();
      each_parameter(model, [&](const Name&, const Parameter<float>& p) {
        const auto values = p.grad().host();
        found.insert(found.end(), values.begin(), values.end());
      });
      zero_grad(model);
    }
    return found;
  };
  for (const int size : {2, 4})
    each_schedule([&] {
      const bool ran = on_gpus(size, [&](const Communicator& gpus, const Communicator& hosts) {
        check_equal(train(gpus), train(hosts), "gradients");
      });
      if (!ran) WARN("skipped: there are fewer than " << size << " GPUs");
    });
}

TEST_CASE("nccl: a gradient that travels while the backward runs and is not finite is named with its process") {
  const bool ran = on_gpus(2, [&](const Communicator& gpus, const Communicator&) {
    Random random(1);
    nn::Linear<float> model(4, 3, random);
    to(model, Device::cuda);
    distributed::GradientSum sum(model, gpus, {.mean = false, .message_bytes = 4});
    const auto step = [&](float value) {
      sum.add_last_part([&] { backward(heddle::sum(model(full<float>({2, 4}, value, Device::cuda)))); });
      sum.finish();
    };
    step(1);
    std::string error;
    try {
      step(gpus.rank() == 1 ? std::numeric_limits<float>::infinity() : 1);
    } catch (const Error& failure) {
      error = failure.what();
    }
    require(error.find("the gradient of parameter 'weight' is not finite on process 1") != error.npos, "got: ", error);
    require(!model.weight.grad(), "the gradient was not cleared");
    for (const float value : {1.f, 2.f}) {
      step(value);
      require(model.weight.grad().host()[0] == 4 * value, "a later step has a wrong sum");
      zero_grad(model);
    }
  });
  if (!ran) WARN("skipped: there is only one GPU");
}

TEST_CASE("nccl: a gradient on a GPU that is not finite is named with its process") {
  std::vector<std::string> errors(2);
  const bool ran = on_gpus(2, [&](const Communicator& gpus, const Communicator&) {
    Random random(1);
    nn::Linear<float> model(4, 3, random);
    to(model, Device::cuda);
    const float value = gpus.rank() == 1 ? std::numeric_limits<float>::infinity() : 1;
    backward(sum(model(full<float>({2, 4}, value, Device::cuda))));
    try {
      distributed::all_reduce_gradients(model, gpus);
    } catch (const Error& error) {
      errors[static_cast<std::size_t>(gpus.rank())] = error.what();
    }
  });
  if (!ran) WARN("skipped: there is only one GPU");
  for (const std::string& error : errors)
    if (ran) CHECK_THAT(error, ContainsSubstring("the gradient of parameter 'weight' is not finite on process 1"));
}

TEST_CASE("choose_gpu: each process of a machine has another GPU, as long as there are enough") {
  const SeveralGpus gpus(2);
  if (!gpus) WARN("skipped: there is only one GPU");
  for (const int size : gpus ? std::vector{1, 2, 3} : std::vector<int>{})
    on_processes(size, [&](const Communicator& host) {
      require(distributed::choose_gpu(host) == (size <= 2), "choose_gpu for ", size, " processes");
      require(cuda::current_device() == host.rank() % 2, "process ", host.rank(), " uses GPU ", cuda::current_device());
    });
}

TEST_CASE("nccl: a process that cannot load it is named by all") {
  std::vector<std::string> errors(3);
  on_processes(3, [&](const Communicator& host) {
    const auto open = [&]() -> const distributed::detail::NcclFunctions* {
      if (host.rank() == 1) fail<distributed::CommunicationError>("NCCL cannot be loaded: none");
      return &NcclStandIn::functions();
    };
    try {
      const distributed::NcclTransport transport(host.transport(), open);
    } catch (const distributed::CommunicationError& error) {
      errors[static_cast<std::size_t>(host.rank())] = error.what();
    }
  });
  for (const std::string& error : errors) CHECK(error == "process 1: NCCL cannot be loaded: none");
}
