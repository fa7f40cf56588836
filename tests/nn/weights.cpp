// Parameters and buffers as owners of their memory, and the functions that write them.
#include <heddle/heddle.hpp>

#include "../harness/devices.hpp"
#include "../harness/two_layers.hpp"
#include "catch.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

const std::vector<float> one_two{1, 2};

// Two parameters that share one weight, and a buffer.
struct TiedPair {
  Parameter<float> in, out;
  Buffer<float> scale;

  explicit TiedPair(float value)
      : in(Tensor<float>({2}, {value, value})), out(share(in)), scale(full<float>({1}, value)) {}
  static void visit(auto& self, auto&& f) {
    f("in", self.in);
    f("out", self.out);
    f("scale", self.scale);
  }
};

// One weight of any shape and name.
struct NamedWeight {
  Parameter<float> weight;
  const char* name = "weight";

  explicit NamedWeight(Tensor<float> value) : weight(std::move(value)) {}
  static void visit(auto& self, auto&& f) { f(self.name, self.weight); }
};

struct Untied {
  Parameter<float> in{Tensor<float>({2}, {1, 1})}, out{Tensor<float>({2}, {2, 2})};
  Buffer<float> scale{Tensor<float>({1}, {3})};
  static void visit(auto& self, auto&& f) {
    f("in", self.in);
    f("out", self.out);
    f("scale", self.scale);
  }
};

struct NamedTwice {
  Parameter<float> a{Tensor<float>({2}, {1, 2})}, b{Tensor<float>({2}, {3, 4})};
  static void visit(auto& self, auto&& f) {
    f("weight", self.a);
    f("weight", self.b);
  }
};

}  // namespace

TEST_CASE("Parameter and Buffer: an lvalue is copied") {
  Tensor<float> init({2}, {1, 2});
  const Parameter<float> a(init), b(init);
  const Buffer<float> buffer(init);
  init.data()[0] = 9;
  CHECK(a.value().host() == one_two);
  CHECK(buffer.value().host() == one_two);
  Parameter<float> of_weight(a.value());  // for example, a teacher's weight that is made from a student's
  of_weight.assign(Tensor<float>({2}, {5, 6}));
  CHECK(a.value().host() == one_two);
  CHECK(b.value().host() == one_two);
  CHECK(of_weight.value().host() == std::vector<float>{5, 6});
}

TEST_CASE(
    "Parameter and Buffer: the memory of a temporary is taken over unless another handle or the caller owns it, too") {
  Tensor<float> alone({2}, {1, 2}), shared({2}, {1, 2});
  const float* const memory = alone.data();
  const Tensor<float> other = shared;
  CHECK(Parameter<float>(std::move(alone)).value().data() == memory);
  CHECK(Parameter<float>(std::move(shared)).value().data() != other.data());
  std::vector<float> own{1, 2};
  CHECK(Parameter<float>(Tensor<float>::wrap(own.data(), {2})).value().data() != own.data());
  CHECK(Buffer<float>(Tensor<float>::wrap(own.data(), {2})).value().data() != own.data());
  CHECK_THROWS_WITH(Parameter<float>(Tensor<float>()), "a parameter or buffer cannot be made from an empty tensor");
  CHECK_THROWS_AS(Buffer<float>(Tensor<float>()), Error);
  CHECK(Parameter<float>(variable(Tensor<float>({2}, {1, 2}))).value().requires_grad());
}

TEST_CASE("Parameter and Buffer: using a moved-from object throws") {
  Parameter<float> p(Tensor<float>({2}, {1, 2}));
  const Parameter<float> moved = std::move(p);
  CHECK(moved.value().host() == one_two);
  const char* const message = "a parameter or buffer is used after it was moved from";
  CHECK_THROWS_WITH(p.value(), message);
  CHECK_THROWS_WITH(p.frozen(), message);
  CHECK_THROWS_WITH(p.freeze(), message);
  CHECK_THROWS_WITH(p.as<bf16>(), message);
  CHECK_THROWS_WITH(share(p), message);
  CHECK_THROWS_WITH(p.assign(Tensor<float>({2})), message);
  Buffer<float> buffer(Tensor<float>({1}, {1}));
  const Buffer<float> taken = std::move(buffer);
  CHECK_THROWS_WITH(buffer.value(), message);

  Random random(1);
  TwoLayers model(random);
  const TwoLayers now = std::move(model);
  CHECK_THROWS_WITH(model(ones<float>({1, 8})), message);
  CHECK_THROWS_WITH(optim::Sgd(model), message);
  CHECK_THROWS_WITH(parameter_count(model), message);
  CHECK(parameter_count(now) == 8 * 16 + 16 + 16 * 2 + 2);
}

