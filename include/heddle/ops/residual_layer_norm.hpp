// residual_layer_norm: the residual connection, dropout and LayerNorm that follow each sublayer of a post-norm encoder,
// in one pass forward and one backward. Saves the sum; the backward draws the dropout again.
// residual_layer_norm_with_sum also returns the sum, which a pre-norm encoder needs.
#pragma once
#include <numeric>

#include <heddle/ops/dropout.hpp>
#include <heddle/ops/layer_norm.hpp>

namespace heddle {

namespace kernel {

// Returns the smallest number of rows of D elements that fill whole draw blocks, so that each piece begins with a new
// block. Returns 1 without dropout.
inline Index rows_per_draw_block(const ElementDropout& dropout, Index D) {
  return dropout.rule.is_active() ? draw_block / std::gcd(std::max<Index>(D, 1), draw_block) : 1;
}
// Returns the pieces of N rows, counted in units of `rows_per_unit` rows.
inline Pieces norm_pieces(Index N, Index D, Index rows_per_unit) {
  return Pieces((N + rows_per_unit - 1) / rows_per_unit, (row_grain(D) + rows_per_unit - 1) / rows_per_unit);
}

// Computes sum = x + dropout(branch) for elements [first, last).
template <class T>
void add_branch(const ElementDropout& dropout, const T* x, const T* branch, T* sum, Index first, Index last) {
  if (!dropout.rule.is_active())
    return for_each_chunk<Acc<T>>(first, last, [&](Chunk<Acc<T>> at) { at.store(sum, at.load(x) + at.load(branch)); });
  for_each_factor<Acc<T>>(dropout, first, last, [&](Index e, Index n, const Acc<T>* factors) {
    for_each_chunk<Acc<T>>(
        n, [&](Chunk<Acc<T>> at) { at.store(sum + e, at.load(x + e) + at.load(branch + e) * at.load(factors)); });
  });
}

template <class T>
void residual_layer_norm(Cpu, const ElementDropout& dropout, const ElementDropout& result, View<const T, 2> x,
                         View<const T, 2> branch, View<const T, 1> gamma, View<const T, 1> beta, double eps,
                         View<T, 2> sum, View<T, 2> y, View<Acc<T>, 1> mean, View<Acc<T>, 1> rstd) {
  const Index N = x.extent[0], D = x.extent[1], unit = rows_per_draw_block(dropout, D);
  if (D == 0) return;
  parallel(norm_pieces(N, D, unit), [&](Index, Index first_unit, Index last_unit) {
    const Index first = first_unit * unit, last = std::min(N, last_unit * unit);
    add_branch(dropout, x.data, branch.data, sum.data, first * D, last * D);
    layer_norm_rows(View<const T, 2>{sum.data, {N, D}}, gamma, beta, eps, y, mean, rstd, first, last);
  });
  drop_result(result, y);
}

// Computes dx, dbranch, dgamma and dbeta. If nothing is dropped, dbranch equals dx: the caller passes a view without
// data and uses dx.
template <class T, class E>
void residual_layer_norm_backward(Cpu, const ElementDropout& dropout, const ElementDropout& result,
                                  View<const T, 2> given, View<const T, 2> sum, View<const T, 1> gamma,
                                  View<const Acc<T>, 1> mean, View<const Acc<T>, 1> rstd, View<T, 2> dx,
                                  View<T, 2> dbranch, View<E, 1> dgamma, View<E, 1> dbeta) {
  const Index N = sum.extent[0], D = sum.extent[1], unit = rows_per_draw_block(dropout, D);
  if (D == 0) return;
  Tensor<T> memory;
  const View<const T, 2> dy = gradient_of_result(result, given, memory);
  const Pieces pieces = norm_pieces(N, D, unit);
  NormGradientSums<T, 2> sums(pieces.count, D);  // of dgamma and dbeta
  parallel(pieces, [&](Index piece, Index first_unit, Index last_unit) {
    const Index first = first_unit * unit, last = std::min(N, last_unit * unit);
    layer_norm_rows_backward(dy, sum, gamma, mean, rstd, dx, Into::set, sums, piece, first, last);
    if (!dbranch.data) return;
    multiply_by_factors<T>(dropout, dx.data, dbranch.data, first * D, last * D);
  });
  sums.store_to({dgamma, dbeta});
}

}  // namespace kernel

namespace detail {

// The result of one forward pass of residual_layer_norm.
template <class T>
struct ResidualNorm {
  kernel::ElementDropout dropout, result;  // of the branch, and of y
  Tensor<T> sum, y;
  Tensor<Acc<T>> mean, rstd;
};

template <class T>
ResidualNorm<T> residual_norm(const char* op, const Tensor<T>& x, const Tensor<T>& branch, const Tensor<T>& gamma,
                              const Tensor<T>& beta, double eps, double p, Random* random, double result_p) {
  require_layer_norm(op, x, gamma, beta, eps);
  require_same_device(op, {"x", x}, {"branch", branch});
  require<ShapeError>(x.shape() == branch.shape(), op, ": x ", x.shape(), " and branch ", branch.shape(),
                      " must have the same shape");
  const kernel::ElementDropout dropout = drawn_dropout(op, p, x.shape(), random),
                               result = drawn_dropout(op, result_p, x.shape(), random);
  Tensor<T> sum = empty_like(x), y = empty_like(x);
  Tensor<Acc<T>> mean({x.shape().product(0, x.rank() - 1)}, x.device()), rstd = empty_like(mean);
  dispatch(x, [&](auto device) {
    kernel::residual_layer_norm(device, dropout, result, view<2>(x), view<2>(branch), view<1>(gamma), view<1>(beta),
                                eps, view<2>(sum), view<2>(y), view<1>(mean), view<1>(rstd));
  });
  return {dropout, result, sum, y, mean, rstd};
}

}  // namespace detail

/// Returns dropout(layer_norm(x + dropout(branch, p, random)), result_p, random). Nothing is dropped without a
/// generator or with p = 0; p and result_p are rounded to multiples of 1/65,536. @throws ShapeError if branch does not
/// have the shape of x or if gamma or beta is not [D]; Error for a p or result_p outside [0, 1), before or after
/// rounding, and for an eps that is negative or not finite.
template <Floating T>
Tensor<T> residual_layer_norm(const Tensor<T>& x,       // [..., D]
                              const Tensor<T>& branch,  // as x
                              const Tensor<T>& gamma,   // [D]
                              const Tensor<T>& beta,    // [D]
                              double eps = 1e-5, double p = 0, Random* random = nullptr, double result_p = 0) {
  constexpr const char* op = "residual_layer_norm";
  const detail::ResidualNorm<T> r = detail::residual_norm(op, x, branch, gamma, beta, eps, p, random, result_p);
  return record(op, r.y, inputs(x, branch, gamma, beta),
                [gamma, beta, dropout = r.dropout, result = r.result, sum = r.sum, mean = r.mean,
                 rstd = r.rstd](const Tensor<T>& dy) {
                  Tensor<T> dx = empty_like(sum), dbranch;
                  if (dropout.rule.is_active()) dbranch = empty_like(sum);
                  const View<T, 2> none{nullptr, {0, 0}};
                  using Weight = detail::WeightGradient<T>;
                  const auto compute = [&]<class E>() -> std::tuple<Tensor<T>, Tensor<T>, Weight, Weight> {
                    Tensor<E> dgamma(gamma.shape(), gamma.device()), dbeta = empty_like(dgamma);
                    dispatch(sum, [&](auto device) {
                      kernel::residual_layer_norm_backward(device, dropout, result, view<2>(dy), view<2>(sum),
                                                           view<1>(gamma), view<1>(mean), view<1>(rstd), view<2>(dx),
                                                           dbranch ? view<2>(dbranch) : none, view<1>(dgamma),
                                                           view<1>(dbeta));
                    });
                    return {dx, dbranch ? dbranch : dx, Weight(dgamma), Weight(dbeta)};
                  };
                  return detail::with_gradient_type(compute, gamma, beta);
                });
}

/// The results of residual_layer_norm_with_sum().
template <class T>
struct SumAndNorm {
  Tensor<T> sum;   ///< x + dropout(branch, p, random)
  Tensor<T> norm;  ///< layer_norm(sum)
};

/// Returns the sum and its norm, for a pre-norm encoder. The forward visits the rows once. The backward visits them
/// twice, for layer_norm and for the sum, because both results have a gradient. @throws ShapeError and Error as
/// residual_layer_norm() does.
template <Floating T>
SumAndNorm<T> residual_layer_norm_with_sum(const Tensor<T>& x,       // [..., D]
                                           const Tensor<T>& branch,  // as x
                                           const Tensor<T>& gamma,   // [D]
                                           const Tensor<T>& beta,    // [D]
                                           double eps = 1e-5, double p = 0, Random* random = nullptr) {
  constexpr const char* op = "residual_layer_norm_with_sum";
  const detail::ResidualNorm<T> r = detail::residual_norm(op, x, branch, gamma, beta, eps, p, random, 0);
  const Tensor<T> sum = record(op, r.sum, inputs(x, branch), [dropout = r.dropout](const Tensor<T>& dsum) {
    return std::tuple(dsum, dropout.rule.is_active() ? detail::apply(dropout, dsum) : dsum);
  });
  return {sum, detail::record_layer_norm(sum, gamma, beta, r.y, r.mean, r.rstd, r.result)};
}

template <class T, class... Others>
requires Refused<T, Others...>
void residual_layer_norm(const Tensor<T>&, const Others&...) = delete;  // needs one floating-point type: cast<float>(x)
template <class T, class... Others>
requires Refused<T, Others...>
void residual_layer_norm_with_sum(const Tensor<T>&,  // needs one floating-point type: cast<float>(x)
                                  const Others&...) = delete;

}  // namespace heddle
