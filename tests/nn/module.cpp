#include <heddle/heddle.hpp>

#include "../harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

struct Stack {
  std::vector<nn::Linear<>> layers;
  nn::LayerNorm<> norm;

  explicit Stack(Random& random) : norm(4) {
    for (int i = 0; i < 3; ++i) layers.emplace_back(4, 4, random);
  }
  Stack(const Stack& other, Cloning& c) : layers(c(other.layers)), norm(c(other.norm)) {}

  Tensor<float> operator()(Tensor<float> x) const {
    for (const auto& layer : layers) x = layer(x);
    return norm(x);
  }
  static void visit(auto& self, auto&& f) {
    f("layers", self.layers);
    f("norm", self.norm);
  }
};

Tensor<float> ones_row() { return Tensor<float>({1, 4}, {1, -1, 2, 0.5f}); }

template <class M>
void train_once(M& model, double lr = 0.1) {
  optim::Sgd sgd(model, {.lr = lr});
  backward(sum(model(ones_row()) * Tensor<float>({1, 4}, {1, 2, -3, 4})));
  sgd.step();
}

template <class M>
std::vector<std::string> names(M& model) {
  std::vector<std::string> all;
  walk(model, [&](const Name& name, auto&) { all.push_back(name.str()); });
  return all;
}

}  // namespace

static_assert(!std::is_copy_constructible_v<Parameter<float>> &&
              std::is_nothrow_move_constructible_v<Parameter<float>>);
static_assert(!std::is_copy_constructible_v<nn::Linear<>> && !std::is_copy_assignable_v<nn::Linear<>>);
static_assert(!std::is_copy_constructible_v<Stack> && std::is_move_constructible_v<Stack>);

TEST_CASE("module: a parameter's name is the path of the visited names") {
  Random random(1);
  Stack model(random);
  CHECK(names(model) == std::vector<std::string>{"layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias",
                                                 "layers.2.weight", "layers.2.bias", "norm.weight", "norm.bias"});
  const Stack& constant = model;
  CHECK(names(constant) == names(model));
  CHECK(parameter_count(model) == 3 * 20 + 8);
  nn::MultiHeadAttention<> attention(4, 2, random);
  CHECK(names(attention)[0] == "query.weight|key.weight|value.weight");
}

TEST_CASE("module: a clone does not follow the original") {
  Random random(1);
  Stack model(random);
  const auto before = model(ones_row()).host();
  Stack best = clone(model);
  train_once(model);
  CHECK(model(ones_row()).host() != before);
  CHECK(best(ones_row()).host() == before);
  train_once(best);
  CHECK(best(ones_row()).host() == model(ones_row()).host());
}

TEST_CASE("module: layers in a vector are not tied") {
  Random random(1);
  Stack model(random);
  CHECK(model.layers[0].weight.value().host() != model.layers[1].weight.value().host());
  const auto first = model.layers[0].weight.value().host();
  std::fill_n(model.layers[1].weight.identity()->data(), 16, 0.f);
  CHECK(model.layers[0].weight.value().host() == first);
}

TEST_CASE("module: an optimizer made before a move or an assignment still trains the model") {
  Random random(1);
  Stack model(random);
  optim::Adam adam(model);
  to(model, Device::cpu);
  walk(model, [](const Name&, auto& x) { x.identity()->assign(Tensor<float>(x.shape(), x.value().host())); });
  Stack moved = std::move(model);
  const auto before = moved(ones_row()).host();
  backward(sum(moved(ones_row()) * Tensor<float>({1, 4}, {1, 2, -3, 4})));
  adam.step();
  CHECK(moved(ones_row()).host() != before);
}

namespace {
struct Tied {
  Parameter<float> in, out;
  explicit Tied(Random& random) : in(randn<float>({4, 4}, random)), out(share(in)) {}
  Tied(const Tied& other, Cloning& c) : in(c(other.in)), out(c(other.out)) {}
  Tensor<float> operator()(const Tensor<float>& x) const { return linear(linear(x, in.value()), out.value()); }
  static void visit(auto& self, auto&& f) {
    f("in", self.in);
    f("out", self.out);
  }
};
}  // namespace

TEST_CASE("module: a shared weight is counted and updated once, and stays shared in a clone") {
  Random random(1);
  Tied model(random);
  CHECK(parameter_count(model) == 16);
  const auto before = model.in.value().host();
  const Tensor<float> w = variable(Tensor<float>({4, 4}, before)), dy({1, 4}, {1, 2, -3, 4});
  backward(sum(linear(linear(ones_row(), w), w) * dy));
  optim::Sgd sgd(model, {.lr = 0.5});
  backward(sum(model(ones_row()) * dy));
  sgd.step();
  for (std::size_t i = 0; i < 16; ++i) CHECK(model.in.value().host()[i] == before[i] - 0.5f * w.grad().host()[i]);
  CHECK(model.out.value().host() == model.in.value().host());
  const Tied copy = clone(model);
  CHECK(copy.in.identity() == copy.out.identity());
  CHECK(copy.in.identity() != model.in.identity());
}

