// Random steps of optimizers, with parameters of random sizes.
#include <heddle/heddle.hpp>

#include "../../instances.hpp"
#include "families.hpp"

namespace heddle::testing {

namespace {

template <class T>
struct Weights {
  std::vector<Parameter<T>> all;
  static void visit(auto& self, auto&& f) { f("all", self.all); }
};

// The numbers of a training: the first weights, and the gradients of each step.
struct Training {
  std::vector<Tensor<double>> weights;
  std::vector<std::vector<Tensor<double>>> gradients;  // [step][parameter]
  double clipped_to;                                   // the greatest norm of the gradients
};

Training draw_training(Draw& draw) {
  Training training;
  const Index count = draw.between(1, 6), steps = draw.between(1, 3);
  for (Index i = 0; i < count; ++i) {
    const Shape shape = draw.once_in(6) ? Shape{0} : draw.shape(1, 2, draw.once_in(4) ? 10'000 : 500);
    draw.tell(shape);
    training.weights.push_back(draw.numbers<float>(shape));
  }
  for (Index step = 0; step < steps; ++step) {
    training.gradients.emplace_back();
    for (const auto& w : training.weights) training.gradients.back().push_back(draw.numbers<float>(w.shape()));
  }
  training.clipped_to = draw.one_of({1e30, 1.0});
  draw.tell("steps", steps, "clipped to", training.clipped_to);
  return training;
}

// Returns the norms of the gradients and the weights after all steps, computed in T on `device`.
template <class Optimizer, class T, class Options>
std::vector<double> trained(const Options& options, const Training& training, Device device) {
  Weights<T> model;
  for (const auto& w : training.weights) model.all.emplace_back(converted<T>(w, device));
  Optimizer optimizer(model, options);
  std::vector<double> all;
  for (const auto& gradients : training.gradients) {
    for (std::size_t i = 0; i < gradients.size(); ++i)
      model.all[i].value().set_grad(converted<T>(gradients[i], device));
    all.push_back(optim::clip_grad_norm(model, training.clipped_to));
    optimizer.step();
  }
  for (const auto& p : model.all) {
    const auto values = joined(p.value().host());
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

template <class Optimizer, class Options>
void check_steps(const Options& options, const Training& training) {
  expect_close<float>(trained<Optimizer, float>(options, training, Device::cuda),
                      trained<Optimizer, double>(options, training, Device::cpu),
                      trained<Optimizer, float>(options, training, Device::cpu));
}

}  // namespace

void check_optimizers(Draw& draw) {
  const double decay = draw.one_of({0.0, 0.1});
  const Training training = draw_training(draw);
  draw.tell("decay", decay);
  switch (draw.between(0, 2)) {
    case 0:
      draw.tell("Adam");
      return check_steps<optim::Adam>(optim::AdamOptions{.lr = 0.1, .weight_decay = decay}, training);
    case 1:
      draw.tell("AdamW");
      return check_steps<optim::AdamW>(optim::AdamWOptions{.lr = 0.1, .weight_decay = decay}, training);
    default: {
      const double momentum = draw.one_of({0.0, 0.9});
      draw.tell("Sgd", "momentum", momentum);
      return check_steps<optim::Sgd>(optim::SgdOptions{.lr = 0.1, .momentum = momentum, .weight_decay = decay},
                                     training);
    }
  }
}

}  // namespace heddle::testing
