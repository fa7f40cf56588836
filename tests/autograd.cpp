#include <heddle/autograd/backward.hpp>
#include <heddle/ops/arithmetic.hpp>
#include <heddle/ops/cast.hpp>
#include <heddle/ops/concat.hpp>
#include <thread>

#include "catch.hpp"
#include "harness/devices.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

Tensor<float> scalar(float value) { return Tensor<float>(Shape{}, {value}); }
Tensor<float> leaf(float value) { return variable(scalar(value)); }

// Returns x^3. A user's own operation, on the CPU only.
Tensor<float> cube(const Tensor<float>& x) {
  Tensor<float> y = empty_like(x);
  on_cpu(x, "cube", [&](Cpu) { eigen(y) = eigen(x).array().cube(); });
  return record("cube", y, inputs(x), [=](const Tensor<float>& dy) {
    Tensor<float> dx = empty_like(x);
    eigen(dx) = 3 * eigen(x).array().square() * eigen(dy).array();
    return dx;
  });
}

// Returns a copy of x whose backward is given by the caller.
template <class Backward>
Tensor<float> identity(const char* op, const Tensor<float>& x, Backward backward) {
  return record(op, Tensor<float>(x.shape(), x.host()), inputs(x), backward);
}

std::size_t in_use() { return HostPool::instance().stats().in_use; }

}  // namespace

TEST_CASE("autograd: the gradients of all uses add up") {
  const auto x = leaf(3);
  const auto y = x * x;         // 9, used twice below
  backward(y * x + y + 2 * x);  // 3x^2 + 2x + 2
  CHECK(x.grad().item() == 35);
}

TEST_CASE("autograd: backward accumulates, over losses and over calls") {
  const auto x = leaf(2), y = leaf(5);
  backward(x * y);
  backward(x * x);
  CHECK(x.grad().item() == 5 + 4);
  CHECK(y.grad().item() == 2);
  x.set_grad({});
  CHECK_FALSE(x.grad());
  backward(x * 10);
  CHECK(x.grad().item() == 10);
}

TEST_CASE("autograd: on each device gradients accumulate, and a write to a saved tensor is an error") {
  on_each_device<float>([](Device device) {
    const auto x = variable(Tensor<float>({3}, {1, 2, 3}).to(device));
    backward(sum(x * x));
    backward(sum(x * 3));
    CHECK(x.grad().device() == device);
    CHECK(x.grad().host() == std::vector<float>{5, 7, 9});
    CHECK(grad(sum(x * x), {x})[0].host() == std::vector<float>{2, 4, 6});

    auto y = full<float>({1}, 2, device);
    const auto z = variable(y) * y;
    y.device_data();
    CHECK_THROWS_WITH(backward(z), ContainsSubstring("written in place since"));
  });
}

TEST_CASE("autograd: a backward may start anywhere, with any gradient") {
  const auto x = variable(Tensor<float>({3}, {1, 2, 3}));
  backward(x * x, Tensor<float>({3}, {1, 10, 100}));
  CHECK(x.grad().host() == std::vector<float>{2, 40, 600});
  backward(x, Tensor<float>({3}, {1, 1, 1}));
  CHECK(x.grad().host() == std::vector<float>{3, 41, 601});

  CHECK_THROWS_WITH(
      backward(x * x),
      "backward: a loss has one element; this one has shape [3]; call backward(y, dy) with its gradient as dy");
  CHECK_THROWS_WITH(backward(x * x, Tensor<float>({1, 3})),
                    "backward of 'mul': a gradient has shape [1, 3], but its tensor has shape [3]");
  CHECK_THROWS_AS(backward(x * x, Tensor<float>({1, 3})), ShapeError);
  CHECK_THROWS_WITH(backward(detach(x), x),
                    "backward: the tensor of shape [3] does not depend on any variable or parameter");
  CHECK_THROWS_WITH(detach(x).grad(), "grad: a tensor of shape [3] requires no gradient; make it with variable()");
  CHECK_FALSE((x * x).grad());
}

