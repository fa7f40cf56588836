// The formulas of softmax and log_softmax, written once for numbers and for SIMD vectors (cpu/vector.hpp).
#pragma once
#include <limits>

#include <heddle/base/scalar_functions.hpp>

namespace heddle::kernel {

// Returns exp(x), which is exactly 0 at -infinity. SIMD vectors have a function of their own.
HEDDLE_HD inline float exp_or_zero(float x) { return std::exp(x); }
HEDDLE_HD inline double exp_or_zero(double x) { return std::exp(x); }

// The formulas of softmax and log_softmax along one axis. value() takes x minus the largest x, e = exp of the
// difference, and normalizer(sum of e). gradient() takes dy, y and the sum of `weight(dy, y)`.
struct Softmax {
  HEDDLE_FORMULA template <class V, class S = Scalar<V>>
  HEDDLE_HD static auto normalizer(const V& sum) {
    return S(1) / sum;
  }
  HEDDLE_FORMULA template <class V, class S>
  HEDDLE_HD static auto value(const V&, const V& e, const S& normalizer) {
    return e * normalizer;
  }
  HEDDLE_FORMULA template <class V>
  HEDDLE_HD static auto weight(const V& dy, const V& y) {
    return dy * y;
  }
  HEDDLE_FORMULA template <class V, class S>
  HEDDLE_HD static auto gradient(const V& dy, const V& y, const S& sum) {
    return y * (dy - sum);
  }
};
struct LogSoftmax {
  HEDDLE_FORMULA template <class V>
  HEDDLE_HD static auto normalizer(const V& sum) {
    using std::log;
    return log(sum);
  }
  HEDDLE_FORMULA template <class V, class S>
  HEDDLE_HD static auto value(const V& x_less_top, const V&, const S& normalizer) {
    return x_less_top - normalizer;
  }
  HEDDLE_FORMULA template <class V>
  HEDDLE_HD static auto weight(const V& dy, const V&) {
    return dy;
  }
  HEDDLE_FORMULA template <class V, class S>
  HEDDLE_HD static auto gradient(const V& dy, const V& y, const S& sum) {
    return dy - exp_or_zero(y) * sum;
  }
};

}  // namespace heddle::kernel
