// linear_gelu(x, weight, bias): gelu(x weight^T + bias), the first half of an encoder's feed-forward network. Each
// block of the product passes through the activation while it is in the cache. Saves the product.
#pragma once
#include <heddle/ops/linear.hpp>
#include <heddle/ops/map.hpp>

namespace heddle {

namespace kernel {

template <class T>
void linear_gelu(Cpu device, View<const T, 2> x, View<const T, 2> weight, View<const T, 1> bias, View<T, 2> z,
                 View<T, 2> y) {
  gemm_nt_bias(device, matrix_view(x), matrix_view(weight), bias, matrix_view(z),
               [&](MatrixView<T> block, Index first, Index column) {
                 const MatrixView<T> to{&y(first, column), block.rows, block.width, block.stride};
                 for (Index n = 0; n < block.rows; ++n)
                   for_each_chunk<Acc<T>>(
                       block.width, [&](Chunk<Acc<T>> at) { at.store(&to(n, 0), Gelu::f(at.load(&block(n, 0)))); });
               });
}

}  // namespace kernel

/// Returns gelu(x weight^T + bias) over the last axis of x. An empty bias stands for none. @throws ShapeError unless
/// weight has two axes, the last axis of x has extent `in`, and bias is empty or [out].
template <Floating T>
Tensor<T> linear_gelu(const Tensor<T>& x,            // [..., in]
                      const Tensor<T>& weight,       // [out, in]
                      const Tensor<T>& bias = {}) {  // [out]
  detail::require_linear("linear_gelu", x, weight, bias);
  Tensor<T> z(x.shape().with(-1, weight.dim(0)), x.device()), y = empty_like(z);  // [..., out]
  dispatch(x, [&](auto device) {
    kernel::linear_gelu(device, view<2>(x), view<2>(weight), detail::bias_view(bias, weight.dim(0)), view<2>(z),
                        view<2>(y));
  });

  return record("linear_gelu", y, inputs(x, weight, bias), [=](const Tensor<T>& dy) {
    Tensor<T> dz = empty_like(z);
    dispatch(z, [&](auto device) {
      kernel::map_backward(device, kernel::Gelu{}, view<1>(dy), view<1>(z), view<1>(z), view<1>(dz));
    });
    return detail::linear_backward(dz, x, weight, bias);
  });
}

template <class T, class... Others>
requires Refused<T, Others...>
void linear_gelu(const Tensor<T>&, const Others&...) = delete;  // needs one floating-point type: cast<float>(x)

}  // namespace heddle