TEST_CASE("autograd: under NoGrad nothing is recorded, on this thread") {
  const auto x = leaf(2);
  {
    const NoGrad quiet;
    CHECK_FALSE((x * x).requires_grad());
    { const NoGrad nested; }
    CHECK_FALSE((x * x).requires_grad());
    bool elsewhere = false;
    std::thread([&] { elsewhere = (x * x).requires_grad(); }).join();
    CHECK(elsewhere);
  }
  CHECK((x * x).requires_grad());
}

TEST_CASE("autograd: detach cuts the graph and shares the values") {
  const auto x = leaf(2);
  const auto y = x * x, constant = detach(y);
  CHECK_FALSE(constant.requires_grad());
  CHECK(constant.data() == y.data());
  backward(constant * x);
  CHECK(x.grad().item() == 4);
}

TEST_CASE("grad: works for leaves and intermediate results, and does not change accumulated gradients") {
  const auto x = leaf(3), w = leaf(2), other = leaf(7);
  backward(x * 100);
  const auto y = x * w;
  const auto gradients = grad(y * y + x, {x, y, w, other});  // y = 6
  CHECK(gradients[0].item() == 2 * 6 * 2 + 1);
  CHECK(gradients[1].item() == 12);
  CHECK(gradients[2].item() == 2 * 6 * 3);
  CHECK(gradients[3].item() == 0);
  CHECK(x.grad().item() == 100);
  CHECK_FALSE(w.grad());

  for (const auto& dx : grad(x * x, {x, x})) CHECK(dx.item() == 6);
  const auto loss = x * 2;
  CHECK(grad(loss, {loss})[0].item() == 1);
  CHECK(grad(x * x * x, {x})[0].item() == 27);
  CHECK_THROWS_WITH(grad(x * x, {scalar(1)}),
                    "grad: an input of shape [] requires no gradient; make it with variable()");
  CHECK_THROWS_WITH(grad(scalar(1), {x}), "grad: the loss does not depend on any variable or parameter");
  CHECK_THROWS_AS(grad(variable(Tensor<float>({2})), {x}), ShapeError);
}

TEST_CASE("autograd: nodes of different element types connect") {
  const auto weight = variable(Tensor<double>({2}, {1, 3}));
  const auto narrow = cast<bf16>(weight);
  const auto y = cast<float>(narrow * narrow) * 0.5f + cast<float>(weight);
  backward(sum(cast<double>(y)));
  CHECK(weight.grad().host() == std::vector<double>{2, 4});
}

TEST_CASE("autograd: a graph may be built on several threads, and each may differentiate its own") {
  const auto x = leaf(1);
  std::vector<Tensor<float>> parts(8);
  std::vector<float> own(8);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < parts.size(); ++t)
    threads.emplace_back([&, t] {
      auto y = x;
      const auto mine = leaf(static_cast<float>(t));
      for (int i = 0; i < 200; ++i) y = y + x * static_cast<float>(t);
      parts[t] = y;
      for (int i = 0; i < 20; ++i) backward(mine * mine);
      own[t] = mine.grad().item();
    });
  for (auto& thread : threads) thread.join();
  auto loss = scalar(0);
  for (std::size_t t = 0; t < parts.size(); ++t) {
    loss = loss + parts[t];
    CHECK(own[t] == 20 * 2 * static_cast<float>(t));
  }
  backward(loss);
  CHECK(x.grad().item() == 8 + 200 * 28);
}

TEST_CASE("autograd: a million chained operations are differentiated and released without recursion") {
  // A recursion would need at least 100 bytes of stack for each operation; the stack has 8 MiB.
  const int operations = is_exhaustive() ? 1'000'000 : 200'000;
  const std::size_t before = in_use();
  for (const bool differentiate : {true, false}) {
    const auto x = leaf(1);
    auto y = x;
    for (int i = 0; i < operations; ++i) y = y + 1;
    if (differentiate) backward(y);
    if (differentiate) CHECK(x.grad().item() == 1);
    y = {};
  }
  CHECK(in_use() == before);
}

