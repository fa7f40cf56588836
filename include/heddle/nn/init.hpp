// Initial values: by default from the distributions of PyTorch's modules, drawn with heddle's generator.
#pragma once
#include <heddle/base/random.hpp>
#include <heddle/nn/parameter.hpp>

namespace heddle::nn {

/// A scope in which modules that are created on its thread get uninitialized weights. This is faster and takes less
/// memory than drawing them, for a model whose weights are then read from a file. Constant values, such as those of
/// norms, and fixed tables are initialized as usual.
class NoInit {
 public:
  NoInit() { active_ = true; }
  NoInit(const NoInit&) = delete;
  NoInit& operator=(const NoInit&) = delete;
  ~NoInit() { active_ = previous_; }

  /// Returns whether a NoInit exists on the calling thread.
  static bool is_active() { return active_; }

 private:
  static inline thread_local bool active_ = false;
  bool previous_ = active_;
};

/// Returns a parameter with uniform values in ±1/sqrt(fan_in), like the weight and bias of torch.nn.Linear (Kaiming
/// uniform, a = sqrt(5)).
template <class T>
Parameter<T> linear_init(Shape shape, Index fan_in, Random& random) {
  if (NoInit::is_active()) return Parameter<T>(Tensor<T>(shape));
  const double bound = fan_in > 0 ? 1 / std::sqrt(static_cast<double>(fan_in)) : 0;
  return Parameter<T>(uniform<T>(shape, -bound, bound, random));
}

/// Returns a parameter with standard normal values, like the weight of torch.nn.Embedding.
template <class T>
Parameter<T> embedding_init(Shape shape, Random& random) {
  return Parameter<T>(NoInit::is_active() ? Tensor<T>(shape) : randn<T>(shape, random));
}

/// Returns a parameter with one value everywhere, such as the ones and zeros that norms begin with.
template <class T>
Parameter<T> constant_init(Shape shape, double value) {
  return Parameter<T>(Tensor<T>(shape, std::vector<T>(static_cast<std::size_t>(shape.size()), static_cast<T>(value))));
}

namespace detail {

// The fan-in and fan-out of a weight [out, in, ...].
struct Fans {
  double in, out;

  // Throws ShapeError for a weight of fewer than two axes.
  Fans(const char* op, const Shape& shape) {
    require<ShapeError>(shape.rank() >= 2, op, ": the weight ", shape, " must have at least 2 axes");
    const auto rest = static_cast<double>(shape.product(2, shape.rank()));
    in = static_cast<double>(shape[1]) * rest;
    out = static_cast<double>(shape[0]) * rest;
  }
};

}  // namespace detail

namespace init {

/// Writes values of a normal distribution. @throws Error for a standard deviation that is negative or not finite, and
/// for a mean that is not finite.
template <class T>
void normal(Parameter<T>& p, Random& random, double mean = 0, double deviation = 1) {
  heddle::detail::require_nonnegative("normal", "deviation", deviation);
  require(std::isfinite(mean), "normal: mean must be finite, got ", mean);
  Tensor<T> values = randn<T>(p.shape(), random);
  T* const v = values.data();
  for (Index i = 0; i < values.size(); ++i) v[i] = static_cast<T>(mean + deviation * static_cast<double>(v[i]));
  p.assign(values);
}

/// Writes uniform values in [lo, hi), rounded to T, which may round up to hi. @throws Error unless lo <= hi and both
/// are finite.
template <class T>
void uniform(Parameter<T>& p, Random& random, double lo = 0, double hi = 1) {
  p.assign(heddle::uniform<T>(p.shape(), lo, hi, random));
}

/// Writes values of a normal distribution that is truncated at lo and hi: values outside are drawn again. @throws Error
/// unless [lo, hi] holds more than a hundredth of the distribution, and for a standard deviation that is negative or
/// not finite.
template <class T>
void trunc_normal(Parameter<T>& p, Random& random, double mean = 0, double deviation = 1, double lo = -2,
                  double hi = 2) {
  heddle::detail::require_nonnegative("trunc_normal", "deviation", deviation);
  const auto below = [&](double x) { return 0.5 * std::erfc((mean - x) / (deviation * std::sqrt(2.0))); };
  require(below(hi) - below(lo) > 0.01, "trunc_normal: [", lo, ", ", hi,
          "] holds less than a hundredth of the distribution with mean ", mean, " and deviation ", deviation);
  Tensor<T> values(p.shape());
  T* const v = values.data();
  constexpr Index most = 65536;  // numbers that are drawn at a time
  Tensor<double> drawn;
  for (Index i = 0, next = 0; i < values.size(); ++next) {
    if (!drawn || next == drawn.size()) drawn = randn<double>({std::min(values.size() - i, most)}, random), next = 0;
    const double x = mean + deviation * std::as_const(drawn).data()[next];
    if (lo <= x && x <= hi) v[i++] = static_cast<T>(x);
  }
  p.assign(values);
}

/// Writes values uniform in ±gain sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010). @throws ShapeError for a
/// weight of fewer than two axes, and Error for a gain that is negative or not finite.
template <class T>
void xavier_uniform(Parameter<T>& p, Random& random, double gain = 1) {
  heddle::detail::require_nonnegative("xavier_uniform", "gain", gain);
  const detail::Fans fans("xavier_uniform", p.shape());
  const double bound = gain * std::sqrt(6 / std::max(fans.in + fans.out, 1.0));
  uniform(p, random, -bound, bound);
}

/// Writes values uniform in ±sqrt(6 / ((1 + a^2) fan_in)) (He et al. 2015), for a leaky ReLU of negative slope a.
/// @throws ShapeError for a weight of fewer than two axes, and Error for an a that is not finite.
template <class T>
void kaiming_uniform(Parameter<T>& p, Random& random, double a = 0) {
  require(std::isfinite(a), "kaiming_uniform: a must be finite, got ", a);
  const detail::Fans fans("kaiming_uniform", p.shape());
  const double bound = std::sqrt(6 / ((1 + a * a) * std::max(fans.in, 1.0)));
  uniform(p, random, -bound, bound);
}

}  // namespace init

/// Checks a size of a module, and returns it. @throws ShapeError unless it is at least 1.
inline Index require_size(const char* module, const char* what, Index size) {
  require<ShapeError>(size >= 1, module, ": ", what, " must be at least 1, got ", size);
  return size;
}

}  // namespace heddle::nn
