// Scalar functions with their derivatives, written once: V is a number or a SIMD vector (cpu/vector.hpp).
#pragma once
#include <cmath>
#include <limits>
#include <type_traits>

#include <heddle/base/build.hpp>

namespace heddle::kernel {

// The type of a lane of V: V itself if it is a number.
template <class V>
struct ScalarOf {
  using type = typename V::Scalar;
};
template <>
struct ScalarOf<float> {
  using type = float;
};
template <>
struct ScalarOf<double> {
  using type = double;
};
template <class V>
using Scalar = typename ScalarOf<V>::type;

// Returns a where the condition holds, b elsewhere. There is an overload for vectors.
template <class V>
HEDDLE_HD V select(bool condition, V a, V b) {
  return condition ? a : b;
}

// A function F has F::f(x), its value, and F::df(x, y), its derivative at x where y = f(x).

struct Exp {
  template <class V>
  HEDDLE_HD static auto f(const V& x) {
    using std::exp;
    if constexpr (std::is_arithmetic_v<V>) {
      return exp(x);
    } else {  // the vectorized exp() of a very negative number, or of -infinity, may be subnormal
      constexpr auto rounded_to_zero = Scalar<V>(std::is_same_v<Scalar<V>, double> ? -745.2 : -104);
      return select(x < rounded_to_zero, V(0), exp(x));
    }
  }
  template <class V>
  HEDDLE_HD static auto df(const V&, const V& y) {
    return y;
  }
};

// The natural logarithm: NaN below 0, -infinity at 0.
struct Log {
  template <class V>
  HEDDLE_HD static auto f(const V& x) {
    using std::log;
    return log(x);
  }
  template <class V>
  HEDDLE_HD static auto df(const V& x, const V&) {
    return Scalar<V>(1) / x;
  }
};

// The square root: NaN below 0; the derivative at 0 is infinite.
struct Sqrt {
  template <class V>
  HEDDLE_HD static auto f(const V& x) {
    using std::sqrt;
    return sqrt(x);
  }
  template <class V>
  HEDDLE_HD static auto df(const V&, const V& y) {
    return Scalar<V>(0.5) / y;
  }
};

// The hyperbolic tangent. The derivative is computed from the value: 1 - y^2.
struct Tanh {
  template <class V>
  HEDDLE_HD static auto f(const V& x) {
    using std::tanh;
    return tanh(x);
  }
  template <class V>
  HEDDLE_HD static auto df(const V&, const V& y) {
    return Scalar<V>(1) - y * y;
  }
};

// max(x, 0). NaN stays NaN. The derivative at 0 is 0.
struct Relu {
  template <class V>
  HEDDLE_HD static auto f(const V& x) {
    return select(x <= V(0), V(0), x);
  }
  template <class V>
  HEDDLE_HD static auto df(const V& x, const V&) {
    return select(x <= V(0), V(0), V(1));
  }
};

// The absolute value. The derivative at 0 is 0.
struct Abs {
  template <class V>
  HEDDLE_HD static auto f(const V& x) {
    using std::abs;
    return abs(x);
  }
  template <class V>
  HEDDLE_HD static auto df(const V& x, const V&) {
    return select(x > V(0), V(1), select(x < V(0), V(-1), V(0)));
  }
};

// log(1 + x), also accurate near 0. The value is NaN below -1 and -infinity at -1.
struct Log1p {
  template <class V>
  HEDDLE_HD static auto f(const V& x) {
    using std::log1p;
    return log1p(x);
  }
  template <class V>
  HEDDLE_HD static auto df(const V& x, const V&) {
    return Scalar<V>(1) / (x + Scalar<V>(1));
  }
};

struct Erf {
  template <class V>
  HEDDLE_HD static auto f(const V& x) {
    using std::erf;
    return erf(x);
  }
  template <class V>
  HEDDLE_HD static auto df(const V& x, const V&) {
    using std::exp;
    using S = Scalar<V>;
    return exp(x * x * S(-1)) * S(1.1283791670955126);  // 2 / sqrt(pi)
  }
};

// The sigmoid 1 / (1 + exp(-x)). If the exponential overflows, the value is 0, as it should be; small values keep all
// digits.
struct Sigmoid {
  template <class V>
  HEDDLE_HD static auto f(const V& x) {
    using S = Scalar<V>;
    return S(1) / (Exp::f(x * S(-1)) + S(1));
  }
  template <class V>
  HEDDLE_HD static auto df(const V&, const V& y) {
    return y * (Scalar<V>(1) - y);
  }
};

// log(1 + e^x) = max(x, 0) + log(1 + e^-|x|), whose exponential does not overflow.
struct Softplus {
  template <class V>
  HEDDLE_HD static auto f(const V& x) {
    using std::log1p;
    return Relu::f(x) + log1p(Exp::f(Abs::f(x) * Scalar<V>(-1)));
  }
  template <class V>
  HEDDLE_HD static auto df(const V& x, const V&) {
    return Sigmoid::f(x);
  }
};

// x * sigmoid(x)
struct Silu {
  template <class V>
  HEDDLE_HD static auto f(const V& x) {
    return x * Sigmoid::f(x);
  }
  template <class V>
  HEDDLE_HD static auto df(const V& x, const V&) {
    using S = Scalar<V>;
    return Sigmoid::f(x) * (x * Sigmoid::f(x * S(-1)) + S(1));
  }
};

// x * Phi(x), with Phi the standard normal distribution function: the exact form.
struct Gelu {
  template <class V>
  HEDDLE_HD static auto phi(const V& x) {
    using std::erf;
    using S = Scalar<V>;
    return (erf(x * S(0.7071067811865476)) + S(1)) * S(0.5);
  }
  template <class V>
  HEDDLE_HD static auto f(const V& x) {
    return x * phi(x);
  }
  template <class V>
  HEDDLE_HD static auto df(const V& x, const V&) {
    using std::exp;
    using S = Scalar<V>;
    return phi(x) + x * exp(x * x * S(-0.5)) * S(0.3989422804014327);
  }
};

// Hendrycks and Gimpel's approximation, x / 2 * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
struct GeluTanh {
  template <class V>
  HEDDLE_HD static auto inner(const V& x) {
    using std::tanh;
    using S = Scalar<V>;
    return tanh(x * (x * x * S(0.035677408136300125) + S(0.7978845608028654)));
  }
  template <class V>
  HEDDLE_HD static auto f(const V& x) {
    using S = Scalar<V>;
    return x * (inner(x) + S(1)) * S(0.5);
  }
  template <class V>
  HEDDLE_HD static auto df(const V& x, const V&) {
    using S = Scalar<V>;
    const auto t = inner(x);
    return (t + S(1)) * S(0.5) + x * (S(1) - t * t) * (x * x * S(0.10703222440890037) + S(0.7978845608028654)) * S(0.5);
  }
};

}  // namespace heddle::kernel
