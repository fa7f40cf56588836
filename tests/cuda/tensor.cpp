// Tensors on the GPU: where they are, how they come and go, and what is an error.
#include <heddle/heddle.hpp>
#include <thread>

#include "../harness/numbers.hpp"
#include "device_array.hpp"

using namespace heddle;
using heddle::testing::ContainsSubstring;

namespace {
Tensor<float> on_gpu(Shape shape, const std::vector<float>& values) {
  return Tensor<float>(shape, values).to(Device::cuda);
}

struct Net {
  nn::Linear<float> a, b;
  static void visit(auto& self, auto&& f) {
    f("a", self.a);
    f("b", self.b);
  }
  Net(Random& random) : a(8, 16, random), b(16, 2, random) {}
  Tensor<float> operator()(const Tensor<float>& x) const { return b(tanh(a(x))); }
};
}  // namespace

TEST_CASE("cuda tensor: values go there and back, and are copies") {
  Tensor<float> x({2, 2}, {1, 2, 3, 4});
  const Tensor<float> there = x.to(Device::cuda);
  x.data()[0] = 9;
  CHECK(there.device() == Device::cuda);
  CHECK(there.shape() == x.shape());
  CHECK(there.host() == std::vector<float>{1, 2, 3, 4});
  CHECK(there.to(Device::cuda).device_data() == there.device_data());
  CHECK(there.to(Device::cpu).data()[3] == 4);
  CHECK(there.leading(1, 2).host() == std::vector<float>{3, 4});
  CHECK(detail::deep_copy(there).host() == there.host());
  CHECK(on_gpu({}, {5}).item() == 5);
  CHECK(on_gpu({0, 3}, {}).host().empty());
  CHECK(Tensor<bool>({2}, {true, false}).to(Device::cuda).host() == std::vector<bool>{true, false});
}

TEST_CASE("cuda tensor: made on the GPU") {
  CHECK(full<float>({3}, 2.5, Device::cuda).host() == std::vector<float>{2.5, 2.5, 2.5});
  CHECK(zeros<std::int64_t>({2}, Device::cuda).host() == std::vector<std::int64_t>{0, 0});
  CHECK(ones<bool>({5}, Device::cuda).host() == std::vector<bool>(5, true));
  CHECK(arange<int>(3, Device::cuda).host() == std::vector<int>{0, 1, 2});
}

TEST_CASE("cuda tensor: the host does not read it, and operands do not mix") {
  Tensor<float> x({2}, {1, 2});
  Tensor<float> there = x.to(Device::cuda);
  CHECK_THROWS_WITH(there.data(), ContainsSubstring("a tensor of shape [2] is on cuda; use host() or to(Device::cpu)"));
  CHECK_THROWS_WITH(x + there, "add: a [2] is on cpu, b [2] is on cuda; move one of them with .to(Device)");
  CHECK_THROWS_WITH((Tensor<double>({2}, Device::cuda)), ContainsSubstring("double is for the CPU"));
  CHECK_THROWS_WITH(Tensor<int>({2}, {1, 2}).to(Device::cuda) + 1, ContainsSubstring("has a CPU kernel only"));
}

TEST_CASE("cuda tensor: memory of the user's on the GPU is wrapped, not freed") {
  const testing::DeviceArray<float> mine(std::vector<float>{1, 2, 3});
  cudaDeviceSynchronize();
  {
    const auto x = Tensor<float>::wrap(mine.data(), {3}, Device::cuda);
    CHECK((x * 2).host() == std::vector<float>{2, 4, 6});
  }
  CHECK(mine.host() == std::vector<float>{1, 2, 3});
}

TEST_CASE("cuda tensor: gradients accumulate there, and a written tensor is noticed") {
  const auto x = variable(on_gpu({3}, {1, 2, 3}));
  backward(sum(x * x));
  backward(sum(x * 3));
  CHECK(x.grad().device() == Device::cuda);
  CHECK(x.grad().host() == std::vector<float>{5, 7, 9});
  CHECK(grad(sum(x * x), {x})[0].host() == std::vector<float>{2, 4, 6});

  Tensor<float> y = on_gpu({1}, {2});
  const auto z = variable(y) * y;
  y.device_data();
  CHECK_THROWS_WITH(backward(z), ContainsSubstring("written in place since"));
}

TEST_CASE("cuda tensor: an id that is no row is an error at the next wait, and the next operation works") {
  const auto table = on_gpu({5, 1}, {0, 1, 2, 3, 4});
  const auto ids = Tensor<int>({4}, {1, 5, 0, -7}).to(Device::cuda);
  const auto rows = embed(ids, table);
  CHECK_THROWS_AS(rows.host(), IndexError);
  CHECK(rows.host() == std::vector<float>{1, 0, 0, 0});
  embed(ids, table);
  CHECK_THROWS_WITH(cuda::synchronize(), "embed: id 5 at position 1 is outside the table's 5 rows");
  const auto logits = on_gpu({2, 2}, {0, 0, 0, 0});
  const auto loss = cross_entropy(logits, Tensor<int>({2}, {-100, 2}).to(Device::cuda));
  CHECK_THROWS_WITH(loss.item(), "cross_entropy: label 2 at position 1 is none of the 2 classes");
  CHECK(cross_entropy(logits, Tensor<int>({2}, {-100, 1}).to(Device::cuda)).item() == Approx(std::log(2.0)));
}

