// linear(x, weight, bias): y = x weight^T + bias over the last axis of x.
#pragma once
#include <heddle/autograd/record.hpp>
#include <heddle/base/threads.hpp>
#include <heddle/cpu/gemm.hpp>
#include <heddle/cpu/vector.hpp>

namespace heddle {

namespace kernel {

// Computes dbias, the sum of dy's rows. Each column is added up from the first row to the last.
template <class T, class E>
void column_sums(Cpu, View<const T, 2> dy, View<E, 1> dbias) {
  constexpr Index grain = 256;  // columns: some cache lines of each row
  parallel(dbias.extent[0], grain, [&](Index begin, Index end) {
    Scratch<Acc<T>> scratch(end - begin);
    Acc<T>* const sum = scratch.zeroed();
    for (Index n = 0; n < dy.extent[0]; ++n) add_row(sum, &dy(n, begin), end - begin);
    copy_row(&dbias(begin), sum, end - begin);
  });
}

// Computes dweight = dy^T x and dbias. One function, because on the GPU cuBLASLt computes both in one pass over dy.
template <class T, class E>
void gemm_tn_and_column_sums(Cpu device, View<const T, 2> dy, View<const T, 2> x, View<E, 2> dweight,
                             View<E, 1> dbias) {
  gemm_tn(device, matrix_view(dy), matrix_view(x), matrix_view(dweight));
  column_sums(device, dy, dbias);
}

}  // namespace kernel

namespace detail {

// Checks the operands of a linear map; an empty bias stands for none. Throws ShapeError.
template <class T>
void require_linear(const char* op, const Tensor<T>& x, const Tensor<T>& weight, const Tensor<T>& bias) {
  require_rank(op, {"weight", weight}, 2);
  require_same(op, "in", {"x", x, -1}, {"weight", weight, 1});
  if (!bias) return;
  require_rank(op, {"bias", bias}, 1);
  require_same(op, "out", {"weight", weight, 0}, {"bias", bias, 0});
}

// Returns a view of the bias, without data if there is none.
template <class T>
View<const T, 1> bias_view(const Tensor<T>& bias, Index out) {
  return bias ? view<1>(bias) : View<const T, 1>{nullptr, {out}};
}

// Computes the gradients of x, weight and bias from dy = d(x weight^T + bias); skips those that are not required.
template <class T>
std::tuple<Tensor<T>, WeightGradient<T>, WeightGradient<T>> linear_backward(const Tensor<T>& dy, const Tensor<T>& x,
                                                                            const Tensor<T>& weight,
                                                                            const Tensor<T>& bias) {
  using namespace kernel;
  Contribution<T> to_x(x);
  if (to_x.dx)
    dispatch(x, [&](auto device) {
      gemm_nn(device, matrix_view(dy), matrix_view(weight), matrix_view(to_x.dx), to_x.into);
    });
  const auto of_weights = [&]<class E>() -> std::tuple<Tensor<T>, WeightGradient<T>, WeightGradient<T>> {
    Tensor<E> dweight = gradient_memory<E>(weight), dbias = gradient_memory<E>(bias);
    dispatch(x, [&](auto device) {
      if (dweight && dbias)
        gemm_tn_and_column_sums(device, view<2>(dy), view<2>(x), view<2>(dweight), view<1>(dbias));
      else if (dweight)
        gemm_tn(device, matrix_view(dy), matrix_view(x), matrix_view(dweight));
      else if (dbias)
        column_sums(device, view<2>(dy), view<1>(dbias));
    });
    return {to_x.dx, WeightGradient<T>(dweight), WeightGradient<T>(dbias)};
  };
  return with_gradient_type(of_weights, weight, bias);
}

}  // namespace detail

/// Returns x weight^T + bias over the last axis of x. An empty bias stands for none. @throws ShapeError unless weight
/// has two axes, the last axis of x has extent `in`, and bias is empty or [out].
template <Floating T>
Tensor<T> linear(const Tensor<T>& x,            // [..., in]
                 const Tensor<T>& weight,       // [out, in]
                 const Tensor<T>& bias = {}) {  // [out]
  detail::require_linear("linear", x, weight, bias);
  Tensor<T> y(x.shape().with(-1, weight.dim(0)), x.device());  // [..., out]
  dispatch(x, [&](auto device) {
    using namespace kernel;
    gemm_nt_bias(device, matrix_view(x), matrix_view(weight), detail::bias_view(bias, weight.dim(0)), matrix_view(y));
  });

  return record("linear", y, inputs(x, weight, bias),
                [=](const Tensor<T>& dy) { return detail::linear_backward(dy, x, weight, bias); });
}

template <class T, class... Others>
requires Refused<T, Others...>
void linear(const Tensor<T>&, const Others&...) = delete;  // needs one floating-point type: cast<float>(x)

}  // namespace heddle
