// matmul(a, b): matrix products over the last two axes; the leading axes broadcast, as in PyTorch. A vector is a row
// on the left and a column on the right.
#pragma once
#include <heddle/cpu/gemm.hpp>
#include <heddle/ops/reduce.hpp>

namespace heddle {

namespace kernel {

// Computes c [M, N] = a^T b^T for a [K, M] and b [N, K].
template <class T>
void gemm_tt(Cpu device, MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> c) {
  RowMatrix<T> ba(c.width, c.rows);
  gemm_nn(device, b, a, MatrixView<T>{reinterpret_cast<T*>(ba.data()), c.width, c.rows, c.rows});
  matrix(c) = ba.transpose();
}

// Computes each matrix of c [batch, M, N], the product of the matrices of a and b that broadcasting assigns to it.
template <class T>
void matmul(Cpu device, const BroadcastPlan<2>& batch, View<const T, 3> a, bool transpose_a, View<const T, 3> b,
            bool transpose_b, View<T, 3> c) {
  const auto matrix_at = [](auto v, Index n) {
    return MatrixView<std::remove_pointer_t<decltype(v.data)>>{v.data + n * v.extent[1] * v.extent[2], v.extent[1],
                                                               v.extent[2], v.extent[2]};
  };
  const auto product = [&](Index n) {
    const Index row = n / batch.extent[0], at = n % batch.extent[0];
    const auto an = matrix_at(a, batch.offset(0, row) + at * batch.stride[0][0]);
    const auto bn = matrix_at(b, batch.offset(1, row) + at * batch.stride[1][0]);
    const auto cn = matrix_at(c, n);
    if (transpose_a && transpose_b)
      gemm_tt(device, an, bn, cn);
    else if (transpose_a)
      gemm_tn(device, an, bn, cn);
    else if (transpose_b)
      gemm_nt(device, an, bn, cn);
    else
      gemm_nn(device, an, bn, cn);
  };

  constexpr Index grain = 1 << 16, alone = 1 << 22;  // multiplications worth one thread, and worth all threads
  const Index work = c.extent[1] * c.extent[2] * a.extent[transpose_a ? 1 : 2];
  if (work >= alone) {
    for (Index n = 0; n < batch.size; ++n) product(n);
  } else {
    parallel(batch.size, grain / std::max<Index>(work, 1) + 1, [&](Index first, Index last) {
      for (Index n = first; n < last; ++n) product(n);
    });
  }
}

}  // namespace kernel

namespace detail {
// Returns the product of two tensors of at least two axes. Not recorded.
template <class T>
Tensor<T> matrix_product(const Tensor<T>& a, bool transpose_a,    // [..., M, K], or [..., K, M] with transpose_a
                         const Tensor<T>& b, bool transpose_b) {  // [..., K, N], or [..., N, K] with transpose_b
  const auto leading = [](const Tensor<T>& x) {
    return Shape(std::span<const Index>(x.shape().begin(), x.shape().end() - 2));
  };
  const auto stacked = [](auto& x) {
    return View<std::remove_pointer_t<decltype(x.device_data())>, 3>{
        x.device_data(), {x.shape().product(0, x.rank() - 2), x.dim(-2), x.dim(-1)}};
  };
  const Shape batch = broadcast_shape("matmul", {{"a", a}, {"b", b}}, 2);
  std::vector<Index> extents(batch.begin(), batch.end());
  extents.push_back(a.dim(transpose_a ? -1 : -2));
  extents.push_back(b.dim(transpose_b ? -2 : -1));
  Tensor<T> c(Shape(std::span<const Index>(extents)), a.device());  // [..., M, N]
  dispatch(a, [&](auto device) {
    kernel::matmul(device, broadcast_plan(batch, leading(a), leading(b)), stacked(std::as_const(a)), transpose_a,
                   stacked(std::as_const(b)), transpose_b, stacked(c));
  });
  return c;
}

}  // namespace detail

/// The options of matmul.
struct MatmulOptions {
  bool transpose_a = false;  ///< transpose the last two axes of a before the product
  bool transpose_b = false;  ///< transpose the last two axes of b before the product
};

/// Returns the product of a and b, like torch.matmul: matmul(a, b, {.transpose_b = true}) is a b^T. @throws ShapeError
/// if the inner extents differ, if the leading axes do not broadcast, for a scalar, and for a vector that is to be
/// transposed.
template <Floating T>
Tensor<T> matmul(const Tensor<T>& a,  // [..., M, K] or [K]
                 const Tensor<T>& b,  // [..., K, N] or [K]
                 MatmulOptions options = {}) {
  const bool ta = options.transpose_a, tb = options.transpose_b;
  require<ShapeError>(a.rank() > (ta ? 1 : 0) && b.rank() > (tb ? 1 : 0), "matmul: a ", a.shape(), " and b ", b.shape(),
                      ": an operand must have at least 1 axis, and 2 to be transposed");
  require_same("matmul", "K", {"a", a, ta ? -2 : -1}, {"b", b, b.rank() == 1 || tb ? -1 : -2});
  const Shape batch = detail::broadcast_shape("matmul", {{"a", a}, {"b", b}}, 2);
  std::vector<Index> extents(batch.begin(), batch.end());
  if (a.rank() > 1) extents.push_back(a.dim(ta ? -1 : -2));
  if (b.rank() > 1) extents.push_back(b.dim(tb ? -2 : -1));

  // If b is one matrix or a vector and a is not transposed, all rows of a are multiplied in one product. A vector a
  // becomes one row.
  const bool fold = !ta && (a.rank() == 1 || b.rank() <= 2);
  const Tensor<T> as = fold ? a.with_shape({a.shape().product(0, a.rank() - 1), a.dim(-1)}) : a;
  const Tensor<T> bs = b.rank() == 1 ? b.with_shape({b.dim(0), 1}) : b;
  const Tensor<T> y = detail::matrix_product(as, ta, bs, tb);

  detail::GradientTarget to_a(a), to_b(b);
  to_a.shape = as.shape();
  to_b.shape = bs.shape();
  return record(
      "matmul", y.with_shape(Shape(std::span<const Index>(extents))), inputs(a, b),
      [=, shape = y.shape(), shape_a = a.shape(), shape_b = b.shape(), a_kept = detail::save_if(b.requires_grad(), as),
       b_kept = detail::save_if(a.requires_grad(), bs)](const Tensor<T>& dy_given) {
        const Tensor<T> dy = dy_given.with_shape(shape);
        Tensor<T> da, db;
        if (to_a.requires_grad)
          da = detail::sum_to<T>(
                   ta ? detail::matrix_product(b_kept, tb, dy, true) : detail::matrix_product(dy, false, b_kept, !tb),
                   to_a)
                   .with_shape(shape_a);
        if (to_b.requires_grad)
          db = detail::sum_to<T>(
                   tb ? detail::matrix_product(dy, true, a_kept, ta) : detail::matrix_product(a_kept, !ta, dy, false),
                   to_b)
                   .with_shape(shape_b);
        return std::tuple(da, db);
      });
}

template <class T, class... Others>
requires Refused<T, Others...>
void matmul(const Tensor<T>&, const Others&...) = delete;  // needs one floating-point type: cast<float>(x)
template <std::integral T>
void matmul(const Tensor<T>&, const auto&, const MatmulOptions&) = delete;  // needs cast<float>(x)

}  // namespace heddle
