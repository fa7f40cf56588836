// linear(x, weight, bias): y = x weight^T + bias over the last axis of x.
#pragma once
#include <heddle/autograd.hpp>
#include <heddle/gemm.hpp>
#include <heddle/parallel.hpp>

namespace heddle {

namespace kernel {

// Column by column, each from the first row to the last.
template <class T>
void sum_rows(Cpu, View<const T, 2> dy, View<T, 1> dbias) {
  constexpr Index together = 256;  // columns: some cache lines of each row
  parallel(dbias.extent[0], together, [&](Index first, Index last) {
    RowArray<Acc<T>> sum = RowArray<Acc<T>>::Zero(last - first);
    for (Index n = 0; n < dy.extent[0]; ++n) sum += load(array(&dy(n, first), last - first));
    store(array(&dbias(first), last - first), sum);
  });
}

// The gradients of weight and bias together.
template <class T>
void gemm_tn_and_sum_rows(Cpu device, View<const T, 2> dy, View<const T, 2> x, View<T, 2> dweight, View<T, 1> dbias) {
  gemm_tn(device, columns(dy), columns(x), columns(dweight));
  sum_rows(device, dy, dbias);
}

}  // namespace kernel

// The operands of a linear map; an empty bias is none. Throws ShapeError.
template <class T>
void require_linear(const char* op, const Tensor<T>& x, const Tensor<T>& weight, const Tensor<T>& bias) {
  require_rank(op, {"weight", weight, 0}, 2);
  require_same(op, "in", {"x", x, -1}, {"weight", weight, 1});
  if (!bias) return;
  require_rank(op, {"bias", bias, 0}, 1);
  require_same(op, "out", {"weight", weight, 0}, {"bias", bias, 0});
}

// Without data where there is none.
template <class T>
View<const T, 1> bias_view(const Tensor<T>& bias, Index out) {
  return bias ? view<1>(bias) : View<const T, 1>{nullptr, {out}};
}

// The gradients of x, weight and bias, each where it is wanted, of dy, that of x weight^T + bias.
template <class T>
std::tuple<Tensor<T>, Tensor<T>, Tensor<T>> linear_backward(const Tensor<T>& dy, const Tensor<T>& x,
                                                            const Tensor<T>& weight, const Tensor<T>& bias) {
  using namespace kernel;
  Tensor<T> dx, dweight, dbias;
  on(x, [&](auto device) {
    if (x.requires_grad()) {
      dx = like(x);
      gemm_nn(device, columns(view<2>(dy)), columns(view<2>(weight)), columns(view<2>(dx)));
    }
    if (weight.requires_grad()) dweight = like(weight);
    if (bias.requires_grad()) dbias = like(bias);
    if (dweight && dbias)
      gemm_tn_and_sum_rows(device, view<2>(dy), view<2>(x), view<2>(dweight), view<1>(dbias));
    else if (dweight)
      gemm_tn(device, columns(view<2>(dy)), columns(view<2>(x)), columns(view<2>(dweight)));
    else if (dbias)
      sum_rows(device, view<2>(dy), view<1>(dbias));
  });
  return {dx, dweight, dbias};
}

// Leading axes of x are kept. Without a bias, give an empty tensor. Throws ShapeError.
template <class T>
Tensor<T> linear(const Tensor<T>& x,            // [..., in]
                 const Tensor<T>& weight,       // [out, in]
                 const Tensor<T>& bias = {}) {  // [out]
  require_linear("linear", x, weight, bias);
  Tensor<T> y(x.shape().with(-1, weight.dim(0)), x.device());  // [..., out]
  on(x, [&](auto device) {
    using namespace kernel;
    gemm_nt_bias(device, columns(view<2>(x)), columns(view<2>(weight)), bias_view(bias, weight.dim(0)),
                 columns(view<2>(y)));
  });

  return record("linear", y, inputs(x, weight, bias),
                [=](const Tensor<T>& dy) { return linear_backward(dy, x, weight, bias); });
}

}  // namespace heddle
