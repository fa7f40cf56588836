// The update of one element by Adam (Kingma and Ba 2015), as in torch.optim.Adam, and by AdamW (Loshchilov and Hutter
// 2019), as in torch.optim.AdamW. With the step count t of each parameter:
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
// Adam adds weight_decay p to g; AdamW first multiplies p by 1 - lr weight_decay.
#pragma once
#include <array>
#include <cmath>
#include <type_traits>

#include <heddle/base/checks.hpp>
#include <heddle/optim/rule.hpp>

namespace heddle::detail {

// Checks the options of Adam and AdamW. Throws Error.
template <class Options>
void check_adam(const Options& options) {
  require_fraction(Options::optimizer, "beta1", options.beta1);
  require_fraction(Options::optimizer, "beta2", options.beta2);
  require_nonnegative(Options::optimizer, "eps", options.eps);
}

}  // namespace heddle::detail

namespace heddle::optim {

/// The options of torch.optim.Adam, without amsgrad.
struct AdamOptions {
  static constexpr const char* optimizer = "Adam";  ///< name in messages
  double lr = 1e-3;                                 ///< learning rate
  double beta1 = 0.9;                               ///< decay of the first moment estimate
  double beta2 = 0.999;                             ///< decay of the second moment estimate
  double eps = 1e-8;                                ///< added to the denominator
  double weight_decay = 0;                          ///< L2 penalty, added to the gradient

  /// Checks the betas and eps; Optimizer checks the common options. @throws Error for a beta outside [0, 1), and for an
  /// eps that is negative or not finite.
  void check() const { detail::check_adam(*this); }
};
/// The options of torch.optim.AdamW, without amsgrad.
struct AdamWOptions {
  static constexpr const char* optimizer = "AdamW";  ///< name in messages
  double lr = 1e-3;                                  ///< learning rate
  double beta1 = 0.9;                                ///< decay of the first moment estimate
  double beta2 = 0.999;                              ///< decay of the second moment estimate
  double eps = 1e-8;                                 ///< added to the denominator
  double weight_decay = 0.01;                        ///< decoupled weight decay

  /// Checks the betas and eps; Optimizer checks the common options. @throws Error for a beta outside [0, 1), and for an
  /// eps that is negative or not finite.
  void check() const { detail::check_adam(*this); }
};

/// The rule of Adam and AdamW.
template <class T>
struct AdamRule {
  using Element = T;                            ///< the type of a parameter
  static constexpr bool has_gpu_kernel = true;  ///< whether it runs on a GPU
  static constexpr std::array moments{
      Moment{.name = "first"},
      Moment{.name = "second", .is_nonnegative = true}};  ///< the moment estimates of each element

  T one_minus_beta1;            ///< 1 - beta1
  T beta2;                      ///< decay of the second moment estimate
  T one_minus_beta2;            ///< 1 - beta2
  T eps;                        ///< added to the denominator
  T rate;                       ///< lr / (1 - beta1^t)
  T inv_sqrt_bias_correction2;  ///< 1 / sqrt(1 - beta2^t)
  T l2 = 0;                     ///< weight_decay of Adam
  T decay_factor = 1;           ///< 1 - lr weight_decay of AdamW

  /// Computes the constants of one parameter and step.
  AdamRule(const AdamOptions& options, const UpdateSettings& settings) : AdamRule(Common(), options, settings) {
    l2 = static_cast<T>(settings.weight_decay);
  }
  /// Computes the constants of one parameter and step for AdamW.
  AdamRule(const AdamWOptions& options, const UpdateSettings& settings) : AdamRule(Common(), options, settings) {
    decay_factor = static_cast<T>(1 - settings.lr * settings.weight_decay);
  }

  /// Returns whether the update reads the moment estimates.
  HEDDLE_HD bool needs_moments() const { return true; }
  /// Returns whether an element with zero gradient and zero moment estimates stays as it is.
  bool keeps_stateless_rows() const { return l2 == 0 && decay_factor == 1 && eps > 0; }

  /// Updates one element and its moment estimates.
  HEDDLE_FORMULA template <class V>
  HEDDLE_HD void operator()(V& p, V g, V* m_and_v) const {
    using std::sqrt;
    auto &m = m_and_v[0], &v = m_and_v[1];
    g = g + l2 * p;
    v = sum_of_products(beta2, v, one_minus_beta2, g * g);
    m = m + one_minus_beta1 * (g - m);
    p = decay_factor * p - rate * m / (sqrt(v) * inv_sqrt_bias_correction2 + eps);
  }

 private:
  // Returns a * x + b * y. nvcc would fuse one of the products with the sum, and not the same one in each place.
  HEDDLE_FORMULA template <class V, bool is_float = std::is_same_v<V, float>>
  HEDDLE_HD static V sum_of_products(T a, V x, T b, V y) {
#ifdef __CUDA_ARCH__
    if constexpr (is_float) return __fmaf_rn(b, y, __fmul_rn(a, x));
#endif
    return a * x + b * y;
  }

  struct Common {};
  template <class Options>
  AdamRule(Common, const Options& options, const UpdateSettings& settings)
      : one_minus_beta1(static_cast<T>(1 - options.beta1)),
        beta2(static_cast<T>(options.beta2)),
        one_minus_beta2(static_cast<T>(1 - options.beta2)),
        eps(static_cast<T>(options.eps)),
        rate(static_cast<T>(settings.lr / (1 - std::pow(options.beta1, static_cast<double>(settings.step))))),
        inv_sqrt_bias_correction2(
            static_cast<T>(1 / std::sqrt(1 - std::pow(options.beta2, static_cast<double>(settings.step))))) {}
};

}  // namespace heddle::optim
