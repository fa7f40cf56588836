#pragma once
#include <heddle/core/create.hpp>
#include <heddle/nn/clone.hpp>
#include <heddle/nn/init.hpp>
#include <heddle/ops/residual_layer_norm.hpp>

namespace heddle::nn {

/// A norm over the last axis, like torch.nn.LayerNorm. Files name gamma `weight` and beta `bias`.
template <Floating T = float>
struct LayerNorm {
  Parameter<T> gamma;                ///< [D] factors; weight in files
  std::optional<Parameter<T>> beta;  ///< [D] summands; bias in files
  double eps;                        ///< added to the variance

  /// Initializes gamma to ones and beta to zeros. @throws ShapeError for a D below 1, and Error for an eps that is
  /// negative or not finite.
  [[gnu::cold]] explicit LayerNorm(Index D, double epsilon = 1e-5, bool with_bias = true)
      : gamma(constant_init<T>({require_size("LayerNorm", "D", D)}, 1)), eps(epsilon) {
    heddle::detail::require_nonnegative("LayerNorm", "eps", eps);
    if (with_bias) beta = constant_init<T>({D}, 0);
  }
  /// Copies the members of `other` for clone().
  LayerNorm(const LayerNorm& other, Cloning& c) : gamma(c(other.gamma)), beta(c(other.beta)), eps(other.eps) {}

  /// Returns beta as activations of type A; zeros without it.
  template <Floating A>
  Tensor<A> summands() const {  // [D]
    return beta ? beta->template as<A>() : zeros<A>(gamma.shape(), gamma.device());
  }

  /// Returns (x - mean) / sqrt(variance + eps) * gamma + beta, with mean and variance of the last axis. @throws
  /// ShapeError if the last axis of x does not have extent D, and Error for an eps that is negative or not finite.
  template <Floating A>
  Tensor<A> operator()(const Tensor<A>& x) const {  // [..., D]
    return layer_norm(x, gamma.template as<A>(), summands<A>(), eps);
  }

  /// Returns the norm of x + dropout(branch, p, random), in one pass. @throws ShapeError if the last axis of x does not
  /// have extent D or if branch has another shape; Error for a p outside [0, 1), before or after rounding, and for an
  /// eps that is negative or not finite.
  template <Floating A>
  Tensor<A> operator()(const Tensor<A>& x, const Tensor<A>& branch, double p, Random* random) const {  // [..., D]
    return residual_layer_norm(x, branch, gamma.template as<A>(), summands<A>(), eps, p, random);
  }
  template <std::integral A>
  void operator()(const Tensor<A>&, const auto&...) const = delete;  // needs cast<float>(x)

  /// Returns dropout((*this)(x), p, random), in one pass. @throws ShapeError and Error as above.
  template <Floating A>
  Tensor<A> dropped(const Tensor<A>& x, double p, Random* random) const {  // [..., D]
    return layer_norm(x, gamma.template as<A>(), summands<A>(), eps, p, random);
  }
  /// Returns dropout((*this)(x, branch, branch_p, random), p, random), in one pass. @throws ShapeError and Error as
  /// above.
  template <Floating A>
  Tensor<A> dropped(const Tensor<A>& x, const Tensor<A>& branch, double branch_p, double p,
                    Random* random) const {  // [..., D]
    return residual_layer_norm(x, branch, gamma.template as<A>(), summands<A>(), eps, branch_p, random, p);
  }

  /// Returns the sum x + dropout(branch, p, random) and its norm; the forward takes one pass. @throws ShapeError and
  /// Error as above.
  template <Floating A>
  SumAndNorm<A> with_sum(const Tensor<A>& x, const Tensor<A>& branch, double p, Random* random) const {  // [..., D]
    return residual_layer_norm_with_sum(x, branch, gamma.template as<A>(), summands<A>(), eps, p, random);
  }

  /// Visits the members.
  static void visit(auto& self, auto&& f) {
    f("weight", self.gamma);
    f("bias", self.beta);
  }
};

}  // namespace heddle::nn
