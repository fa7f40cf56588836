// Tensors on the GPU: their device, copies to and from it, and errors.
#include <heddle/heddle.hpp>
#include <thread>

#include "../catch.hpp"
#include "../harness/two_layers.hpp"
#include "device_array.hpp"
#include "on_gpu.hpp"
#include "same_always.hpp"

using namespace heddle;
using heddle::testing::ContainsSubstring;
using heddle::testing::on_gpu;

TEST_CASE("cuda tensor: values are copied to the GPU and back") {
  Tensor<float> x({2, 2}, {1, 2, 3, 4});
  const Tensor<float> copy = x.to(Device::cuda);
  x.data()[0] = 9;
  CHECK(copy.device() == Device::cuda);
  CHECK(copy.shape() == x.shape());
  CHECK(copy.host() == std::vector<float>{1, 2, 3, 4});
  CHECK(copy.to(Device::cuda).device_data() == copy.device_data());
  CHECK(copy.to(Device::cpu).data()[3] == 4);
  CHECK(copy.leading(1, 2).host() == std::vector<float>{3, 4});
  CHECK(detail::deep_copy(copy).host() == copy.host());
  CHECK(on_gpu({}, {5}).item() == 5);
  CHECK(on_gpu({0, 3}, {}).host().empty());
  CHECK(Tensor<bool>({2}, {true, false}).to(Device::cuda).host() == std::vector<bool>{true, false});
}

TEST_CASE("cuda tensor: reading a GPU tensor on the host and mixing devices are errors") {
  Tensor<float> x({2}, {1, 2});
  Tensor<float> copy = x.to(Device::cuda);
  CHECK_THROWS_WITH(copy.data(), ContainsSubstring("a tensor of shape [2] is on cuda; use host() or to(Device::cpu)"));
  CHECK_THROWS_WITH(x + copy, "add: a [2] is on cpu, b [2] is on cuda; move one of them with .to(Device)");
  CHECK_THROWS_WITH(concat({x, copy}),
                    "concat: x[0] [2] is on cpu, x[1] [2] is on cuda; move one of them with .to(Device)");
  CHECK_THROWS_WITH(embed(Tensor<int>({1}, {1}).to(Device::cuda), Tensor<float>({5, 1})),
                    "embed: ids [1] is on cuda, table [5, 1] is on cpu; move one of them with .to(Device)");
  CHECK_THROWS_WITH((Tensor<double>({2}, Device::cuda)), ContainsSubstring("double is for the CPU"));
  CHECK_THROWS_WITH(Tensor<int>({2}, {1, 2}).to(Device::cuda) + 1, ContainsSubstring("has a CPU kernel only"));
}

TEST_CASE("cuda tensor: the caller's memory on the GPU is wrapped, not freed") {
  const testing::DeviceArray<float> mine(std::vector<float>{1, 2, 3});
  cudaDeviceSynchronize();
  {
    const auto x = Tensor<float>::wrap(mine.data(), {3}, Device::cuda);
    CHECK((x * 2).host() == std::vector<float>{2, 4, 6});
  }
  CHECK(mine.host() == std::vector<float>{1, 2, 3});
}

TEST_CASE("cuda tensor: an id out of range is an error at the next synchronization, and the next operation works") {
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

TEST_CASE("cuda tensor: a gradient on another device is refused") {
  const auto x = variable(full<float>({3}, 1).to(Device::cuda));
  const auto here = full<float>({3}, 1);
  CHECK_THROWS_WITH(x.set_grad(here),
                    "set_grad: x [3] is on cuda, gradient [3] is on cpu; move one of them with .to(Device)");
  CHECK_THROWS_WITH(backward(x * x, here),
                    "backward: y [3] is on cuda, dy [3] is on cpu; move one of them with .to(Device)");
}

TEST_CASE("cuda tensor: a thread may use another thread's results without synchronizing") {
  const auto x = full<float>({1000}, 1).to(Device::cuda);
  Tensor<float> y, z;
  std::thread([&] { y = x + x; }).join();
  std::thread([&] { z = y + y; }).join();
  CHECK(z.host() == std::vector<float>(1000, 4));
}

TEST_CASE("cuda tensor: steps of training give the same values with any schedule") {
  testing::expect_same_always([] {
    Random random(3);
    testing::TwoLayers model(random);
    to(model, Device::cuda);
    optim::AdamW optimizer(model, {.lr = 0.01});
    const auto x = randn<float>({5, 8}, random).to(Device::cuda);
    const auto labels = Tensor<int>({5}, {0, 1, 0, 1, 1}).to(Device::cuda);
    for (int step = 0; step < 2; ++step) {
      backward(cross_entropy(model(x), labels));
      optim::clip_grad_norm(model, 0.5);
      optimizer.step();
    }
    return testing::joined(model.a.weight.value().host(), model.b.weight.value().host());
  });
}
