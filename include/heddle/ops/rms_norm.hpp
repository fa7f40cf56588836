// rms_norm(x, gamma). Saves the reciprocal root mean square (rstd) of each row.
#pragma once
#include <heddle/ops/norm.hpp>

namespace heddle {

namespace kernel {

// y = x * rstd * gamma with rstd = 1 / sqrt(mean(x^2) + eps)
template <class T>
void rms_norm(Cpu, View<const T, 2> x, View<const T, 1> gamma, double eps, View<T, 2> y, View<Acc<T>, 1> rstd) {
  using A = Acc<T>;
  const Index D = x.extent[1];
  if (D == 0) return;  // an empty row has no mean
  parallel(x.extent[0], row_grain(D), [&](Index first, Index last) {
    WideRow<T> x_row(D), gamma_row(D);
    const A* const scale = gamma_row(gamma.data);
    for (Index n = first; n < last; ++n) {
      const A* const xn = x_row(&x(n, 0));
      T* const yn = &y(n, 0);
      const A squares = sum_of<A>(D, [&](Chunk<A> at) { return at.load(xn) * at.load(xn); });
      const A r = 1 / std::sqrt(squares / static_cast<A>(D) + static_cast<A>(eps));
      for_each_chunk<A>(D, [&](Chunk<A> at) { at.store(yn, at.load(xn) * r * at.load(scale)); });
      rstd(n) = r;
    }
  });
}

// With h = x * rstd and dh = dy * gamma:  dx = rstd * (dh - h * mean(dh * h)),  and dgamma is the sum of dy * h over
// the rows.
template <class T, class E>
void rms_norm_backward(Cpu, View<const T, 2> dy, View<const T, 2> x, View<const T, 1> gamma, View<const Acc<T>, 1> rstd,
                       View<T, 2> dx, Into into, View<E, 1> dgamma) {
  using A = Acc<T>;
  const Index D = x.extent[1];
  if (D == 0) return;
  const Pieces pieces(x.extent[0], row_grain(D));
  NormGradientSums<T, 1> sums(pieces.count, D);
  parallel(pieces, [&](Index piece, Index first, Index last) {
    WideRow<T> dy_row(D), x_row(D), gamma_row(D);
    const A* const scale = gamma_row(gamma.data);
    A* const sum = sums.of(piece, 0);
    for (Index n = first; n < last; ++n) {
      const A *const dyn = dy_row(&dy(n, 0)), *const xn = x_row(&x(n, 0));
      T* const dxn = &dx(n, 0);
      const A r = rstd(n);
      Vector<A> sum_dh_h(0);
      for_each_chunk<A>(D, [&](Chunk<A> at) {
        const Vector<A> dyd = at.load(dyn), h = at.load(xn) * r;
        at.store(sum, at.load(sum) + dyd * h);
        sum_dh_h += dyd * at.load(scale) * h;
      });
      const A slope = r * sum_of_lanes(sum_dh_h) / static_cast<A>(D);
      for_each_chunk<A>(D, [&](Chunk<A> at) {
        const Vector<A> given = r * (at.load(dyn) * at.load(scale) - at.load(xn) * slope);
        at.store(dxn, into == Into::add ? Vector<A>(at.load(dxn) + given) : given);
      });
    }
  });
  sums.store_to({dgamma});
}

}  // namespace kernel

/// Returns each row of x divided by its root mean square, then scaled (Zhang and Sennrich 2019): x / sqrt(mean(x^2) +
/// eps) * gamma. @throws ShapeError if gamma is not [D], and Error for an eps that is negative or not finite.
template <Floating T>
Tensor<T> rms_norm(const Tensor<T>& x,      // [..., D]
                   const Tensor<T>& gamma,  // [D]
                   double eps = 1e-6) {
  detail::require_norm("rms_norm", x, "gamma", gamma, eps);
  Tensor<T> y = empty_like(x);
  Tensor<Acc<T>> rstd({x.shape().product(0, x.rank() - 1)}, x.device());
  dispatch(x,
           [&](auto device) { kernel::rms_norm(device, view<2>(x), view<1>(gamma), eps, view<2>(y), view<1>(rstd)); });

  return record("rms_norm", y, inputs(x, gamma), [=](const Tensor<T>& dy) {
    detail::Contribution<T> to_x(x);
    if (!to_x.dx) to_x.dx = empty_like(x);
    const auto compute = [&]<class E>() -> std::tuple<Tensor<T>, detail::WeightGradient<T>> {
      Tensor<E> dgamma(gamma.shape(), gamma.device());
      dispatch(x, [&](auto device) {
        kernel::rms_norm_backward(device, view<2>(dy), view<2>(x), view<1>(gamma), view<1>(rstd), view<2>(to_x.dx),
                                  to_x.into, view<1>(dgamma));
      });
      return {to_x.dx, detail::WeightGradient<T>(dgamma)};
    };
    return detail::with_gradient_type(compute, gamma);
  });
}

template <class T, class... Others>
requires Refused<T, Others...>
void rms_norm(const Tensor<T>&, const Others&...) = delete;  // needs one floating-point type: cast<float>(x)

}  // namespace heddle
