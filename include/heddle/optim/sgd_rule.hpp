// The update of one element by stochastic gradient descent, as in torch.optim.SGD:
//   g += weight_decay p;  b = momentum b + g (b = g in the first step);  p -= lr b.
#pragma once
#include <array>

#include <heddle/base/checks.hpp>
#include <heddle/optim/rule.hpp>

namespace heddle::optim {

/// The options of torch.optim.SGD, without dampening and Nesterov momentum.
struct SgdOptions {
  static constexpr const char* optimizer = "Sgd";  ///< name in messages
  double lr = 1e-3;                                ///< learning rate
  double momentum = 0;                             ///< factor of the moment estimate, in [0, 1)
  double weight_decay = 0;                         ///< L2 penalty, added to the gradient

  /// Checks the momentum; Optimizer checks the common options. @throws Error for a momentum outside [0, 1).
  void check() const { detail::require_fraction(optimizer, "momentum", momentum); }
};

/// The rule of Sgd.
template <class T>
struct SgdRule {
  using Element = T;                            ///< the type of a parameter
  static constexpr bool has_gpu_kernel = true;  ///< whether it runs on a GPU
  static constexpr std::array moments{
      Moment{.name = "first", .is_optional = true}};  ///< the moment estimate of each element, if there is momentum

  T lr;                ///< learning rate
  T momentum;          ///< factor of the moment estimate
  T weight_decay;      ///< L2 penalty
  bool is_first_step;  ///< whether the moment estimate begins with this gradient

  /// Computes the constants of one parameter and step.
  SgdRule(const SgdOptions& options, const UpdateSettings& settings)
      : lr(static_cast<T>(settings.lr)),
        momentum(static_cast<T>(options.momentum)),
        weight_decay(static_cast<T>(settings.weight_decay)),
        is_first_step(settings.step == 1) {}

  /// Returns whether the update reads the moment estimate.
  HEDDLE_HD bool needs_moments() const { return momentum != 0; }
  /// Returns whether an element with zero gradient and zero moment estimate stays as it is.
  bool keeps_stateless_rows() const { return weight_decay == 0; }

  /// Updates one element and its moment.
  HEDDLE_FORMULA template <class V>
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
