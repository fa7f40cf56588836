// The update of one element by stochastic gradient descent, as torch.optim.SGD:
//   g += weight_decay p;  b = momentum b + g (b = g in the first step);  p -= lr b.
#pragma once
#include <array>

#include <heddle/base/checks.hpp>
#include <heddle/optim/rule.hpp>

namespace heddle::optim {

/// The options of torch.optim.SGD, without dampening and Nesterov momentum.
struct SgdOptions {
  static constexpr const char* optimizer = "Sgd";
  double lr = 1e-3, momentum = 0, weight_decay = 0;

  /// Checks the momentum; Optimizer checks what all have. @throws Error.
  void check() const { detail::require_fraction(optimizer, "momentum", momentum); }
};

/// The rule of Sgd.
template <class T>
struct SgdRule {
  using Element = T;
  static constexpr std::array moments{Moment{.name = "first", .is_optional = true}};

  T lr, momentum, weight_decay;
  bool is_first_step;

  /// Computes the constants of one parameter and step.
  SgdRule(const SgdOptions& options, const UpdateSettings& settings)
      : lr(static_cast<T>(settings.lr)),
        momentum(static_cast<T>(options.momentum)),
        weight_decay(static_cast<T>(settings.weight_decay)),
        is_first_step(settings.step == 1) {}

  HEDDLE_HD bool needs_moments() const { return momentum != 0; }
  bool keeps_stateless_rows() const { return weight_decay == 0; }

  /// Updates one element and its moment.
  template <class V>
  HEDDLE_HD void operator()(V& p, V g, V* b) const {
    g = g + weight_decay * p;
    if (momentum != 0) {
      *b = is_first_step ? g : V(momentum * *b + g);
      g = *b;
    }
    p = p - lr * g;
  }
};

}  // namespace heddle::optim
