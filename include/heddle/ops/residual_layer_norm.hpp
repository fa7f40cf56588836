// residual_layer_norm(x, branch, gamma, beta, eps, p, random): layer_norm(x + dropout(branch, p, random)), which follows
// each sublayer of a post-norm encoder, in one pass forward and one backward. Saves the sum; the dropout is drawn again.
#pragma once
#include <numeric>

#include <heddle/ops/dropout.hpp>
#include <heddle/ops/layer_norm.hpp>

namespace heddle {

namespace kernel {

// Rows of D elements that begin where a block of draws does.
inline Index rows_drawn_together(const Dropped& drop, Index D) {
  return drop.rule.threshold ? drawn_block / std::gcd(std::max<Index>(D, 1), drawn_block) : 1;
}

template <class T>
void residual_layer_norm(Cpu device, Dropped drop, View<const T, 2> x, View<const T, 2> branch, View<const T, 1> gamma,
                         View<const T, 1> beta, double eps, View<T, 2> sum, View<T, 2> y, View<Acc<T>, 1> mean,
                         View<Acc<T>, 1> rstd) {
  const Index D = x.extent[1];
  const View<const T, 2> summed{sum.data, {sum.extent[0], D}};
  layer_norm(
      device, summed, gamma, beta, eps, y, mean, rstd, rows_drawn_together(drop, D), [&](Index first, Index last) {
        const auto at = [](auto v, Index e, Index n) { return array(v.data + e, n); };
        if (!drop.rule.threshold)
          return store(at(sum, first * D, (last - first) * D),
                       load(at(x, first * D, (last - first) * D)) + load(at(branch, first * D, (last - first) * D)));
        each_dropped<Acc<T>>(drop.rule, drop.draws, first * D, last * D, [&](Index e, Index n, const auto& factors) {
          store(at(sum, e, n), load(at(x, e, n)) + load(at(branch, e, n)) * factors);
        });
      });
}

// dbranch has no data where nothing is dropped: it is dx then.
template <class T>
void residual_layer_norm_backward(Cpu device, Dropped drop, View<const T, 2> dy, View<const T, 2> sum,
                                  View<const T, 1> gamma, View<const Acc<T>, 1> mean, View<const Acc<T>, 1> rstd,
                                  View<T, 2> dx, View<T, 2> dbranch, View<T, 1> dgamma, View<T, 1> dbeta) {
  const Index D = sum.extent[1];
  layer_norm_backward(device, dy, sum, gamma, mean, rstd, dx, dgamma, dbeta, rows_drawn_together(drop, D),
                      [&](Index first, Index last) {
                        if (!dbranch.data) return;
                        each_dropped<Acc<T>>(drop.rule, drop.draws, first * D, last * D,
                                             [&](Index e, Index n, const auto& factors) {
                                               store(array(dbranch.data + e, n), load(array(dx.data + e, n)) * factors);
                                             });
                      });
}

}  // namespace kernel

// Without a generator, or with p = 0, nothing is dropped; p is rounded to a multiple of 1/65,536. Throws ShapeError, and
// Error for a p outside [0, 1).
template <class T>
Tensor<T> residual_layer_norm(const Tensor<T>& x,       // [..., D]
                              const Tensor<T>& branch,  // as x
                              const Tensor<T>& gamma,   // [D]
                              const Tensor<T>& beta,    // [D]
                              double eps = 1e-5, double p = 0, Random* random = nullptr) {
  constexpr const char* op = "residual_layer_norm";
  require_norm(op, x, gamma, beta);
  require_same_device(op, {"x", x, 0}, {"branch", branch, 0});
  require<ShapeError>(x.shape() == branch.shape(), op, ": x ", x.shape(), " and branch ", branch.shape(),
                      " must have the same shape");
  Dropped drop{dropout_rule(op, p), {}};
  if (random && drop.rule.threshold)
    drop.draws = take_draws(x.size(), *random);
  else
    drop.rule = {};

  Tensor<T> sum = like(x), y = like(x);
  Tensor<Acc<T>> mean({x.shape().product(0, x.rank() - 1)}, x.device()), rstd = like(mean);
  on(x, [&](auto device) {
    kernel::residual_layer_norm(device, drop, view<2>(x), view<2>(branch), view<1>(gamma), view<1>(beta), eps,
                                view<2>(sum), view<2>(y), view<1>(mean), view<1>(rstd));
  });

  return record(op, y, inputs(x, branch, gamma, beta), [=](const Tensor<T>& dy) {
    Tensor<T> dx = like(sum), dbranch, dgamma = like(gamma), dbeta = like(beta);
    if (drop.rule.threshold) dbranch = like(sum);
    const View<T, 2> none{nullptr, {0, 0}};
    on(sum, [&](auto device) {
      kernel::residual_layer_norm_backward(device, drop, view<2>(dy), view<2>(sum), view<1>(gamma), view<1>(mean),
                                           view<1>(rstd), view<2>(dx), dbranch ? view<2>(dbranch) : none,
                                           view<1>(dgamma), view<1>(dbeta));
    });
    return std::tuple(dx, dbranch ? dbranch : dx, dgamma, dbeta);
  });
}

}  // namespace heddle
