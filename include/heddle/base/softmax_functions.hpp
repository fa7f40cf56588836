// The formulas of softmax and log_softmax, written once for scalars and for Eigen arrays (the CPU's vector units).
#pragma once
#include <limits>

#include <heddle/base/scalar_functions.hpp>

namespace heddle::kernel {

// Returns exp(x), which is exactly 0 at -infinity. Eigen clamps the argument and returns a subnormal number there, so the smallest normal
// number is subtracted.
template <class E>
HEDDLE_HD auto exp_or_zero(const E& x) {
  using std::exp;
  using A = Scalar<E>;
  if constexpr (std::is_arithmetic_v<E>)
    return exp(x);
  else
    return (x.exp() - std::numeric_limits<A>::min()).max(A(0));
}

// The formulas of softmax and log_softmax along one axis. value() takes x minus the largest x, e = exp of the difference, and the sum of e.
// gradient() takes dy, y and the sum of `weight(dy, y)`.
struct Softmax {
  template <class X, class E, class S>
  HEDDLE_HD static auto value(const X&, const E& e, const S& sum) {
    return e * inverse(sum);
  }
  template <class S>
  HEDDLE_HD static auto inverse(const S& sum) {
    if constexpr (std::is_arithmetic_v<S>)
      return 1 / sum;
    else
      return sum.inverse();
  }
  template <class V>
  HEDDLE_HD static auto weight(const V& dy, const V& y) {
    return dy * y;
  }
  template <class V, class S>
  HEDDLE_HD static auto gradient(const V& dy, const V& y, const S& sum) {
    return y * (dy - sum);
  }
};
struct LogSoftmax {
  template <class X, class E, class S>
  HEDDLE_HD static auto value(const X& x_less_top, const E&, const S& sum) {
    using std::log;
    return x_less_top - log(sum);
  }
  template <class V>
  HEDDLE_HD static auto weight(const V& dy, const V&) {
    return dy;
  }
  template <class V, class S>
  HEDDLE_HD static auto gradient(const V& dy, const V& y, const S& sum) {
    return dy - exp_or_zero(y) * sum;
  }
};

}  // namespace heddle::kernel
