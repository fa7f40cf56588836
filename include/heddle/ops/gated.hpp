// gated_gelu(x), gated_gelu_tanh(x), gated_silu(x) and gated_relu(x): one half of each row passes through the function
// and gates the other half (Dauphin et al. 2017, Shazeer 2020). The function is computed again in the backward.
#pragma once
#include <heddle/autograd/record.hpp>
#include <heddle/base/scalar_functions.hpp>
#include <heddle/base/threads.hpp>
#include <heddle/cpu/vector.hpp>

namespace heddle {

/// The half of a row that passes through the function.
enum class Gate { first, second };

namespace kernel {

// y = F::f(a) * b, where a and b are the halves of each row of x; `gate_is_first` tells whether a is the first one.
template <class F, class T>
void gated(Cpu, F, bool gate_is_first, View<const T, 2> x, View<T, 2> y) {
  const Index W = y.extent[1], a = gate_is_first ? 0 : W, b = W - a;
  parallel(y.extent[0], row_grain(W), [&](Index first, Index last) {
    for (Index n = first; n < last; ++n) {
      const T *const gates = &x(n, a), *const values = &x(n, b);
      T* const yn = &y(n, 0);
      for_each_chunk<Acc<T>>(W, [&](Chunk<Acc<T>> at) { at.store(yn, F::f(at.load(gates)) * at.load(values)); });
    }
  });
}

// da = dy * b * F::df(a) and db = dy * F::f(a)
template <class F, class T>
void gated_backward(Cpu, F, bool gate_is_first, View<const T, 2> dy, View<const T, 2> x, View<T, 2> dx) {
  const Index W = dy.extent[1], a = gate_is_first ? 0 : W, b = W - a;
  parallel(dy.extent[0], row_grain(W), [&](Index first, Index last) {
    for (Index n = first; n < last; ++n) {
      const T *const dyn = &dy(n, 0), *const gates = &x(n, a), *const values = &x(n, b);
      T *const dgates = &dx(n, a), *const dvalues = &dx(n, b);
      for_each_chunk<Acc<T>>(W, [&](Chunk<Acc<T>> at) {
        const auto given = at.load(dyn), g = at.load(gates), f = F::f(g);
        at.store(dgates, given * at.load(values) * F::df(g, f));
        at.store(dvalues, given * f);
      });
    }
  });
}

}  // namespace kernel

namespace detail {

// Returns F::f of the gate's half of each row, times the other half.
template <class F, class T>
Tensor<T> gated(const char* op, const Tensor<T>& x, Gate gate) {
  require<ShapeError>(x.rank() >= 1 && x.dim(-1) % 2 == 0, op, ": the last axis of x must have two halves, got ",
                      x.shape());
  const bool gate_is_first = gate == Gate::first;
  Tensor<T> y(x.shape().with(-1, x.dim(-1) / 2), x.device());
  dispatch(x, [&](auto device) { kernel::gated(device, F{}, gate_is_first, view<2>(x), view<2>(y)); });

  return record(op, y, inputs(x), [=](const Tensor<T>& dy) {
    Tensor<T> dx = empty_like(x);
    dispatch(x, [&](auto device) {
      kernel::gated_backward(device, F{}, gate_is_first, view<2>(dy), view<2>(x), view<2>(dx));
    });
    return dx;
  });
}

}  // namespace detail

/// Returns gelu(a) * b, where a and b are the halves of each row; a is the half that `gate` names. @throws ShapeError
/// unless the extent of the last axis is even. So do the functions below.
template <Floating T>
Tensor<T> gated_gelu(const Tensor<T>& x, Gate gate = Gate::first) {  // [..., 2 * W] to [..., W]
  return detail::gated<kernel::Gelu>("gated_gelu", x, gate);
}
/// Returns gelu_tanh(a) * b.
template <Floating T>
Tensor<T> gated_gelu_tanh(const Tensor<T>& x, Gate gate = Gate::first) {  // [..., 2 * W] to [..., W]
  return detail::gated<kernel::GeluTanh>("gated_gelu_tanh", x, gate);
}
/// Returns silu(a) * b, also called SwiGLU.
template <Floating T>
Tensor<T> gated_silu(const Tensor<T>& x, Gate gate = Gate::first) {  // [..., 2 * W] to [..., W]
  return detail::gated<kernel::Silu>("gated_silu", x, gate);
}
/// Returns relu(a) * b.
template <Floating T>
Tensor<T> gated_relu(const Tensor<T>& x, Gate gate = Gate::first) {  // [..., 2 * W] to [..., W]
  return detail::gated<kernel::Relu>("gated_relu", x, gate);
}

template <std::integral T, class... Others>
void gated_gelu(const Tensor<T>&, const Others&...) = delete;  // needs cast<float>(x)
template <std::integral T, class... Others>
void gated_gelu_tanh(const Tensor<T>&, const Others&...) = delete;  // needs cast<float>(x)
template <std::integral T, class... Others>
void gated_silu(const Tensor<T>&, const Others&...) = delete;  // needs cast<float>(x)
template <std::integral T, class... Others>
void gated_relu(const Tensor<T>&, const Others&...) = delete;  // needs cast<float>(x)

}  // namespace heddle
