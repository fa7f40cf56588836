// linear(x, weight, bias): y = x weight^T + bias over the last axis of x.
#pragma once
#include <memory>
#include <utility>

#include <heddle/autograd/record.hpp>
#include <heddle/base/threads.hpp>
#include <heddle/cpu/gemm.hpp>
#include <heddle/cpu/vector.hpp>

namespace heddle {

namespace kernel {

// Computes dbias, the sum of dy's rows.
template <class T, class E>
void column_sums(Cpu, View<const T, 2> dy, View<E, 1> dbias) {
  constexpr Index grain = 256;  // columns: some cache lines of each row
  parallel(dbias.extent[0], grain, [&](Index begin, Index end) {
    Scratch<Acc<T>> sum(end - begin), scratch(end - begin);
    add_rows(
        sum.data(), dy.extent[0], end - begin, [&](Index n) { return &dy(n, begin); }, scratch);
    copy_row(&dbias(begin), sum.data(), end - begin);
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

// Computes rows [first, first + the columns of dy) of the gradients of weight and bias, unless these are empty.
template <class E, class T>
void compute_weight_gradients(const Tensor<T>& dy, const Tensor<T>& x, Tensor<E>& dweight, Tensor<E>& dbias,
                              Index first) {
  const Index out = dy.dim(-1), in = x.dim(-1);
  dispatch(x, [&](auto device) {
    using namespace kernel;
    const View<E, 2> of_weight{dweight ? dweight.device_data() + first * in : nullptr, {out, in}};
    const View<E, 1> of_bias{dbias ? dbias.device_data() + first : nullptr, {out}};
    if (dweight && dbias)
      gemm_tn_and_column_sums(device, view<2>(dy), view<2>(x), of_weight, of_bias);
    else if (dweight)
      gemm_tn(device, matrix_view(dy), matrix_view(x), matrix_view(of_weight));
    else if (dbias)
      column_sums(device, view<2>(dy), of_bias);
  });
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
    compute_weight_gradients(dy, x, dweight, dbias, 0);
    return {to_x.dx, WeightGradient<T>(dweight), WeightGradient<T>(dbias)};
  };
  return with_gradient_type(of_weights, weight, bias);
}

// The gradients of a weight and a bias, in elements of E, of which some rows are computed.
template <class E>
struct WeightGradients {
  Tensor<E> dweight, dbias;
};

// Returns x weight[:rows]^T + bias[:rows] and z weight[rows:]^T + bias[rows:], without copies of the parts of weight
// and bias or of their gradients. The loss must depend on both results: the backward of the first, which runs after
// that of the second, returns the gradients of weight and bias. Throws ShapeError as linear() does.
template <class T>
std::pair<Tensor<T>, Tensor<T>> linear_parts(const Tensor<T>& x, const Tensor<T>& z, const Tensor<T>& weight,
                                             const Tensor<T>& bias, Index rows) {
  require_linear("linear", x, weight, bias);
  require_linear("linear", z, weight, bias);
  const Index out = weight.dim(0), in = weight.dim(1);
  const auto part_of_weight = [=](Index first, Index last) {
    return MatrixView<const T>{weight.device_data() + first * in, last - first, in, in};
  };
  const auto all = std::make_shared<std::pair<WeightGradients<T>, WeightGradients<Acc<T>>>>();
  const auto map = [&](const Tensor<T>& of, Index first, Index last) {
    Tensor<T> y(of.shape().with(-1, last - first), of.device());
    dispatch(of, [&](auto device) {
      using namespace kernel;
      gemm_nt_bias(device, matrix_view(of), part_of_weight(first, last),
                   View<const T, 1>{bias ? bias.device_data() + first : nullptr, {last - first}}, matrix_view(y));
    });
    return record("linear", y, inputs(of, weight, bias), [=](const Tensor<T>& dy) {
      Contribution<T> to_x(of);
      if (to_x.dx)
        dispatch(of, [&](auto device) {
          using namespace kernel;
          gemm_nn(device, matrix_view(dy), part_of_weight(first, last), matrix_view(to_x.dx), to_x.into);
        });
      const auto of_weights = [&]<class E>() -> std::tuple<Tensor<T>, WeightGradient<T>, WeightGradient<T>> {
        auto& [dweight, dbias] = [&]() -> WeightGradients<E>& {
          if constexpr (std::is_same_v<E, T>)
            return all->first;
          else
            return all->second;
        }();
        if (!dweight) dweight = gradient_memory<E>(weight);
        if (!dbias) dbias = gradient_memory<E>(bias);
        compute_weight_gradients(dy, of, dweight, dbias, first);
        if (last == out) return {to_x.dx, WeightGradient<T>(Tensor<E>()), WeightGradient<T>(Tensor<E>())};
        return {to_x.dx, WeightGradient<T>(std::exchange(dweight, {})), WeightGradient<T>(std::exchange(dbias, {}))};
      };
      return with_gradient_type(of_weights, weight, bias);
    });
  };
  const Tensor<T> of_x = map(x, 0, rows);  // the older node, whose backward runs last
  return {of_x, map(z, rows, out)};
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
