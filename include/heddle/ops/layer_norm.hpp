// layer_norm(x, gamma, beta), with a dropout of the result if it is wanted. Saves the mean and the reciprocal standard
// deviation (rstd) of each row.
#pragma once
#include <heddle/ops/dropout.hpp>
#include <heddle/ops/norm.hpp>

namespace heddle {

namespace kernel {

// Normalizes rows [first, last).
template <class T>
void layer_norm_rows(View<const T, 2> x, View<const T, 1> gamma, View<const T, 1> beta, double eps, View<T, 2> y,
                     View<Acc<T>, 1> mean, View<Acc<T>, 1> rstd, Index first, Index last) {
  using A = Acc<T>;
  const Index D = x.extent[1];
  WideRow<T> x_row(D), gamma_row(D), beta_row(D);
  const A *const scale = gamma_row(gamma.data), *const shift = beta_row(beta.data);
  for (Index n = first; n < last; ++n) {
    const A* const xn = x_row(&x(n, 0));
    T* const yn = &y(n, 0);
    const A m = sum_of<A>(D, [&](Chunk<A> at) { return at.load(xn); }) / static_cast<A>(D);
    const A squares = sum_of<A>(D, [&](Chunk<A> at) {
      const Vector<A> difference = at.load(xn) - m;
      return difference * difference;
    });
    const A r = 1 / std::sqrt(squares / static_cast<A>(D) + static_cast<A>(eps));
    for_each_chunk<A>(D, [&](Chunk<A> at) { at.store(yn, (at.load(xn) - m) * r * at.load(scale) + at.load(shift)); });
    mean(n) = m;
    rstd(n) = r;
  }
}

// Applies the dropout of a norm's result in place.
template <class T>
void drop_result(const ElementDropout& result, View<T, 2> y) {
  const Index size = y.extent[0] * y.extent[1];
  if (result.rule.is_active()) dropout(Cpu{}, View<const T, 1>{y.data, {size}}, result, View<T, 1>{y.data, {size}});
}
// Returns the gradient of a norm's result from that after the dropout, dy itself without one. `memory` receives it.
template <class T>
View<const T, 2> gradient_of_result(const ElementDropout& result, View<const T, 2> dy, Tensor<T>& memory) {
  if (!result.rule.is_active()) return dy;
  const Index size = dy.extent[0] * dy.extent[1];
  memory = Tensor<T>({dy.extent[0], dy.extent[1]});
  dropout(Cpu{}, View<const T, 1>{dy.data, {size}}, result, view<1>(memory));
  return view<2>(std::as_const(memory));
}

template <class T>
void layer_norm(Cpu, const ElementDropout& result, View<const T, 2> x, View<const T, 1> gamma, View<const T, 1> beta,
                double eps, View<T, 2> y, View<Acc<T>, 1> mean, View<Acc<T>, 1> rstd) {
  const Index N = x.extent[0], D = x.extent[1];
  if (D == 0) return;  // an empty row has no mean
  parallel(N, row_grain(D),
           [&](Index first, Index last) { layer_norm_rows(x, gamma, beta, eps, y, mean, rstd, first, last); });
  drop_result(result, y);
}

// Returns the means of dh and dh * h over one row, and adds the row's contribution to dgamma and dbeta. The comment of
// layer_norm_rows_backward defines h and dh.
template <class A>
std::pair<A, A> layer_norm_means(const A* dy, const A* x, const A* gamma, A mean, A rstd, Index D, A* dgamma,
                                 A* dbeta) {
  Vector<A> sum(0), sum_h(0);
  for_each_chunk<A>(D, [&](Chunk<A> at) {
    const Vector<A> dyd = at.load(dy), h = (at.load(x) - mean) * rstd, dh = dyd * at.load(gamma);
    at.store(dgamma, at.load(dgamma) + dyd * h);
    at.store(dbeta, at.load(dbeta) + dyd);
    sum += dh;
    sum_h += dh * h;
  });
  return {sum_of_lanes(sum) / static_cast<A>(D), sum_of_lanes(sum_h) / static_cast<A>(D)};
}

// Computes rows [first, last) of dx, or adds to them. Accumulates the contributions of these rows to dgamma and dbeta
// in the sums of one piece. With h = (x - mean) * rstd and dh = dy * gamma:
// dx = rstd * (dh - mean(dh) - h * mean(dh * h)).
template <class T>
void layer_norm_rows_backward(View<const T, 2> dy, View<const T, 2> x, View<const T, 1> gamma,
                              View<const Acc<T>, 1> mean, View<const Acc<T>, 1> rstd, View<T, 2> dx, Into into,
                              NormGradientSums<T, 2>& sums, Index piece, Index first, Index last) {
  using A = Acc<T>;
  const Index D = x.extent[1];
  WideRow<T> dy_row(D), x_row(D), gamma_row(D);
  const A* const scale = gamma_row(gamma.data);
  for (Index n = first; n < last; ++n) {
    const A *const dyn = dy_row(&dy(n, 0)), *const xn = x_row(&x(n, 0));
    T* const dxn = &dx(n, 0);
    const A m = mean(n), r = rstd(n);
    const std::pair<A, A> means = layer_norm_means(dyn, xn, scale, m, r, D, sums.of(piece, 0), sums.of(piece, 1));
    const A mean_dh = means.first, slope = r * means.second;
    for_each_chunk<A>(D, [&](Chunk<A> at) {
      const Vector<A> given = r * (at.load(dyn) * at.load(scale) - mean_dh - (at.load(xn) - m) * slope);
      at.store(dxn, into == Into::add ? Vector<A>(at.load(dxn) + given) : given);
    });
  }
}

template <class T, class E>
void layer_norm_backward(Cpu, const ElementDropout& result, View<const T, 2> given, View<const T, 2> x,
                         View<const T, 1> gamma, View<const Acc<T>, 1> mean, View<const Acc<T>, 1> rstd, View<T, 2> dx,
                         Into into, View<E, 1> dgamma, View<E, 1> dbeta) {
  const Index N = x.extent[0], D = x.extent[1];
  if (D == 0) return;
  Tensor<T> memory;
  const View<const T, 2> dy = gradient_of_result(result, given, memory);
  const Pieces pieces(N, row_grain(D));
  NormGradientSums<T, 2> sums(pieces.count, D);  // of dgamma and dbeta
  parallel(pieces, [&](Index piece, Index first, Index last) {
    layer_norm_rows_backward(dy, x, gamma, mean, rstd, dx, into, sums, piece, first, last);
  });
  sums.store_to({dgamma, dbeta});
}

}  // namespace kernel

namespace detail {
// Checks the operands of a LayerNorm. Throws ShapeError, and Error for an eps that is negative or not finite.
template <class T>
void require_layer_norm(const char* op, const Tensor<T>& x, const Tensor<T>& gamma, const Tensor<T>& beta, double eps) {
  require_norm(op, x, "gamma", gamma, eps);
  require_norm(op, x, "beta", beta, eps);
}

// Records layer_norm(x, gamma, beta) with this dropout of the result. A kernel has already computed the result y, and
// mean and rstd.
template <class T>
Tensor<T> record_layer_norm(const Tensor<T>& x, const Tensor<T>& gamma, const Tensor<T>& beta, const Tensor<T>& y,
                            const Tensor<Acc<T>>& mean, const Tensor<Acc<T>>& rstd,
                            const kernel::ElementDropout& result) {
  return record("layer_norm", y, inputs(x, gamma, beta), [=](const Tensor<T>& dy) {
    Contribution<T> to_x(x);
    if (!to_x.dx) to_x.dx = empty_like(x);
    const auto compute = [&]<class E>() -> std::tuple<Tensor<T>, WeightGradient<T>, WeightGradient<T>> {
      Tensor<E> dgamma(gamma.shape(), gamma.device()), dbeta = empty_like(dgamma);
      dispatch(x, [&](auto device) {
        kernel::layer_norm_backward(device, result, view<2>(dy), view<2>(x), view<1>(gamma), view<1>(mean),
                                    view<1>(rstd), view<2>(to_x.dx), to_x.into, view<1>(dgamma), view<1>(dbeta));
      });
      return {to_x.dx, WeightGradient<T>(dgamma), WeightGradient<T>(dbeta)};
    };
    return with_gradient_type(compute, gamma, beta);
  });
}

}  // namespace detail

/// Returns each row of x normalized to zero mean and unit variance, then scaled and shifted (Ba et al. 2016), with
/// dropout(…, p, random) applied in the same pass. Nothing is dropped without a generator or with p = 0. @throws
/// ShapeError if gamma or beta is not [D], and Error for an eps that is negative or not finite and for a p outside
/// [0, 1), before or after rounding.
template <Floating T>
Tensor<T> layer_norm(const Tensor<T>& x,      // [..., D]
                     const Tensor<T>& gamma,  // [D]
                     const Tensor<T>& beta,   // [D]
                     double eps = 1e-5, double p = 0, Random* random = nullptr) {
  detail::require_layer_norm("layer_norm", x, gamma, beta, eps);
  const kernel::ElementDropout result = detail::drawn_dropout("layer_norm", p, x.shape(), random);
  Tensor<T> y = empty_like(x);
  Tensor<Acc<T>> mean({x.shape().product(0, x.rank() - 1)}, x.device()), rstd = empty_like(mean);
  dispatch(x, [&](auto device) {
    kernel::layer_norm(device, result, view<2>(x), view<1>(gamma), view<1>(beta), eps, view<2>(y), view<1>(mean),
                       view<1>(rstd));
  });
  return detail::record_layer_norm(x, gamma, beta, y, mean, rstd, result);
}

template <class T, class... Others>
requires Refused<T, Others...>
void layer_norm(const Tensor<T>&, const Others&...) = delete;  // needs one floating-point type: cast<float>(x)

}  // namespace heddle
