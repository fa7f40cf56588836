// attention(q, k, v, sequences): softmax(scale q k^T + bias) v within each sequence and head (Vaswani et al. 2017).
// Never stores the [T, T] attention weights: memory is linear in T, and the backward recomputes them from one number
// per query and head. On the GPU it stores dropout's decisions while they take no more memory than the result.
#pragma once
#include <array>

#include <heddle/autograd/record.hpp>
#include <heddle/ops/attention/backward.hpp>
#include <heddle/ops/attention/call.hpp>
#include <heddle/ops/attention/forward.hpp>
#include <heddle/ops/cast.hpp>

namespace heddle {

namespace detail {

// The assignment of q, k and v to gradient tensors. Disjoint columns of one tensor share a gradient tensor of its
// shape. Overlapping columns (q = k = v) have a gradient each, and the engine adds them.
template <class T>
struct GradientLayout {
  std::array<ColumnSlice<T>, 3> slices;    // q, k, v
  std::array<bool, 3> writes_all_rows;     // whether the backward writes all rows of each slice's gradient
  std::array<std::size_t, 3> tensor_of{};  // the index in `tensors` of each slice's gradient
  std::vector<Tensor<T>> tensors;

  GradientLayout(const AttentionCall<T>& call, const ColumnSlice<T>& v)
      : slices{call.q, call.k, v},
        writes_all_rows{call.queries.fill_all_rows(), call.keys.fill_all_rows(), call.keys.fill_all_rows()} {
    for (std::size_t i = 0; i < 3; ++i) {
      while (tensor_of[i] < tensors.size() && !joins(i, tensor_of[i])) ++tensor_of[i];
      if (tensor_of[i] == tensors.size()) tensors.push_back(slices[i].x);
    }
  }

  // Returns slice i's part of its gradient tensor. Allocates the tensor on first use, and zeroes it unless its parts
  // fill it.
  template <class DeviceTag>
  MatrixView<T> part(DeviceTag device, std::size_t i, std::vector<Tensor<T>>& gradients) const {
    Tensor<T>& dx = gradients[tensor_of[i]];
    if (!dx && slices[i].x.requires_grad()) {
      dx = empty_like(slices[i].x);
      Index filled = 0;
      for (std::size_t j = 0; j < 3; ++j)
        filled += tensor_of[j] == tensor_of[i] && writes_all_rows[j] ? dx.dim(0) * slices[j].width : 0;
      if (filled < dx.size()) kernel::clear(device, view<1>(dx));
    }
    return kernel::matrix_view(dx, slices[i].first, slices[i].width);
  }