TEST_CASE("assign: writes in place, and only the same shape") {
  Parameter<float> p(Tensor<float>({2}, {1, 2}));
  const Parameter<float> tied = share(p);
  p.assign(Tensor<float>({2}, {3, 4}));
  CHECK(tied.value().host() == std::vector<float>{3, 4});
  CHECK(!p.frozen());
  CHECK_THROWS_AS(p.assign(Tensor<float>({1, 2})), ShapeError);
}

TEST_CASE("copy_weights: restores weights in place, and an optimizer continues with them") {
  on_each_device<float>([](Device device) {
    Random random(1);
    TwoLayers model(random), best(random);
    to(model, device);
    const Tensor<float> x = randn<float>({4, 8}, random).to(device);
    optim::AdamW optimizer(model, {.lr = 0.1});
    copy_weights(model, best);  // from one device to the other
    const auto before = model.a.weight.value().host();
    CHECK(best.a.weight.value().host() == before);
    CHECK(best.a.weight.value().device() == Device::cpu);
    backward(sum(model(x)));
    optimizer.step();
    CHECK(model.a.weight.value().host() != before);
    copy_weights(best, model);
    CHECK(model.a.weight.value().host() == before);
    backward(sum(model(x)));
    optimizer.step();
    CHECK(model.a.weight.value().host() != before);
    CHECK(best.a.weight.value().host() == before);
    copy_weights(model, model);
  });
}

TEST_CASE("copy_weights: copies buffers, and shared weights stay shared") {
  TiedPair a(1), b(2);
  copy_weights(a, b);
  CHECK(b.in.value().host() == std::vector<float>{1, 1});
  CHECK(b.out.identity() == b.in.identity());
  CHECK(b.scale.value().item() == 1);
}

TEST_CASE("copy_weights: models that differ are refused, and nothing is written") {
  NamedWeight from(Tensor<float>({2}, {1, 2})), shorter(Tensor<float>({1}, {7})), named(Tensor<float>({2}, {7, 7}));
  named.name = "other";
  CHECK_THROWS_WITH(copy_weights(from, shorter),
                    "copy_weights: 'weight' is [2] in the model copied from, [1] in the other");
  CHECK_THROWS_WITH(copy_weights(from, named), "copy_weights: the model copied from has no 'other'");
  CHECK(shorter.weight.value().item() == 7);
  Random random(1);
  nn::Linear<float> with_bias(2, 2, random), without(2, 2, random, false);
  CHECK_THROWS_WITH(copy_weights(with_bias, without),
                    "copy_weights: the model copied from has 2 parameters and buffers, the other 1");
  nn::Linear<double> in_double(2, 2, random);
  CHECK_THROWS_WITH(copy_weights(in_double, with_bias),
                    "copy_weights: 'weight' is double in the model copied from, float in the other");
}

TEST_CASE("copy_weights: two weights cannot be copied into one shared weight") {
  TiedPair tied(7);
  Untied untied;
  CHECK_THROWS_WITH(copy_weights(untied, tied),
                    "copy_weights: 'out' is a shared weight in the model copied to, but not in the model copied from");
  CHECK(tied.in.value().host() == std::vector<float>{7, 7});
  copy_weights(tied, untied);
  CHECK(untied.out.value().host() == std::vector<float>{7, 7});
}

TEST_CASE("update_average: moves the average towards the model, and a shared weight only once") {
  on_each_device<float>([](Device device) {
    TiedPair average(1), model(3);
    to(average, device);
    to(model, device);
    update_average(average, model, 0.75);
    CHECK(average.in.value().host() == std::vector<float>{1.5f, 1.5f});
    CHECK(average.scale.value().item() == 3);  // buffers are copied
    CHECK(average.in.value().requires_grad());
    update_average(average, model, 1);
    CHECK(average.in.value().host()[0] == 1.5f);
    update_average(average, model, 0);
    CHECK(average.in.value().host()[0] == 3);
  });
  TiedPair a(1);
  for (const double decay : {-0.1, 1.1, std::nan("")}) CHECK_THROWS_AS(update_average(a, TiedPair(2), decay), Error);
  CHECK_THROWS_WITH(update_average(a, TiedPair(2), 2), "update_average: decay must be in [0, 1], got 2");
}

