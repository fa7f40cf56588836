// Losses that compare two tensors, and cosine_similarity and normalize. All compute in the accumulator type (float for
// bf16) and round once. cross_entropy.hpp has the cross-entropy of classes.
#pragma once
#include <heddle/ops/expand.hpp>
#include <heddle/ops/loss_reduction.hpp>
#include <heddle/ops/statistics.hpp>

namespace heddle {

/// The option of mse_loss and l1_loss.
struct LossOptions {
  Reduction reduction = Reduction::mean;  ///< how the elements' losses are combined
};

namespace detail {

// Throws ShapeError if the shapes differ. PyTorch broadcasts them, except in bce_with_logits, but different shapes are
// usually a mistake.
template <class T>
void require_same_shape(const char* op, const Tensor<T>& x, const Tensor<T>& target) {
  require_same_device(op, {"x", x}, {"target", target});
  require<ShapeError>(x.shape() == target.shape(), op, ": x ", x.shape(), " and target ", target.shape(),
                      " must have the same shape; expand or reshape one of them");
}

}  // namespace detail

/// Returns the squared differences, reduced. @throws ShapeError unless both have the same shape.
template <Floating T>
Tensor<T> mse_loss(const Tensor<T>& x, const Tensor<T>& target, const LossOptions& options = {}) {
  detail::require_same_shape("mse_loss", x, target);
  const Tensor<Acc<T>> difference = cast<Acc<T>>(x) - cast<Acc<T>>(target);
  return cast<T>(detail::reduce_loss("mse_loss", difference * difference, options.reduction));
}

/// Returns the absolute differences, reduced. @throws ShapeError unless both have the same shape.
template <Floating T>
Tensor<T> l1_loss(const Tensor<T>& x, const Tensor<T>& target, const LossOptions& options = {}) {
  detail::require_same_shape("l1_loss", x, target);
  return cast<T>(detail::reduce_loss("l1_loss", abs(cast<Acc<T>>(x) - cast<Acc<T>>(target)), options.reduction));
}

/// The options of torch.nn.functional.binary_cross_entropy_with_logits.
template <class T>
struct BceOptions {
  Tensor<T> weight = {};                  ///< factors of the losses; must broadcast to the shape of x
  Tensor<T> pos_weight = {};              ///< factors of the positive terms, for example one per class, [C]
  Reduction reduction = Reduction::mean;  ///< how the elements' losses are combined
};
/// Returns the binary cross-entropy of logits with targets t in [0, 1], reduced:
/// (1 - t) x + (1 + (pos_weight - 1) t) log(1 + e^-x), times weight. No exponential overflows.
/// @throws ShapeError unless x and target have the same shape, to which the weights broadcast.
template <Floating T>
Tensor<T> bce_with_logits(const Tensor<T>& x, const Tensor<T>& target,
                          const std::type_identity_t<BceOptions<T>>& options = {}) {
  using A = Acc<T>;
  detail::require_same_shape("bce_with_logits", x, target);
  const auto require_factors = [&](const char* name, const Tensor<T>& factors) {
    if (factors)
      require<ShapeError>(detail::broadcast_shape("bce_with_logits", {{"x", x}, {name, factors}}) == x.shape(),
                          "bce_with_logits: ", name, ' ', factors.shape(), " does not broadcast to x ", x.shape());
  };
  require_factors("weight", options.weight);
  require_factors("pos_weight", options.pos_weight);
  const Tensor<A> logits = cast<A>(x), t = cast<A>(target);
  Tensor<A> log_term = softplus(-logits);
  if (options.pos_weight) log_term = log_term * (1 + (cast<A>(options.pos_weight) - 1) * t);
  Tensor<A> loss = (1 - t) * logits + log_term;
  if (options.weight) loss = loss * cast<A>(options.weight);
  return cast<T>(detail::reduce_loss("bce_with_logits", loss, options.reduction));
}

/// The options of torch.nn.functional.kl_div. Reduction::batch_mean gives the mathematical definition, averaged over
/// axis 0.
struct KlDivOptions {
  bool log_target = false;                ///< whether target holds log-probabilities too
  Reduction reduction = Reduction::mean;  ///< how the elements' terms are combined
};
/// Returns the Kullback-Leibler divergence, target * (log target - x) for log-probabilities x, reduced, with 0 log 0 =
/// 0. With log_target it is exp(target) * (target - x), which is NaN for a target of -infinity, as in PyTorch. @throws
/// ShapeError unless both have the same shape.
template <Floating T>
Tensor<T> kl_div(const Tensor<T>& x, const Tensor<T>& target, const KlDivOptions& options = {}) {
  using A = Acc<T>;
  detail::require_same_shape("kl_div", x, target);
  const Tensor<A> log_p = cast<A>(x), t = cast<A>(target);
  const auto loss = [&]() -> Tensor<A> {
    if (options.log_target) return exp(t) * (t - log_p);
    const Tensor<bool> is_zero = t == 0;
    return t * masked_fill(log(masked_fill(t, is_zero, 1)), is_zero, 0) - t * log_p;
  };
  return cast<T>(detail::reduce_loss("kl_div", loss(), options.reduction));
}

/// Returns the cosine of the angle between a and b along an axis, with broadcasting: a b / (max(|a|, eps) max(|b|,
/// eps)). @throws ShapeError for shapes that do not broadcast, or if the axis does not exist.
template <Floating T>
Tensor<T> cosine_similarity(const Tensor<T>& a, const Tensor<T>& b, int axis = 1, double eps = 1e-8) {
  using A = Acc<T>;
  require(!std::isnan(eps), "cosine_similarity: eps must not be NaN");
  const Shape shape = detail::broadcast_shape("cosine_similarity", {{"a", a}, {"b", b}});
  detail::require_axis("cosine_similarity", shape, axis);
  const Tensor<A> x = expand(cast<A>(a), shape), y = expand(cast<A>(b), shape);
  const auto length = [&](const Tensor<A>& v) { return clamp(norm(v, 2, axis, true), {.min = eps}); };
  return cast<T>(sum(x / length(x) * (y / length(y)), axis));
}

/// The options of torch.nn.functional.normalize.
struct NormalizeOptions {
  double p = 2;        ///< order of the norm
  int axis = 1;        ///< the axis along which the norm is computed
  double eps = 1e-12;  ///< lower bound of the norm
};
/// Returns x divided by its p-norm along an axis, or by eps if eps is larger. @throws ShapeError and Error as norm()
/// does, and Error for an eps that is NaN.
template <Floating T>
Tensor<T> normalize(const Tensor<T>& x, const NormalizeOptions& options = {}) {
  detail::require_axis("normalize", x.shape(), options.axis);
  require(options.p >= 0, "normalize: p must not be negative or NaN, got ", options.p);
  require(!std::isnan(options.eps), "normalize: eps must not be NaN");
  const Tensor<Acc<T>> wide = cast<Acc<T>>(x);
  return cast<T>(wide / clamp(norm(wide, options.p, options.axis, true), {.min = options.eps}));
}

template <class T, class... Others>
requires Refused<T, Others...>
void mse_loss(const Tensor<T>&, const Others&...) = delete;  // needs one floating-point type: cast<float>(x)
template <class T, class U>
requires Refused<T, Tensor<U>>
void mse_loss(const Tensor<T>&, const Tensor<U>&, const LossOptions&) = delete;  // needs cast<float>(x)
template <class T, class... Others>
requires Refused<T, Others...>
void l1_loss(const Tensor<T>&, const Others&...) = delete;  // needs one floating-point type: cast<float>(x)
template <class T, class U>
requires Refused<T, Tensor<U>>
void l1_loss(const Tensor<T>&, const Tensor<U>&, const LossOptions&) = delete;  // needs cast<float>(x)
template <class T, class... Others>
requires Refused<T, Others...>
void bce_with_logits(const Tensor<T>&, const Others&...) = delete;  // needs one floating-point type: cast<float>(x)
template <class T, class U>
requires Refused<T, Tensor<U>>
void bce_with_logits(const Tensor<T>&, const Tensor<U>&, const BceOptions<float>&) = delete;  // needs cast<float>(x)
template <class T, class... Others>
requires Refused<T, Others...>
void kl_div(const Tensor<T>&, const Others&...) = delete;  // needs one floating-point type: cast<float>(x)
template <class T, class U>
requires Refused<T, Tensor<U>>
void kl_div(const Tensor<T>&, const Tensor<U>&, const KlDivOptions&) = delete;  // needs cast<float>(x)
template <class T, class... Others>
requires Refused<T, Others...>
void cosine_similarity(const Tensor<T>&, const Others&...) = delete;  // needs one floating-point type: cast<float>(x)
template <std::integral T, class... Others>
void normalize(const Tensor<T>&, const Others&...) = delete;  // needs cast<float>(x)
template <std::integral T>
void normalize(const Tensor<T>&, const NormalizeOptions&) = delete;  // needs cast<float>(x)

}  // namespace heddle