TEST_CASE("module: a frozen parameter gets no gradient and no update") {
  Random random(1);
  Stack model(random);
  model.layers[1].weight.freeze();
  const auto before = model.layers[1].weight.value().host();
  train_once(model);
  CHECK(model.layers[1].weight.value().host() == before);
  CHECK_FALSE(model.layers[1].weight.grad());
  model.layers[1].weight.freeze(false);
  train_once(model);
  CHECK(model.layers[1].weight.value().host() != before);
}

TEST_CASE("module: the cast of a weight is recomputed after an update, and its gradient has the master's type") {
  Parameter<float> weight(Tensor<float>({2}, {1.001f, -2}));
  const Tensor<bf16> first = weight.as<bf16>();
  CHECK(first.device_data() == weight.as<bf16>().device_data());
  CHECK(static_cast<float>(first.host()[0]) == 1.f);
  backward(first, Tensor<bf16>({2}, {bf16(0.5f), bf16(3.f)}));
  CHECK(weight.grad().host() == std::vector<float>{0.5f, 3.f});
  weight.identity()->data()[0] = 4;
  CHECK(static_cast<float>(weight.as<bf16>().host()[0]) == 4.f);
}

TEST_CASE("module: the cast of a weight follows the weight to another device") {
  on_each_device<float>([](Device device) {
    const Parameter<float> weight(full<float>({3}, 1));
    CHECK(weight.as<bf16>().device() == Device::cpu);
    weight.identity()->move(device);
    CHECK(weight.as<bf16>().device() == device);
    weight.identity()->assign(full<float>({3}, 2));
    weight.identity()->move(Device::cpu);
    CHECK(joined(weight.as<bf16>().host()) == std::vector<double>{2, 2, 2});
  });
}

TEST_CASE("module: a backward after an update of a weight that the forward saved is an error") {
  Random random(1);
  nn::Linear<> layer(4, 4, random);
  const Tensor<float> x = variable(ones_row());
  const Tensor<float> y = sum(layer(x));
  layer.weight.identity()->data()[0] = 7;
  CHECK_THROWS_WITH(backward(y),
                    ContainsSubstring("a tensor of shape [4, 4] that the forward saved has been written in place"));
}

TEST_CASE("Parameter: unfreezing a parameter that is not frozen keeps its gradient") {
  Parameter<double> p(ones<double>({2}));
  backward(sum(p.value()));
  p.freeze(false);
  CHECK(p.grad().host() == std::vector<double>{1, 1});
}

TEST_CASE("module: summary shows a combined parameter under all its names") {
  Random random(1);
  const nn::MultiHeadAttention<> attention(4, 2, random);
  const std::string text = summary(attention);
  CHECK_THAT(text, ContainsSubstring("query.weight | key.weight | value.weight"));
  CHECK_THAT(text, ContainsSubstring(" [12, 4]\n"));
  CHECK_THAT(text, ContainsSubstring("  out                                       20\n"));
}

// Visits two tensors of a module apart from each other.
struct Interleaved {
  Parameter<float> x{ones<float>({2})}, y{ones<float>({3})}, z{ones<float>({4})};
  static void visit(auto& self, auto&& f) {
    f("a.x", self.x);
    f("b", self.y);
    f("a.z", self.z);
  }
};

TEST_CASE("module: summary shows a module once, even if another tensor is visited between its own") {
  const auto line = [](std::string what, const std::string& right) {
    what.resize(43, ' ');
    return what + ' ' + right + '\n';
  };
  CHECK(summary(Interleaved()) ==
        line("model", "9") + line("  a", "6") + line("    x", "[2]") + line("    z", "[4]") + line("  b", "[3]"));
}

TEST_CASE("module: summary shows the tree with counts and shapes") {
  Random random(1);
  Stack model(random);
  model.layers[0].bias->freeze();
  const std::string text = summary(model);
  CHECK(text.substr(0, text.find('\n')) == "model                                       68");
  CHECK_THAT(text,
             ContainsSubstring(
                 "    0                                       20\n      weight                                [4, 4]\n"
                 "      bias                                  [4] frozen\n"));
  const nn::SinusoidalPositions<> positions(8, 4);
  CHECK_THAT(summary(positions), ContainsSubstring("  pe                                        [1, 8, 4] buffer"));
}