TEST_CASE("autograd: the graph is freed with the loss") {
  const std::size_t before = in_use();
  const auto x = variable(ones<float>({1000}));
  const std::size_t leaves = in_use();
  {
    const auto loss = sum(x * x * x);
    CHECK(in_use() > leaves + 4000);
  }
  CHECK(in_use() == leaves);
  CHECK(leaves > before);
}

TEST_CASE("autograd: backward releases activations, also while the loss lives") {
  const auto x = variable(ones<float>({100'000}));
  const auto loss = sum(x * x * x);
  backward(loss);
  x.set_grad({});
  const std::size_t after = in_use();
  CHECK(after < 2 * 400'000 + 100'000);  // x alone; with x * x, two blocks of 458'752 bytes would be in use
}

TEST_CASE("autograd: a second backward through a freed graph is an error") {
  const auto x = leaf(3);
  const auto y = x * x, loss = y * 2;
  backward(loss);
  CHECK_THROWS_WITH(backward(loss),
                    "backward: the graph through 'mul' was already used and freed by an earlier backward; compute the "
                    "loss again to differentiate it again");
  CHECK_THROWS_AS(backward(y + 1), Error);
  CHECK(x.grad().item() == 12);
}

TEST_CASE("autograd: a backward after a saved tensor was overwritten is an error") {
  auto a = leaf(3), b = leaf(4);
  const auto product = a * b, total = a + b;
  b.data()[0] = 5;
  CHECK_THROWS_WITH(
      backward(product),
      "backward: a tensor of shape [] that the forward saved has been written in place since (or handed out "
      "for writing by a non-const data())");
  backward(total);  // a sum saves nothing
  CHECK(a.grad().item() == 1);
  CHECK(b.grad().item() == 1);
  backward(a * b);  // recorded after the write
  CHECK(a.grad().item() == 1 + 5);

  Tensor<float> constant = scalar(7);
  const auto scaled = a * constant;
  constant.data();
  CHECK_THROWS_AS(backward(scaled), Error);
}

TEST_CASE("autograd: reading is not writing") {
  const auto x = leaf(2);
  const auto y = x * x;
  const auto loss = y * y;
  CHECK(y.item() == 4);
  CHECK(x.item() + x.host()[0] + *x.data() == 6);
  backward(loss);
  CHECK(x.grad().item() == 32);
  backward(x * x);  // adds to the gradient that item() has read
  CHECK(x.grad().item() == 36);
}

TEST_CASE("autograd: a write through a slice is noticed by backwards that saved the whole tensor") {
  Tensor<float> x({2, 2}, {1, 2, 3, 4});
  const auto w = variable(ones<float>({2, 2}));
  const auto y = sum(x * w);
  x.leading(1, 2).data()[0] = 9;
  CHECK_THROWS_AS(backward(y), Error);
}

TEST_CASE("autograd: an exception in a backward leaves everything usable") {
  const auto x = leaf(2);
  const auto broken =
      identity("broken", x * 1, [](const Tensor<float>&) -> Tensor<float> { throw std::runtime_error("broken"); });
  const auto loss = broken + x * x;
  const std::size_t before = in_use();
  for (int i = 0; i < 3; ++i) CHECK_THROWS_AS(backward(broken + x * x), std::runtime_error);
  CHECK(in_use() <= before + 64);  // no gradient is left, neither in the graph nor in x
  x.set_grad({});
  const auto y = x * x;
  CHECK(y.requires_grad());  // recording continues
  backward(y);
  CHECK(x.grad().item() == 4);
}

TEST_CASE("autograd: a user's own operation, on the CPU only") {
  const auto x = variable(Tensor<float>({2}, {2, 3}));
  const auto y = cube(x);
  CHECK(y.host() == std::vector<float>{8, 27});
  backward(sum(y * 2));
  CHECK(x.grad().host() == std::vector<float>{24, 54});
}

TEST_CASE("autograd: a gradient of the wrong shape is reported with the operation that computed it") {
  const auto x = variable(ones<float>({2, 3}));
  const auto y = identity("mine", x, [](const Tensor<float>&) { return ones<float>({3}); });
  CHECK_THROWS_WITH(backward(sum(y)), "backward of 'mine': a gradient has shape [3], but its tensor has shape [2, 3]");
  backward(sum(x));
  CHECK(x.grad().size() == 6);
}

TEST_CASE("autograd: a backward may leave out a gradient") {
  const auto a = leaf(1), b = leaf(2);
  const auto y = record("left", scalar(0), inputs(a, b),
                        [](const Tensor<float>& dy) { return std::tuple(dy * 3, Tensor<float>{}); });
  backward(y);
  CHECK(a.grad().item() == 3);
  CHECK_FALSE(b.grad());
}

TEST_CASE("autograd: variables made of one tensor share its block, and each has its own gradient") {
  const Tensor<float> x = scalar(2);
  const auto a = variable(x), b = variable(x);
  CHECK(a.data() == x.data());
  CHECK_FALSE(x.requires_grad());
  backward(a * b * b);
  CHECK(a.grad().item() == 4);
  CHECK(b.grad().item() == 8);
}

TEST_CASE("autograd: only a write after the forward is an error; earlier writes through any handle are not") {
  Tensor<double> x = ones<double>({2});
  const Tensor<double> v = variable(x);
  for (const double value : {7., 8.}) {
    x.data()[0] = value;
    const Tensor<double> loss = sum(v * v);
    backward(loss);
    CHECK(v.grad().host()[0] == 2 * value);
    v.set_grad({});
  }
  const Tensor<double> loss = sum(v * v);
  x.data()[0] = 9;
  CHECK_THROWS_WITH(backward(loss), ContainsSubstring("written in place since"));
}

TEST_CASE("autograd: a leaf's gradient has its own block") {
  const Tensor<double> a = variable(ones<double>({2})), b = variable(ones<double>({2}));
  Tensor<double> dy = full<double>({2}, 3);
  backward(a + b, dy);
  dy.data()[0] = 100;
  Tensor<double> of_a = a.grad();
  of_a.data()[1] = 50;
  CHECK(a.grad().host() == std::vector<double>{3, 50});
  CHECK(b.grad().host() == std::vector<double>{3, 3});
  backward(a + b, dy);  // the same gradient again, with other values
  CHECK(b.grad().host() == std::vector<double>{103, 6});
}

TEST_CASE("autograd: backward passes on several threads accumulate into one leaf") {
  const Tensor<double> x = variable(ones<double>({3}));
  constexpr int threads = 4, passes = 500;
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t)
    all.emplace_back([&] {
      for (int i = 0; i < passes; ++i) backward(sum(x * 2.));
    });
  for (std::thread& t : all) t.join();
  CHECK(x.grad().host() == std::vector<double>(3, 2. * threads * passes));
}

TEST_CASE("autograd: a backward that throws leaves no gradient behind") {
  const auto x = leaf(2), w = leaf(3);
  const auto failing =
      identity("failing", x, [](const Tensor<float>&) -> Tensor<float> { throw Error("in backward"); });
  const auto y = failing * leaf(1) + w * w;  // w gets its gradient first
  CHECK_THROWS_WITH(backward(y), "in backward");
  CHECK(!w.grad());
  CHECK(!x.grad());
  backward(w * w);
  CHECK(w.grad().item() == 6);
}

TEST_CASE("autograd: a list of inputs needs as many gradients") {
  const Tensor<float> x = variable(ones<float>({2})), z = variable(ones<float>({2}));
  for (const std::size_t count : {std::size_t{1}, std::size_t{3}}) {
    const std::vector<Tensor<float>> both{x, z};
    const Tensor<float> y =
        record("mine", x * 1, both, [=](const Tensor<float>& dy) { return std::vector<Tensor<float>>(count, dy); });
    CHECK_THROWS_WITH(backward(sum(y)),
                      "backward: 'mine' returned " + std::to_string(count) + " gradients for 2 inputs");
  }
}
