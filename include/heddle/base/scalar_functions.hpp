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
HEDDLE_FORMULA template <class V>
HEDDLE_HD V select(bool condition, V a, V b) {
  return condition ? a : b;
}

// A function F has F::f(x), its value, and F::df(x, y), its derivative at x where y = f(x).

struct Exp {
  HEDDLE_FORMULA template <class V, class S = Scalar<V>, bool number = std::is_same_v<V, S>>
  HEDDLE_HD static auto f(const V& x) {
    using std::exp;
    if constexpr (number) {
      return exp(x);
    } else {  // the vectorized exp() of a very negative number, or of -infinity, may be subnormal
      constexpr auto rounded_to_zero = S(std::is_same_v<S, double> ? -745.2 : -104);
      return select(x < rounded_to_zero, V(0), exp(x));
    }
  }
  HEDDLE_FORMULA template <class V>
  HEDDLE_HD static auto df(const V&, const V& y) {
    return y;
  }
};

// The natural logarithm: NaN below 0, -infinity at 0.
struct Log {
  HEDDLE_FORMULA template <class V>
  HEDDLE_HD static auto f(const V& x) {
    using std::log;
    return log(x);
  }
  HEDDLE_FORMULA template <class V, class S = Scalar<V>>
  HEDDLE_HD static auto df(const V& x, const V&) {
    return S(1) / x;
  }
};

// The square root: NaN below 0; the derivative at 0 is infinite.
struct Sqrt {
  HEDDLE_FORMULA template <class V>
  HEDDLE_HD static auto f(const V& x) {
    using std::sqrt;
    return sqrt(x);
  }
  HEDDLE_FORMULA template <class V, class S = Scalar<V>>
  HEDDLE_HD static auto df(const V&, const V& y) {
    return S(0.5) / y;
  }
};

// The hyperbolic tangent. The derivative is computed from the value: 1 - y^2.
struct Tanh {
  HEDDLE_FORMULA template <class V>
  HEDDLE_HD static auto f(const V& x) {
    using std::tanh;
    return tanh(x);
  }
  HEDDLE_FORMULA template <class V, class S = Scalar<V>>
  HEDDLE_HD static auto df(const V&, const V& y) {
    return S(1) - y * y;
  }
};

// max(x, 0). NaN stays NaN. The derivative at 0 is 0.
struct Relu {
  HEDDLE_FORMULA template <class V>
  HEDDLE_HD static auto f(const V& x) {
    return select(x <= V(0), V(0), x);
  }
  HEDDLE_FORMULA template <class V>
  HEDDLE_HD static auto df(const V& x, const V&) {
    return select(x <= V(0), V(0), V(1));
  }
};

// The absolute value. The derivative at 0 is 0.
struct Abs {
  HEDDLE_FORMULA template <class V>
  HEDDLE_HD static auto f(const V& x) {
    using std::abs;
    return abs(x);
  }
  HEDDLE_FORMULA template <class V>
  HEDDLE_HD static auto df(const V& x, const V&) {
    return select(x > V(0), V(1), select(x < V(0), V(-1), V(0)));
  }
};

// log(1 + x), also accurate near 0. The value is NaN below -1 and -infinity at -1.
struct Log1p {
  HEDDLE_FORMULA template <class V>
  HEDDLE_HD static auto f(const V& x) {
    using std::log1p;
    return log1p(x);
  }
  HEDDLE_FORMULA template <class V, class S = Scalar<V>>
  HEDDLE_HD static auto df(const V& x, const V&) {
    return S(1) / (x + S(1));
  }
};

struct Erf {
  HEDDLE_FORMULA template <class V>
  HEDDLE_HD static auto f(const V& x) {
    using std::erf;
    return erf(x);
  }
  HEDDLE_FORMULA template <class V, class S = Scalar<V>>
  HEDDLE_HD static auto df(const V& x, const V&) {
    using std::exp;
    return exp(x * x * S(-1)) * S(1.1283791670955126);  // 2 / sqrt(pi)
  }
};

// The sigmoid 1 / (1 + exp(-x)). If the exponential overflows, the value is 0, as it should be; small values keep all
// digits.
struct Sigmoid {
  HEDDLE_FORMULA template <class V, class S = Scalar<V>>
  HEDDLE_HD static auto f(const V& x) {
    return S(1) / (Exp::f(x * S(-1)) + S(1));
  }
  HEDDLE_FORMULA template <class V, class S = Scalar<V>>
  HEDDLE_HD static auto df(const V&, const V& y) {
    return y * (S(1) - y);
  }
};

// log(1 + e^x) = max(x, 0) + log(1 + e^-|x|), whose exponential does not overflow.
struct Softplus {
  HEDDLE_FORMULA template <class V, class S = Scalar<V>>
  HEDDLE_HD static auto f(const V& x) {
    using std::log1p;
    return Relu::f(x) + log1p(Exp::f(Abs::f(x) * S(-1)));
  }
  HEDDLE_FORMULA template <class V>
  HEDDLE_HD static auto df(const V& x, const V&) {
    return Sigmoid::f(x);
  }
};

// x * sigmoid(x)
struct Silu {
  HEDDLE_FORMULA template <class V>
  HEDDLE_HD static auto f(const V& x) {
    return x * Sigmoid::f(x);
  }
  HEDDLE_FORMULA template <class V, class S = Scalar<V>>
  HEDDLE_HD static auto df(const V& x, const V&) {
    return Sigmoid::f(x) * (x * Sigmoid::f(x * S(-1)) + S(1));
  }
};

// x * Phi(x), with Phi the standard normal distribution function: the exact form.
struct Gelu {
  HEDDLE_FORMULA template <class V, class S = Scalar<V>>
  HEDDLE_HD static auto phi(const V& x) {
    using std::erf;
    return (erf(x * S(0.7071067811865476)) + S(1)) * S(0.5);
  }
  HEDDLE_FORMULA template <class V>
  HEDDLE_HD static auto f(const V& x) {
    return x * phi(x);
  }
  HEDDLE_FORMULA template <class V, class S = Scalar<V>>
  HEDDLE_HD static auto df(const V& x, const V&) {
    using std::exp;
    return phi(x) + x * exp(x * x * S(-0.5)) * S(0.3989422804014327);
  }
};

// Hendrycks and Gimpel's approximation, x / 2 * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
struct GeluTanh {
  HEDDLE_FORMULA template <class V, class S = Scalar<V>>
  HEDDLE_HD static auto inner(const V& x) {
    using std::tanh;
    return tanh(x * (x * x * S(0.035677408136300125) + S(0.7978845608028654)));
  }
  HEDDLE_FORMULA template <class V, class S = Scalar<V>>
  HEDDLE_HD static auto f(const V& x) {
    return x * (inner(x) + S(1)) * S(0.5);
  }
  HEDDLE_FORMULA template <class V, class S = Scalar<V>>
  HEDDLE_HD static auto df(const V& x, const V&) {
    const auto t = inner(x);
    return (t + S(1)) * S(0.5) + x * (S(1) - t * t) * (x * x * S(0.10703222440890037) + S(0.7978845608028654)) * S(0.5);
  }
};

}  // namespace heddle::kernel