 private:
  bool joins(std::size_t i, std::size_t owner) const {
    const ColumnSlice<T>& a = slices[i];
    for (std::size_t j = 0; j < i; ++j) {
      const ColumnSlice<T>& b = slices[j];
      const bool disjoint = a.first + a.width <= b.first || b.first + b.width <= a.first;
      const bool same =
          a.x.device_data() == b.x.device_data() && a.x.shape() == b.x.shape() && a.x.node() == b.x.node();
      if (tensor_of[j] == owner && !(same && disjoint)) return false;
    }
    return true;
  }
};

}  // namespace detail

/// Returns softmax(scale q k^T + bias) v within each sequence and head (Vaswani et al. 2017): [Nq, H * Kv], or [B, Tq,
/// H * Kv] if q is a padded batch. Rows outside all sequences and queries that see no key give zeros; their gradients
/// are zero. A masked key or value changes nothing, even if it is NaN or infinite. The result depends neither on the
/// number of threads nor on padding. @throws ShapeError if q, k or v does not have one row per row of its sequences, if
/// its width is not a positive multiple of `heads`, if q and k differ in width, if the numbers of sequences differ, and
/// if a mask or bias has axes other than AttentionOptions lists. @throws Error for a scale that is not finite, a
/// negative window, and a dropout outside [0, 1), before or after rounding.
template <class Q>
requires Floating<typename Q::Element> Tensor<typename Q::Element> attention(
    const Q& q_rows,  // [Nq, H * K] or [B, Tq, H * K], a tensor or some of its columns, like k and v
    const ColumnSlice<typename Q::Element>& k_rows,  // [Nk, H * K]
    const ColumnSlice<typename Q::Element>& v_rows,  // [Nk, H * Kv]
    const Sequences& sequences,                      // of the Nq rows, and of the Nk rows unless options.keys is given
    const AttentionOptions<typename Q::Element>& options = {}) {
  using T = typename Q::Element;
  detail::AttentionCall<T> call("attention", q_rows, k_rows, sequences, options);
  const ColumnSlice<T>&k = call.k, v = call.as_rows(v_rows, call.keys);
  call.require_heads("attention", {"v", v, 1});
  require_same_device("attention", {"q", call.q}, {"v", v});
  require_rows("attention", {"v", v}, call.keys);
  call.draw("attention", options.dropout, options.random);

  Tensor<T> y({call.q.x.dim(0), v.width}, v.device());                    // [Nq, H * Kv]
  Tensor<Acc<T>> log_sum_exp({call.heads, call.q.x.dim(0)}, v.device());  // [H, Nq]
  const detail::GradientLayout<T> layout(call, v);
  std::vector<Tensor<T>> operands = layout.tensors;
  operands.push_back(call.bias);
  if constexpr (detail::has_cuda)
    if (detail::is_recorded(operands)) call.store_decisions(y);
  dispatch(v.x, [&](auto device) {
    using namespace kernel;
    if (!call.queries.fill_all_rows()) clear(device, view<1>(y));
    kernel::attention(device, call.plan(), matrix_view(call.q), matrix_view(k), matrix_view(v),
                      matrix_view(y, 0, v.width), view<2>(log_sum_exp));
  });

  const Tensor<T> rows = record("attention", y, operands, [=](const Tensor<T>& dy) {
    using namespace kernel;
    std::vector<Tensor<T>> gradients(layout.tensors.size());
    Tensor<Acc<T>> dbias, delta = empty_like(log_sum_exp);
    dispatch(v.x, [&](auto device) {
      const MatrixView<T> dq = layout.part(device, 0, gradients), dk = layout.part(device, 1, gradients),
                          dv = layout.part(device, 2, gradients);
      if (call.bias.requires_grad()) {
        dbias = Tensor<Acc<T>>(call.bias.shape(), call.bias.device());
        clear(device, view<1>(dbias));
      }
      attention_backward(device, call.plan(), matrix_view(call.q), matrix_view(k), matrix_view(v),
                         matrix_view(y, 0, v.width), view<2>(log_sum_exp), matrix_view(dy, 0, v.width), view<2>(delta),
                         dq, dk, dv, per_score(dbias));
    });
    gradients.push_back(dbias ? cast<T>(dbias) : Tensor<T>());
    return gradients;
  });
  return detail::rows_as_given(rows, q_rows.shape(), sequences);
}

/// Returns the attention weights [B, H, Tq, Tk], for visualization; they are zero for padding. Tq and Tk are the padded
/// or longest lengths of the sequences. Applies no dropout and records no gradient. @throws ShapeError as attention()
/// does, and Error for a scale that is not finite and for a negative window.
template <class Q>
requires Floating<typename Q::Element> Tensor<typename Q::Element> attention_weights(
    const Q& q_rows,                                 // as in attention()
    const ColumnSlice<typename Q::Element>& k_rows,  // as in attention()
    const Sequences& sequences, const AttentionOptions<typename Q::Element>& options = {}) {
  using T = typename Q::Element;
  const detail::AttentionCall<T> call("attention_weights", q_rows, k_rows, sequences, options);
  const ColumnSlice<T>& k = call.k;
  Tensor<T> weights({sequences.count(), call.heads, call.queries.extent(), call.keys.extent()}, k.device());
  dispatch(k.x, [&](auto device) {
    kernel::attention_weights(device, call.plan(), kernel::matrix_view(call.q), kernel::matrix_view(k),
                              view<4>(weights));
  });
  return weights;
}

template <class Q, class... Others>
requires Refused<typename Q::Element, Others...>
void attention(const Q&, const Others&...) = delete;  // needs one floating-point type: cast<float>(q)
template <class Q, class K, class V>
requires(!std::integral<typename Q::Element> && Refused<typename Q::Element, K, V>) void attention(
    const Q&, const K&, const V&, const Sequences&,  // needs one floating-point type: cast<float>(q)
    const AttentionOptions<typename Q::Element>&) = delete;
template <class Q>
requires std::integral<typename Q::Element>
void attention(const Q&, const auto&, const auto&, const Sequences&,  // needs cast<float>(q)
               const AttentionOptions<float>&) = delete;
template <class Q, class... Others>
requires Refused<typename Q::Element, Others...>
void attention_weights(const Q&, const Others&...) = delete;  // needs one floating-point type: cast<float>(q)
template <class Q, class K>
requires(!std::integral<typename Q::Element> && Refused<typename Q::Element, K>) void attention_weights(
    const Q&, const K&, const Sequences&,  // needs one floating-point type: cast<float>(q)
    const AttentionOptions<typename Q::Element>&) = delete;
template <class Q>
requires std::integral<typename Q::Element>
void attention_weights(const Q&, const auto&, const Sequences&,  // needs cast<float>(q)
                       const AttentionOptions<float>&) = delete;

}  // namespace heddle
