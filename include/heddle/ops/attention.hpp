// attention(q, k, v, sequences): softmax(scale q k^T + bias) v within each sequence and head (Vaswani et al. 2017),
// without ever holding the [T, T] probabilities: memory is linear in T, and the backward makes them again from one
// number per query and head.
#pragma once
#include <array>

#include <heddle/autograd.hpp>
#include <heddle/ops/attention_backward.hpp>
#include <heddle/ops/attention_call.hpp>
#include <heddle/ops/attention_kernel.hpp>
#include <heddle/ops/cast.hpp>
#include <heddle/ops/clear.hpp>

namespace heddle {

// Which gradient q, k and v each write to: disjoint blocks of one tensor share one, so that a packed product gets a
// single gradient of its own shape. Overlapping blocks (q = k = v) have their own, which the engine adds.
template <class T>
struct AttentionOwners {
  std::array<ColumnBlock<T>, 3> blocks;  // q, k, v
  std::array<Index, 3> rows;             // of each, those that belong to a sequence
  std::array<std::size_t, 3> of{};
  std::vector<Tensor<T>> tensors;

  // Blocks join where they are of one tensor and disjoint.
  AttentionOwners(const AttentionCall<T>& call, const ColumnBlock<T>& v)
      : blocks{call.q, call.k, v}, rows{real_rows(call.queries), real_rows(call.keys), real_rows(call.keys)} {
    for (std::size_t i = 0; i < 3; ++i) {
      while (of[i] < tensors.size() && !joins(i, of[i])) ++of[i];
      if (of[i] == tensors.size()) tensors.push_back(blocks[i].x);
    }
  }

  // Block i's part of its owner's gradient, which is made when first asked for: with zeros, unless its parts fill it.
  template <class DeviceTag>
  Columns<T> part(DeviceTag device, std::size_t i, std::vector<Tensor<T>>& gradients) const {
    Tensor<T>& dx = gradients[of[i]];
    if (!dx && blocks[i].x.requires_grad()) {
      dx = like(blocks[i].x);
      Index filled = 0;
      for (std::size_t j = 0; j < 3; ++j) filled += of[j] == of[i] ? rows[j] * blocks[j].width : 0;
      if (filled < dx.size()) kernel::clear(device, view<1>(dx));
    }
    return kernel::column_view(dx, blocks[i].first, blocks[i].width);
  }

 private:
  bool joins(std::size_t i, std::size_t owner) const {
    const ColumnBlock<T>& a = blocks[i];
    for (std::size_t j = 0; j < i; ++j) {
      const ColumnBlock<T>& b = blocks[j];
      const bool disjoint = a.first + a.width <= b.first || b.first + b.width <= a.first;
      const bool same =
          a.x.device_data() == b.x.device_data() && a.x.shape() == b.x.shape() && a.x.node() == b.x.node();
      if (of[j] == owner && !(same && disjoint)) return false;
    }
    return true;
  }
};

// Rows outside all sequences give zeros, as do queries that see no key; so are their gradients. A masked key or value
// changes nothing, NaN and infinity included. The results do not depend on the number of threads, nor on padding.
// Throws ShapeError; Error for a dropout outside [0, 1).
template <class Q>
auto attention(const Q& q_rows,                            // [Nq, H * K] a tensor or columns of one, as k and v
               const ColumnBlock<typename Q::Element>& k,  // [Nk, H * K]
               const ColumnBlock<typename Q::Element>& v,  // [Nk, H * Kv]
               const Sequences& sequences,                 // of the Nq rows, and of the Nk rows without options.keys
               const AttentionOptions<typename Q::Element>& options = {}) {
  using T = typename Q::Element;
  AttentionCall<T> call("attention", q_rows, k, sequences, options);
  call.require_heads("attention", {"v", v, 1});
  require_same_device("attention", {"q", call.q, 0}, {"v", v, 0});
  require_rows("attention", {"v", v, 0}, call.keys);
  call.draw("attention", options.dropout, options.random);

  Tensor<T> y({call.q.x.dim(0), v.width}, v.device());                    // [Nq, H * Kv]
  Tensor<Acc<T>> log_sum_exp({call.heads, call.q.x.dim(0)}, v.device());  // [H, Nq]
  on(v.x, [&](auto device) {
    using namespace kernel;
    if (real_rows(call.queries) < y.dim(0)) clear(device, view<1>(y));
    kernel::attention(device, call.plan(), column_view(call.q), column_view(k), column_view(v),
                      column_view(y, 0, v.width), view<2>(log_sum_exp));
  });

  const AttentionOwners<T> owners(call, v);
  std::vector<Tensor<T>> operands = owners.tensors;
  operands.push_back(call.bias);
  return record("attention", y, operands, [=](const Tensor<T>& dy) {
    using namespace kernel;
    std::vector<Tensor<T>> gradients(owners.tensors.size());
    Tensor<Acc<T>> dbias, delta = like(log_sum_exp);
    on(v.x, [&](auto device) {
      const Columns<T> dq = owners.part(device, 0, gradients), dk = owners.part(device, 1, gradients),
                       dv = owners.part(device, 2, gradients);
      if (call.bias.requires_grad()) {
        dbias = Tensor<Acc<T>>(call.bias.shape(), call.bias.device());
        clear(device, view<1>(dbias));
      }
      attention_backward(device, call.plan(), column_view(call.q), column_view(k), column_view(v),
                         column_view(y, 0, v.width), view<2>(log_sum_exp), column_view(dy, 0, v.width), view<2>(delta),
                         dq, dk, dv, per_score(dbias));
    });
    gradients.push_back(dbias ? cast<T>(dbias) : Tensor<T>());
    return gradients;
  });
}

// The probabilities [B, H, Tq, Tk] themselves, for pictures: zeros where a sequence has no query or key; Tq and Tk are
// what the sequences are padded to, or their longest. Without dropout; a constant. Throws ShapeError.
template <class Q>
auto attention_weights(const Q& q_rows,                            // [Nq, H * K] a tensor or columns of one, as k
                       const ColumnBlock<typename Q::Element>& k,  // [Nk, H * K]
                       const Sequences& sequences, const AttentionOptions<typename Q::Element>& options = {}) {
  using T = typename Q::Element;
  const AttentionCall<T> call("attention_weights", q_rows, k, sequences, options);
  const auto extent = [](const Sequences& s) { return s.padded_to() ? s.padded_to() : s.longest(); };
  Tensor<T> weights({sequences.count(), call.heads, extent(call.queries), extent(call.keys)}, k.device());
  on(k.x, [&](auto device) {
    kernel::attention_weights(device, call.plan(), kernel::column_view(call.q), kernel::column_view(k),
                              view<4>(weights));
  });
  return weights;
}

}  // namespace heddle