TEST_CASE("cuda tensor: ids of the host are checked at once") {
  const auto table = on_gpu({5, 1}, {0, 1, 2, 3, 4}), logits = on_gpu({2, 2}, {0, 0, 0, 0});
  CHECK(embed(Tensor<int>({2}, {1, 4}), table).host() == std::vector<float>{1, 4});
  CHECK(take_rows(table, Tensor<int>({2}, {1, 4})).host() == std::vector<float>{1, 4});
  CHECK(cross_entropy(logits, Tensor<int>({2}, {0, 1})).item() == Approx(std::log(2.0)));
  CHECK_THROWS_WITH(embed(Tensor<int>({1}, {5}), table), "embed: id 5 at position 0 is outside the table's 5 rows");
  CHECK_THROWS_WITH(take_rows(table, Tensor<int>({1}, {-1})),
                    "take_rows: row -1 at position 0 is outside the 5 rows of x");
  CHECK_THROWS_WITH(cross_entropy(logits, Tensor<int>({2}, {0, 2})),
                    "cross_entropy: label 2 at position 1 is none of the 2 classes");
  CHECK_THROWS_WITH(embed(Tensor<int>({1}, {1}).to(Device::cuda), table.to(Device::cpu)),
                    "embed: ids [1] is on cuda, table [5, 1] is on cpu; move one of them with .to(Device)");
}

TEST_CASE("cuda tensor: a model moves there, trains as on the CPU, and comes back") {
  const auto train = [](auto optimizer, Device device) {
    Random random(3);
    Net net(random);
    auto optim = optimizer(net);  // made before the move
    to(net, device);
    const auto x = randn<float>({12, 8}, random).to(device);
    const auto labels = Tensor<int>({12}, {0, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0, 1}).to(device);
    std::vector<double> losses;
    for (int step = 0; step < 6; ++step) {
      const auto loss = cross_entropy(net(x), labels);
      losses.push_back(loss.item());
      backward(loss);
      optim::clip_grad_norm(net, 0.5);
      optim.step();
    }
    to(net, Device::cpu);
    losses.push_back(net.a.weight.value().data()[5]);
    return losses;
  };
  const auto compare = [&](auto optimizer) {
    const auto cpu = train(optimizer, Device::cpu), gpu = train(optimizer, Device::cuda);
    for (std::size_t i = 0; i < cpu.size(); ++i) CHECK(gpu[i] == Approx(cpu[i]).epsilon(1e-5));
  };
  compare([](auto& net) { return optim::Adam(net, {.lr = 0.01}); });
  compare([](auto& net) { return optim::AdamW(net, {.lr = 0.01, .weight_decay = 0.1}); });
  compare([](auto& net) { return optim::Sgd(net, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01}); });
}

TEST_CASE("cuda tensor: a gradient that is not finite updates nothing") {
  Random random(1);
  nn::Linear<float> net(2, 2, random);
  to(net, Device::cuda);
  optim::Adam adam(net);
  const auto before = net.weight.value().host();
  backward(sum(net(on_gpu({1, 2}, {1e38f, 1})) * 1e38f));
  CHECK_THROWS_WITH(adam.step(), ContainsSubstring("is not finite; nothing was updated"));
  CHECK(net.weight.value().host() == before);
}

TEST_CASE("cuda tensor: a weight's cast follows the weight to another device") {
  const Parameter<float> weight(full<float>({3}, 1));
  CHECK(weight.as<bf16>().device() == Device::cpu);
  weight.identity()->move(Device::cuda);
  CHECK(weight.as<bf16>().device() == Device::cuda);
  weight.identity()->assign(full<float>({3}, 2));
  weight.identity()->move(Device::cpu);
  CHECK(testing::joined(weight.as<bf16>().host()) == std::vector<double>{2, 2, 2});
}

TEST_CASE("cuda tensor: a gradient on another device is refused") {
  const auto x = variable(full<float>({3}, 1).to(Device::cuda));
  const auto here = full<float>({3}, 1);
  CHECK_THROWS_WITH(x.set_grad(here),
                    "set_grad: x [3] is on cuda, gradient [3] is on cpu; move one of them with .to(Device)");
  CHECK_THROWS_WITH(backward(x * x, here),
                    "backward: y [3] is on cuda, dy [3] is on cpu; move one of them with .to(Device)");
}

TEST_CASE("cuda tensor: what one thread makes another may use without waiting") {
  const auto x = full<float>({1000}, 1).to(Device::cuda);
  Tensor<float> y, z;
  std::thread([&] { y = x + x; }).join();
  std::thread([&] { z = y + y; }).join();
  CHECK(z.host() == std::vector<float>(1000, 4));
}
