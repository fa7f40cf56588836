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
          slot.make_room(slot.first);
          slot.make_room(slot.second);
        },
        [&](const auto& slot) { return decay_of(slot) == 0 && options.eps > 0; },
        [&]<class T>(const Slot<T>& slot) {
          const Constants<T> c(options, decay_of(slot), factor * slot.lr.value_or(options.lr), slot.steps);
          return [c, &slot](T* value, const T* gradient, Index first, Index count) {
            auto p = kernel::array(value + first, count), m = kernel::array(slot.step.first + first, count),
                 v = kernel::array(slot.step.second + first, count);
            const auto g = kernel::array(gradient, count) + c.coupled * p;
            v = c.beta2 * v + c.rest2 * g.square();
            m += c.rest1 * (g - m);
            p = c.shrink * p - c.rate * m / (v.sqrt() * c.root + c.eps);
          };
        },
        [&](const Slot<float>& slot, kernel::Updated& u) {
          const Constants<float> c(options, decay_of(slot), factor * slot.lr.value_or(options.lr), slot.steps);
          u.rate = c.rate, u.coupled = c.coupled, u.shrink = c.shrink, u.root = c.root;
          return kernel::AdamRule{c.beta2, c.rest1, c.rest2, c.eps};
        });
  }

  // What it remembers of each parameter: for io::save_optimizer and io::load_optimizer.
  Slots& slots() { return slots_; }
  const Slots& slots() const { return slots_; }

 private:
  // Of one parameter and step, in its type.
  template <class T>
  struct Constants {
    T rate, root, eps, rest1, rest2, beta2, coupled, shrink;

    Constants(const Options& o, double decay, double lr, std::int64_t steps) {
      const double t = static_cast<double>(steps);
      rate = static_cast<T>(lr / (1 - std::pow(o.beta1, t)));
      root = static_cast<T>(1 / std::sqrt(1 - std::pow(o.beta2, t)));
      eps = static_cast<T>(o.eps);
      rest1 = static_cast<T>(1 - o.beta1), rest2 = static_cast<T>(1 - o.beta2), beta2 = static_cast<T>(o.beta2);
      coupled = static_cast<T>(decoupled ? 0 : decay), shrink = static_cast<T>(decoupled ? 1 - lr * decay : 1);
    }
  };
  Slots slots_;
};

// Weight decay in the gradient.
using Adam = AdamFamily<AdamOptions, false>;
// Weight decay on the parameter itself.
using AdamW = AdamFamily<AdamWOptions, true>;

}  // namespace heddle::optim
