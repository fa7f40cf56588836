// layer_norm(x, gamma, beta). Saves the mean and the reciprocal standard deviation (rstd) of each row.
#pragma once
#include <heddle/autograd/record.hpp>
#include <heddle/base/threads.hpp>
#include <heddle/cpu/eigen.hpp>

namespace heddle {

namespace kernel {

// Normalizes rows [first, last).
template <class T>
void layer_norm_rows(View<const T, 2> x, View<const T, 1> gamma, View<const T, 1> beta, double eps, View<T, 2> y,
                     View<Acc<T>, 1> mean, View<Acc<T>, 1> rstd, Index first, Index last) {
  const auto scale = load(array(gamma)), shift = load(array(beta));
  RowReader<T> x_row(x.extent[1]);
  for (Index n = first; n < last; ++n) {
    const auto xn = x_row(x, n);
    mean(n) = xn.mean();
    rstd(n) = 1 / std::sqrt((xn - mean(n)).square().mean() + static_cast<Acc<T>>(eps));
    store(row(y, n), (xn - mean(n)) * rstd(n) * scale + shift);
  }
}

template <class T>
void layer_norm(Cpu, View<const T, 2> x, View<const T, 1> gamma, View<const T, 1> beta, double eps, View<T, 2> y,
                View<Acc<T>, 1> mean, View<Acc<T>, 1> rstd) {
  const Index N = x.extent[0], D = x.extent[1];
  if (D == 0) return;  // an empty row has no mean
  parallel(N, rows_per_piece(D),
           [&](Index first, Index last) { layer_norm_rows(x, gamma, beta, eps, y, mean, rstd, first, last); });
}

// Returns the means of dh and dh * h over one row, and adds the row's contribution to dgamma and dbeta. The comment of
// layer_norm_rows_backward defines h and dh.
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

// The contributions of each piece to dgamma and dbeta, which store_to() sums in the order of the pieces.
template <class T>
class NormGradientSums {
 public:
  NormGradientSums(Index pieces, Index D) : sums_(RowMatrix<Acc<T>>::Zero(2 * pieces, D)) {}
  Acc<T>* dgamma(Index piece) { return &sums_(2 * piece, 0); }
  Acc<T>* dbeta(Index piece) { return &sums_(2 * piece + 1, 0); }

  void store_to(View<T, 1> dgamma, View<T, 1> dbeta) const {
    RowArray<Acc<T>> dg = RowArray<Acc<T>>::Zero(sums_.cols()), db = dg;
    for (Index n = 0; n < sums_.rows(); n += 2) {
      dg += sums_.row(n).array();
      db += sums_.row(n + 1).array();
    }
    store(array(dgamma), dg);
    store(array(dbeta), db);
  }

 private:
  RowMatrix<Acc<T>> sums_;
};

// Computes rows [first, last) of dx. Adds what these rows contribute to dgamma and dbeta to the sums of one piece.
// With h = (x - mean) * rstd and dh = dy * gamma:  dx = rstd * (dh - mean(dh) - h * mean(dh * h)).
template <class T>
void layer_norm_rows_backward(View<const T, 2> dy, View<const T, 2> x, View<const T, 1> gamma,
                              View<const Acc<T>, 1> mean, View<const Acc<T>, 1> rstd, View<T, 2> dx,
                              NormGradientSums<T>& sums, Index piece, Index first, Index last) {
  const Index D = x.extent[1];
  const auto scale = load(array(gamma));
  RowReader<T> dy_row(D), x_row(D);
  for (Index n = first; n < last; ++n) {
    const auto dyn = dy_row(dy, n);
    const auto xn = x_row(x, n);
    const auto [mean_dh, mean_dh_h] = layer_norm_means(dyn.data(), xn.data(), scale.data(), mean(n), rstd(n), D,
                                                       sums.dgamma(piece), sums.dbeta(piece));
    store(row(dx, n), rstd(n) * (dyn * scale - mean_dh - (xn - mean(n)) * (rstd(n) * mean_dh_h)));
  }
}

template <class T>
void layer_norm_backward(Cpu, View<const T, 2> dy, View<const T, 2> x, View<const T, 1> gamma,
                         View<const Acc<T>, 1> mean, View<const Acc<T>, 1> rstd, View<T, 2> dx, View<T, 1> dgamma,
                         View<T, 1> dbeta) {
  const Index N = x.extent[0], D = x.extent[1];
  if (D == 0) return;
  const Pieces pieces(N, rows_per_piece(D));
  NormGradientSums<T> sums(pieces.count, D);
  parallel(pieces, [&](Index piece, Index first, Index last) {
    layer_norm_rows_backward(dy, x, gamma, mean, rstd, dx, sums, piece, first, last);
  });
  sums.store_to(dgamma, dbeta);
}

}  // namespace kernel

namespace detail {
// Checks the operands of a norm of x over its last axis. Throws ShapeError, and Error for an eps that is negative or not finite.
template <class T>
void require_norm(const char* op, const Tensor<T>& x, const Tensor<T>& gamma, const Tensor<T>& beta, double eps) {
  require_nonnegative(op, "eps", eps);
  require_rank(op, {"gamma", gamma, 0}, 1);
  require_rank(op, {"beta", beta, 0}, 1);
  require_same(op, "D", {"x", x, -1}, {"gamma", gamma, 0});
  require_same(op, "D", {"x", x, -1}, {"beta", beta, 0});
}

// Records y = layer_norm(x, gamma, beta), whose y, mean and rstd a kernel has already computed.
template <class T>
Tensor<T> record_layer_norm(const Tensor<T>& x, const Tensor<T>& gamma, const Tensor<T>& beta, const Tensor<T>& y,
                            const Tensor<Acc<T>>& mean, const Tensor<Acc<T>>& rstd) {
  return record("layer_norm", y, inputs(x, gamma, beta), [=](const Tensor<T>& dy) {
    Tensor<T> dx = empty_like(x), dgamma = empty_like(gamma), dbeta = empty_like(beta);
    dispatch(x, [&](auto device) {
      kernel::layer_norm_backward(device, view<2>(dy), view<2>(x), view<1>(gamma), view<1>(mean), view<1>(rstd),
                                  view<2>(dx), view<1>(dgamma), view<1>(dbeta));
    });
    return std::tuple(dx, dgamma, dbeta);
  });
}

}  // namespace detail

/// Returns each row of x normalized to zero mean and unit variance, then scaled and shifted (Ba et al. 2016).
/// @throws ShapeError if gamma or beta is not [D], and Error for an eps that is negative or not finite.
template <class T>
Tensor<T> layer_norm(const Tensor<T>& x,      // [..., D]
                     const Tensor<T>& gamma,  // [D]
                     const Tensor<T>& beta,   // [D]
                     double eps = 1e-5) {
  detail::require_norm("layer_norm", x, gamma, beta, eps);
  Tensor<T> y = empty_like(x);
  Tensor<Acc<T>> mean({x.shape().product(0, x.rank() - 1)}, x.device()), rstd = empty_like(mean);
  dispatch(x, [&](auto device) {
    kernel::layer_norm(device, view<2>(x), view<1>(gamma), view<1>(beta), eps, view<2>(y), view<1>(mean),
                       view<1>(rstd));
  });
  return detail::record_layer_norm(x, gamma, beta, y, mean, rstd);
}

}  // namespace heddle
