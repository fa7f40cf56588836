// Functions of one element: exp, log, ..., silu. A new one is a struct in base/scalar_functions.hpp, a function here
// and, for the GPU, a line in cuda/map.cu.
#pragma once
#include <heddle/autograd/record.hpp>
#include <heddle/base/scalar_functions.hpp>
#include <heddle/base/threads.hpp>
#include <heddle/cpu/vector.hpp>

namespace heddle {

namespace kernel {

template <class F, class T>
void map(Cpu, F, View<const T, 1> x, View<T, 1> y) {
  parallel(x.extent[0], element_grain, [&](Index first, Index last) {
    for_each_chunk<Acc<T>>(first, last, [&](Chunk<Acc<T>> at) { at.store(y.data, F::f(at.load(x.data))); });
  });
}

template <class F, class T>
void map_backward(Cpu, F, View<const T, 1> dy, View<const T, 1> x, View<const T, 1> y, View<T, 1> dx) {
  parallel(x.extent[0], element_grain, [&](Index first, Index last) {
    for_each_chunk<Acc<T>>(first, last, [&](Chunk<Acc<T>> at) {
      at.store(dx.data, at.load(dy.data) * F::df(at.load(x.data), at.load(y.data)));
    });
  });
}

}  // namespace kernel

namespace detail {
// Returns F::f of each element; the gradient is dy * F::df(x, y).
template <class F, class T>
Tensor<T> map(const char* op, const Tensor<T>& x) {
  Tensor<T> y = empty_like(x);
  dispatch(x, [&](auto device) { kernel::map(device, F{}, view<1>(x), view<1>(y)); });

  return record(op, y, inputs(x), [=](const Tensor<T>& dy) {
    Tensor<T> dx = empty_like(x);
    dispatch(x,
             [&](auto device) { kernel::map_backward(device, F{}, view<1>(dy), view<1>(x), view<1>(y), view<1>(dx)); });
    return dx;
  });
}

}  // namespace detail

/// Returns e^x.
template <Floating T>
Tensor<T> exp(const Tensor<T>& x) {
  return detail::map<kernel::Exp>("exp", x);
}
/// Returns the natural logarithm: NaN below 0, -infinity at 0.
template <Floating T>
Tensor<T> log(const Tensor<T>& x) {
  return detail::map<kernel::Log>("log", x);
}
/// Returns the square root: NaN below 0. The derivative at 0 is infinite.
template <Floating T>
Tensor<T> sqrt(const Tensor<T>& x) {
  return detail::map<kernel::Sqrt>("sqrt", x);
}
/// Returns log(1 + x), accurate also near 0: NaN below -1, -infinity at -1.
template <Floating T>
Tensor<T> log1p(const Tensor<T>& x) {
  return detail::map<kernel::Log1p>("log1p", x);
}
/// Returns the absolute value. The derivative at 0 is 0.
template <Floating T>
Tensor<T> abs(const Tensor<T>& x) {
  return detail::map<kernel::Abs>("abs", x);
}
/// Returns the error function, 2 / sqrt(pi) times the integral of e^(-t^2) from 0 to x.
template <Floating T>
Tensor<T> erf(const Tensor<T>& x) {
  return detail::map<kernel::Erf>("erf", x);
}
/// Returns the hyperbolic tangent.
template <Floating T>
Tensor<T> tanh(const Tensor<T>& x) {
  return detail::map<kernel::Tanh>("tanh", x);
}
/// Returns 1 / (1 + e^-x).
template <Floating T>
Tensor<T> sigmoid(const Tensor<T>& x) {
  return detail::map<kernel::Sigmoid>("sigmoid", x);
}
/// Returns max(x, 0). The derivative at 0 is 0.
template <Floating T>
Tensor<T> relu(const Tensor<T>& x) {
  return detail::map<kernel::Relu>("relu", x);
}
/// Returns x times the standard normal distribution function at x: the exact (erf) form of GELU (Hendrycks and
/// Gimpel 2016).
template <Floating T>
Tensor<T> gelu(const Tensor<T>& x) {
  return detail::map<kernel::Gelu>("gelu", x);
}
/// Returns the tanh approximation of gelu, x / 2 * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) (Hendrycks and Gimpel
/// 2016). It differs from gelu by less than 4.8e-4.
template <Floating T>
Tensor<T> gelu_tanh(const Tensor<T>& x) {
  return detail::map<kernel::GeluTanh>("gelu_tanh", x);
}
/// Returns log(1 + e^x), computed so that no exponential overflows.
template <Floating T>
Tensor<T> softplus(const Tensor<T>& x) {
  return detail::map<kernel::Softplus>("softplus", x);
}
/// Returns x times sigmoid(x), also called swish.
template <Floating T>
Tensor<T> silu(const Tensor<T>& x) {
  return detail::map<kernel::Silu>("silu", x);
}

template <std::integral T, class... Others>
void exp(const Tensor<T>&, const Others&...) = delete;  // needs cast<float>(x)
template <std::integral T, class... Others>
void log(const Tensor<T>&, const Others&...) = delete;  // needs cast<float>(x)
template <std::integral T, class... Others>
void sqrt(const Tensor<T>&, const Others&...) = delete;  // needs cast<float>(x)
template <std::integral T, class... Others>
void log1p(const Tensor<T>&, const Others&...) = delete;  // needs cast<float>(x)
template <std::integral T, class... Others>
void abs(const Tensor<T>&, const Others&...) = delete;  // needs cast<float>(x)
template <std::integral T, class... Others>
void erf(const Tensor<T>&, const Others&...) = delete;  // needs cast<float>(x)
template <std::integral T, class... Others>
void tanh(const Tensor<T>&, const Others&...) = delete;  // needs cast<float>(x)
template <std::integral T, class... Others>
void sigmoid(const Tensor<T>&, const Others&...) = delete;  // needs cast<float>(x)
template <std::integral T, class... Others>
void relu(const Tensor<T>&, const Others&...) = delete;  // needs cast<float>(x)
template <std::integral T, class... Others>
void gelu(const Tensor<T>&, const Others&...) = delete;  // needs cast<float>(x)
template <std::integral T, class... Others>
void gelu_tanh(const Tensor<T>&, const Others&...) = delete;  // needs cast<float>(x)
template <std::integral T, class... Others>
void softplus(const Tensor<T>&, const Others&...) = delete;  // needs cast<float>(x)
template <std::integral T, class... Others>
void silu(const Tensor<T>&, const Others&...) = delete;  // needs cast<float>(x)

}  // namespace heddle
