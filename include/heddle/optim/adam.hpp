#pragma once
#include <heddle/optim/update.hpp>

namespace heddle::optim {

// As torch.optim.Adam has them; no weight decay by default.
struct AdamOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
};
// As torch.optim.AdamW has them.
struct AdamWOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
};

// Adam (Kingma and Ba 2015) as torch.optim.Adam, and AdamW (Loshchilov and Hutter 2019) as torch.optim.AdamW: with
// m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2 and step count t of each parameter,
//   p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps).
// Weight decay adds weight_decay p to g in Adam, and first shrinks p by lr weight_decay in AdamW.
template <class Options, bool decoupled>
class AdamFamily {
 public:
  Options options;

  // Of all parameters of the model. Throws Error for a group that selects none.
  template <class M>
  explicit AdamFamily(M& model, Options settings = {}, const std::vector<Group>& groups = {})
      : options(settings), slots_(decoupled ? "AdamW" : "Adam", model, groups) {}

  // Updates every parameter that has a gradient, with the rate times `factor` (a schedule's), and drops the gradients.
  // Throws Error, before anything is updated, when a gradient is not finite.
  void step(double factor = 1) {
    const auto decay_of = [this](const auto& slot) { return slot.weight_decay.value_or(options.weight_decay); };
    Update(slots_).run(
        [](auto& slot) {
          const auto size = static_cast<std::size_t>(slot.parameter->value().size());
          slot.first.resize(size);
          slot.second.resize(size);
        },
        [&](const auto& slot) { return decay_of(slot) == 0 && options.eps > 0; },
        [&]<class T>(Slot<T>& slot) {
          const double t = static_cast<double>(slot.steps), lr = factor * slot.lr.value_or(options.lr);
          const double decay = decay_of(slot);
          const T rate = static_cast<T>(lr / (1 - std::pow(options.beta1, t)));
          const T root = static_cast<T>(1 / std::sqrt(1 - std::pow(options.beta2, t))),
                  eps = static_cast<T>(options.eps);
          const T rest1 = static_cast<T>(1 - options.beta1), rest2 = static_cast<T>(1 - options.beta2);
          const T beta2 = static_cast<T>(options.beta2);
          const T coupled = static_cast<T>(decoupled ? 0 : decay),
                  shrink = static_cast<T>(decoupled ? 1 - lr * decay : 1);
          return [=, &slot](T* value, const T* gradient, Index first, Index count) {
            auto p = kernel::array(value + first, count), m = kernel::array(slot.first.data() + first, count),
                 v = kernel::array(slot.second.data() + first, count);
            const auto g = kernel::array(gradient, count) + coupled * p;
            v = beta2 * v + rest2 * g.square();
            m += rest1 * (g - m);
            p = shrink * p - rate * m / (v.sqrt() * root + eps);
          };
        });
  }

  // What it remembers of each parameter: for io::save_optimizer and io::load_optimizer.
  Slots& slots() { return slots_; }
  const Slots& slots() const { return slots_; }

 private:
  Slots slots_;
};

// Weight decay in the gradient.
using Adam = AdamFamily<AdamOptions, false>;
// Weight decay on the parameter itself.
using AdamW = AdamFamily<AdamWOptions, true>;

}  // namespace heddle::optim
