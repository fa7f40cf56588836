// layer_norm(x, gamma, beta): each row of x to zero mean and unit variance, then scaled and shifted (Ba et al. 2016).
// Saves the mean and the reciprocal standard deviation of each row.
#pragma once
#include <heddle/autograd.hpp>
#include <heddle/eigen.hpp>
#include <heddle/parallel.hpp>

namespace heddle {

namespace kernel {

struct NoRows {
  void operator()(Index, Index) const {}
};

// before(first, last) makes rows [first, last) of x, so that they are in the cache; `unit` rows are never parted.
template <class T, class Before = NoRows>
void layer_norm(Cpu, View<const T, 2> x, View<const T, 1> gamma, View<const T, 1> beta, double eps, View<T, 2> y,
                View<Acc<T>, 1> mean, View<Acc<T>, 1> rstd, Index unit = 1, Before&& before = {}) {
  const Index N = x.extent[0], D = x.extent[1];
  if (D == 0) return;  // no mean of nothing
  parallel((N + unit - 1) / unit, (rows_per_piece(D) + unit - 1) / unit, [&](Index first, Index last) {
    const Index end = std::min(N, last * unit);
    before(first * unit, end);
    const auto scale = load(array(gamma)), shift = load(array(beta));
    for (Index n = first * unit; n < end; ++n) {
      const auto xn = load(row(x, n));
      mean(n) = xn.mean();
      rstd(n) = 1 / std::sqrt((xn - mean(n)).square().mean() + static_cast<Acc<T>>(eps));
      store(row(y, n), (xn - mean(n)) * rstd(n) * scale + shift);
    }
  });
}

// The means of dh and dh * h of one row, as below; adds to dgamma and dbeta.
template <class A>
std::pair<A, A> layer_norm_means(const A* dy, const A* x, const A* gamma, A mean, A rstd, Index D, A* dgamma,
                                 A* dbeta) {
  constexpr Index together = Lanes<A>::SizeAtCompileTime;
  Lanes<A> sums = Lanes<A>::Zero(), sums_h = sums;
  Index d = 0;
  for (; d + together <= D; d += together) {
    const Lanes<A> dyd = lanes(dy + d), h = (lanes(x + d) - mean) * rstd, dh = dyd * lanes(gamma + d);
    lanes(dgamma + d) += dyd * h;
    lanes(dbeta + d) += dyd;
    sums += dh;
    sums_h += dh * h;
  }
  A sum = sums.sum(), sum_h = sums_h.sum();
  for (; d < D; ++d) {
    const A h = (x[d] - mean) * rstd, dh = dy[d] * gamma[d];
    dgamma[d] += dy[d] * h;
    dbeta[d] += dy[d];
    sum += dh;
    sum_h += dh * h;
  }
  return {sum / static_cast<A>(D), sum_h / static_cast<A>(D)};
}

// With h = (x - mean) * rstd and dh = dy * gamma:  dx = rstd * (dh - mean(dh) - h * mean(dh * h)). after(first, last)
// follows once rows [first, last) of dx are made.
template <class T, class After = NoRows>
void layer_norm_backward(Cpu, View<const T, 2> dy, View<const T, 2> x, View<const T, 1> gamma,
                         View<const Acc<T>, 1> mean, View<const Acc<T>, 1> rstd, View<T, 2> dx, View<T, 1> dgamma,
                         View<T, 1> dbeta, Index unit = 1, After&& after = {}) {
  const Index N = x.extent[0], D = x.extent[1];
  if (D == 0) return;
  const Pieces pieces((N + unit - 1) / unit, (rows_per_piece(D) + unit - 1) / unit);
  RowMatrix<Acc<T>> sums = RowMatrix<Acc<T>>::Zero(2 * pieces.count, D);  // dgamma and dbeta of each piece
  parallel(pieces, [&](Index piece, Index first, Index last) {
    const Index end = std::min(N, last * unit);
    const auto scale = load(array(gamma));
    for (Index n = first * unit; n < end; ++n) {
      const auto dyn = load(row(dy, n));
      const auto xn = load(row(x, n));
      const auto [mean_dh, mean_dh_h] = layer_norm_means(dyn.data(), xn.data(), scale.data(), mean(n), rstd(n), D,
                                                         &sums(2 * piece, 0), &sums(2 * piece + 1, 0));
      store(row(dx, n), rstd(n) * (dyn * scale - mean_dh - (xn - mean(n)) * (rstd(n) * mean_dh_h)));
    }
    after(first * unit, end);
  });
  RowArray<Acc<T>> dg = RowArray<Acc<T>>::Zero(D), db = dg;
  for (Index piece = 0; piece < pieces.count; ++piece) {
    dg += sums.row(2 * piece).array();
    db += sums.row(2 * piece + 1).array();
  }
  store(array(dgamma), dg);
  store(array(dbeta), db);
}

}  // namespace kernel

// The operands of a norm of x over its last axis. Throws ShapeError.
template <class T>
void require_norm(const char* op, const Tensor<T>& x, const Tensor<T>& gamma, const Tensor<T>& beta) {
  require_rank(op, {"gamma", gamma, 0}, 1);
  require_rank(op, {"beta", beta, 0}, 1);
  require_same(op, "D", {"x", x, -1}, {"gamma", gamma, 0});
  require_same(op, "D", {"x", x, -1}, {"beta", beta, 0});
}

// Throws ShapeError.
template <class T>
Tensor<T> layer_norm(const Tensor<T>& x,      // [..., D]
                     const Tensor<T>& gamma,  // [D]
                     const Tensor<T>& beta,   // [D]
                     double eps = 1e-5) {
  require_norm("layer_norm", x, gamma, beta);
  Tensor<T> y = like(x);
  Tensor<Acc<T>> mean({x.shape().product(0, x.rank() - 1)}, x.device()), rstd = like(mean);
  on(x, [&](auto device) {
    kernel::layer_norm(device, view<2>(x), view<1>(gamma), view<1>(beta), eps, view<2>(y), view<1>(mean),
                       view<1>(rstd));
  });

  return record("layer_norm", y, inputs(x, gamma, beta), [=](const Tensor<T>& dy) {
    Tensor<T> dx = like(x), dgamma = like(gamma), dbeta = like(beta);
    on(x, [&](auto device) {
      kernel::layer_norm_backward(device, view<2>(dy), view<2>(x), view<1>(gamma), view<1>(mean), view<1>(rstd),
                                  view<2>(dx), view<1>(dgamma), view<1>(dbeta));
    });
    return std::tuple(dx, dgamma, dbeta);
  });
}

}  // namespace heddle
