// map<F>: F::f on every element, and the functions made of it. A new activation is one struct in math.hpp and a line here.
#pragma once
#include <unsupported/Eigen/SpecialFunctions>

#include <heddle/autograd.hpp>
#include <heddle/eigen.hpp>
#include <heddle/math.hpp>
#include <heddle/parallel.hpp>

namespace heddle {

namespace kernel {

constexpr Index elements_per_piece = 16384;  // a few microseconds of the cheapest function

template <class F, class T>
void map(Cpu, F, View<const T, 1> x, View<T, 1> y) {
  parallel(x.extent[0], elements_per_piece, [&](Index first, Index last) {
    in_stretches<T>(first, last,
                    [&](Index i, Index n) { store(array(y.data + i, n), F::f(load(array(x.data + i, n)))); });
  });
}

template <class F, class T>
void map_backward(Cpu, F, View<const T, 1> dy, View<const T, 1> x, View<const T, 1> y, View<T, 1> dx) {
  parallel(x.extent[0], elements_per_piece, [&](Index first, Index last) {
    in_stretches<T>(first, last, [&](Index i, Index n) {
      const auto at = [&](View<const T, 1> v) { return load(array(v.data + i, n)); };
      store(array(dx.data + i, n), at(dy) * F::df(at(x), at(y)));
    });
  });
}

}  // namespace kernel

// F::f of each element; the derivative is dy * F::df(x, y).
template <class F, class T>
Tensor<T> map(const char* op, const Tensor<T>& x) {
  Tensor<T> y = like(x);
  on(x, [&](auto device) { kernel::map(device, F{}, view<1>(x), view<1>(y)); });

  return record(op, y, inputs(x), [=](const Tensor<T>& dy) {
    Tensor<T> dx = like(x);
    on(x, [&](auto device) { kernel::map_backward(device, F{}, view<1>(dy), view<1>(x), view<1>(y), view<1>(dx)); });
    return dx;
  });
}

// e^x.
template <class T>
Tensor<T> exp(const Tensor<T>& x) {
  return map<Exp>("exp", x);
}
// The natural logarithm: NaN below 0, -infinity at 0.
template <class T>
Tensor<T> log(const Tensor<T>& x) {
  return map<Log>("log", x);
}
// NaN below 0; the derivative at 0 is infinite.
template <class T>
Tensor<T> sqrt(const Tensor<T>& x) {
  return map<Sqrt>("sqrt", x);
}
// The derivative is 1 - y^2.
template <class T>
Tensor<T> tanh(const Tensor<T>& x) {
  return map<Tanh>("tanh", x);
}
// 1 / (1 + e^-x), by tanh, so that no exponential overflows.
template <class T>
Tensor<T> sigmoid(const Tensor<T>& x) {
  return map<Sigmoid>("sigmoid", x);
}
// max(x, 0); the derivative at 0 is 0.
template <class T>
Tensor<T> relu(const Tensor<T>& x) {
  return map<Relu>("relu", x);
}
// x times the normal distribution function at x, the exact (erf) form.
template <class T>
Tensor<T> gelu(const Tensor<T>& x) {
  return map<Gelu>("gelu", x);
}
// The tanh approximation of gelu; it differs from it by up to 4.7e-4.
template <class T>
Tensor<T> gelu_tanh(const Tensor<T>& x) {
  return map<GeluTanh>("gelu_tanh", x);
}

}  // namespace heddle