TEST_CASE("visit: a name that is given twice is refused everywhere") {
  NamedTwice model, other;
  const char* const message = "the model visits the name 'weight' twice; each parameter and buffer needs its own";
  CHECK_THROWS_WITH(optim::Sgd(model), message);
  CHECK_THROWS_WITH(parameter_count(model), message);
  CHECK_THROWS_WITH(zero_grad(model), message);
  CHECK_THROWS_WITH(copy_weights(model, other), message);
  CHECK_THROWS_WITH(optim::clip_grad_norm(model, 1), message);
}

namespace {
struct Forgetful {
  Parameter<float> weight{Tensor<float>({2, 3})};
  Parameter<float> forgotten{Tensor<float>({4, 5})};
  std::vector<nn::LayerNorm<float>> norms;
  bool visits_norms;

  explicit Forgetful(bool all) : visits_norms(all) { norms.emplace_back(7); }
  static void visit(auto& self, auto&& f) {
    f("weight", self.weight);
    if (self.visits_norms) f("norms", self.norms);
  }
};
}  // namespace

TEST_CASE("check_visit: finds weights that a module does not name") {
  Random random(1);
  check_visit([&] { return nn::Encoder<float>(2, {.D = 8, .heads = 2, .norm_first = true}, random); });
  check_visit([&] { return TiedPair(1); });
  check_visit([&] { return nn::SinusoidalPositions<float>(4, 6); });
  const Parameter<float> outside(Tensor<float>({1}));  // belongs to no module
  CHECK_THROWS_WITH(check_visit([] { return Forgetful(true); }),
                    "visit: the module has parameters or buffers that it does not name, of shape [4, 5]");
  CHECK_THROWS_WITH(check_visit([] { return Forgetful(false); }), ContainsSubstring("[7]"));
}

TEST_CASE("a parameter is a tensor in every operation") {
  Random random(1);
  const auto x = randn<float>({4, 3}, random);
  const Parameter<float> weight(randn<float>({3, 2}, random)), bias(randn<float>({2}, random));
  const Buffer<float> offset(ones<float>({2}));
  const auto from_tensors = matmul(x, weight.value()) * bias.value() + offset.value();
  CHECK((matmul(x, weight) * bias + offset).host() == from_tensors.host());
  backward(sum(weight * weight) + sum(exp(bias)) + sum(concat({weight, matmul(x, weight)}, 0) * 0));
  CHECK(weight.grad().host() == (2 * detach(weight)).host());
  CHECK(bias.grad().host() == exp(detach(bias)).host());
  CHECK(weight.dim(0) == 3);
  CHECK(all(weight == weight).item());
}

TEST_CASE("a parameter follows its weight: writes, moves, freezing, shared handles") {
  on_each_device<float>([](Device device) {
    Parameter<float> weight(zeros<float>({2}));
    std::vector<Parameter<float>> shared;
    for (int i = 0; i < 5; ++i) shared.push_back(share(weight));  // grows, so that handles move
    shared[0].assign(Tensor<float>({2}, {1, 2}));
    CHECK(sum(weight).item() == 3);
    weight.identity()->move(device);
    CHECK(shared[4].device() == device);
    weight.assign(Tensor<float>({2}, {3, 4}));
    CHECK(sum(shared[3]).item() == 7);
    weight.freeze();
    CHECK(!shared[2].requires_grad());
    CHECK(!exp(shared[2]).requires_grad());
    weight.freeze(false);
    const Tensor<float> loss = sum(shared[1] * shared[1]);
    weight.assign(zeros<float>({2}));
    CHECK_THROWS_WITH(backward(loss), ContainsSubstring("has been written in place"));
    shared[0] = std::move(shared[1]);
    CHECK_THROWS_AS(exp(shared[1]), Error);
    shared[2] = Parameter<float>(ones<float>({1}));
    CHECK(shared[2].shape() == Shape{1});
    CHECK(sum(shared[0]).item() == 0);
  });
}

TEST_CASE("a parameter cannot be rebound, and moving it as a tensor copies the handle") {
  Parameter<float> weight(ones<float>({2}));
  Tensor<float>& as_tensor = weight;
  CHECK_THROWS_WITH(as_tensor = zeros<float>({2}), ContainsSubstring("use assign() to write its values"));
  CHECK_THROWS_AS(as_tensor = Tensor<float>(weight), Error);
  const Tensor<float> taken = std::move(as_tensor);
  CHECK(weight.shape() == Shape{2});
  CHECK(taken.data() == weight.data());
  backward(sum(weight * 3));
  CHECK(weight.grad().host() == std::vector<float>{3, 3});
}
