#pragma once
#include <heddle/optim/update.hpp>

namespace heddle::optim {

// As torch.optim.SGD has them, without dampening and Nesterov's momentum.
struct SgdOptions {
  double lr = 1e-3, momentum = 0, weight_decay = 0;
};

// Stochastic gradient descent as torch.optim.SGD: g += weight_decay p; b = momentum b + g (b = g in the first step); p -= lr b.
class Sgd {
 public:
  SgdOptions options;

  // Of all parameters of the model. Throws Error for a group that selects none.
  template <class M>
  explicit Sgd(M& model, SgdOptions settings = {}, const std::vector<Group>& groups = {})
      : options(settings), slots_("Sgd", model, groups) {}

  // Updates every parameter that has a gradient, with the rate times `factor` (a schedule's), and drops the gradients.
  // Throws Error, before anything is updated, when a gradient is not finite.
  void step(double factor = 1) {
    const auto decay_of = [this](const auto& slot) { return slot.weight_decay.value_or(options.weight_decay); };
    Update(slots_).run(
        [&](auto& slot) {
          if (options.momentum != 0) slot.make_room(slot.first);
        },
        [&](const auto& slot) { return decay_of(slot) == 0; },
        [&]<class T>(const Slot<T>& slot) {
          const T lr = static_cast<T>(factor * slot.lr.value_or(options.lr)),
                  momentum = static_cast<T>(options.momentum);
          const T decay = static_cast<T>(decay_of(slot));
          return [=, this, &slot](T* value, const T* gradient, Index first, Index count) {
            auto p = kernel::array(value + first, count);
            const auto g = kernel::array(gradient, count) + decay * p;
            if (options.momentum == 0) {
              p -= lr * g;
              return;
            }
            auto b = kernel::array(slot.step.first + first, count);
            if (slot.steps == 1)
              b = g;
            else
              b = momentum * b + g;
            p -= lr * b;
          };
        },
        [&](const Slot<float>& slot, kernel::Updated& u) {
          u.rate = static_cast<float>(factor * slot.lr.value_or(options.lr));
          u.coupled = static_cast<float>(decay_of(slot));
          u.begins = slot.steps == 1;
          return kernel::SgdRule{static_cast<float>(options.momentum)};
        });
  }

  // What it remembers of each parameter: for io::save_optimizer and io::load_optimizer.
  Slots& slots() { return slots_; }
  const Slots& slots() const { return slots_; }

 private:
  Slots slots_;
};

}  // namespace heddle::optim
