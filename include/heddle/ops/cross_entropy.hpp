// cross_entropy(logits, labels): minus the log-probability of the labels, with PyTorch's class weights, label smoothing
// and reductions. Let w be the class weights (1 if none are given), e the smoothing and p = softmax(logits). Over the
// rows n whose label y is not ignored:
//   loss_n = (1 - e) w_y (-log p_y) + e / C sum_c w_c (-log p_c),   mean = sum_n loss_n / sum_n w_y
#pragma once
#include <numeric>

#include <heddle/autograd/record.hpp>
#include <heddle/base/threads.hpp>
#include <heddle/cpu/vector.hpp>
#include <heddle/ops/check_ids.hpp>
#include <heddle/ops/loss_reduction.hpp>

namespace heddle {

/// The options of torch.nn.functional.cross_entropy.
template <class T>
struct CrossEntropyOptions {
  std::int64_t ignore_index = -100;       ///< rows with this label are ignored
  Tensor<T> class_weights = {};           ///< [C] factors of the classes; empty: 1
  double label_smoothing = 0;             ///< in [0, 1]
  Reduction reduction = Reduction::mean;  ///< how the rows' losses are combined
};

namespace kernel {

// Returns one weight per class in the accumulator type: class_weights, or ones if there are none.
template <class T>
std::vector<Acc<T>> weights_or_ones(View<const T, 1> class_weights, Index C) {
  std::vector<Acc<T>> weights(static_cast<std::size_t>(C), Acc<T>(1));
  if (class_weights.data) copy_row(weights.data(), class_weights.data, C);
  return weights;
}

// Computes the mean loss and its divisor, the sum of w_y. If `by_row`, computes the loss of each row (0 if it is
// ignored) and sets the divisor to 1. Stores log(sum(exp(z - max z))) of each row: max z may be large, and adding it
// would lose digits. Each piece sums its rows; the sums of the pieces are then added in a fixed order. The sums are
// doubles, because in float the error would grow with the number of rows.
template <class T, class L>
void cross_entropy(Cpu, const IdCheck& check, View<const T, 2> logits, View<const L, 1> labels, std::int64_t ignored,
                   View<const T, 1> class_weights, double smoothing, bool by_row, View<T, 1> loss,
                   View<Acc<T>, 1> divisor, View<Acc<T>, 1> log_sum) {
  using A = Acc<T>;
  check_ids(Cpu{}, check, labels);
  const Index C = logits.extent[1];
  const std::vector<A> all_weights = weights_or_ones(class_weights, C);
  const A* const w = all_weights.data();
  const A share = static_cast<A>(1 - smoothing), smooth = static_cast<A>(smoothing / static_cast<double>(C));
  const Pieces pieces(logits.extent[0], row_grain(C));
  double sums[Pieces::most] = {}, weights[Pieces::most] = {};
  parallel(pieces, [&](Index piece, Index first, Index last) {
    for (Index n = first; n < last; ++n) {
      if (by_row) loss(n) = T(A(0));
      if (labels(n) == ignored) continue;
      const T* const z = &logits(n, 0);
      const Index label = static_cast<Index>(labels(n));
      const A top = max_of<A>(C, [&](Chunk<A> at) { return at.load(z); });
      const A log_of_sum = std::log(sum_of<A>(C, [&](Chunk<A> at) { return exp(at.load(z) - top); }));
      A row_loss = share * w[label] * (log_of_sum - (static_cast<A>(z[label]) - top));
      if (smooth > 0)
        row_loss += smooth * sum_of<A>(C, [&](Chunk<A> at) { return at.load(w) * (log_of_sum - (at.load(z) - top)); });
      log_sum(n) = log_of_sum;
      if (by_row) loss(n) = static_cast<T>(row_loss);
      sums[piece] += static_cast<double>(row_loss);
      weights[piece] += static_cast<double>(w[label]);
    }
  });
  if (by_row) {
    divisor(0) = 1;
    return;
  }
  const double weight = std::accumulate(weights, weights + pieces.count, 0.0);
  divisor(0) = static_cast<A>(weight);
  loss(0) = static_cast<T>(static_cast<A>(std::accumulate(sums, sums + pieces.count, 0.0) / weight));
}

// Computes dlogits = (p sum(t) - t) dy / divisor, with t_c = (1 - e) w_y [c = y] + e / C w_c.
template <class T, class L>
void cross_entropy_backward(Cpu, View<const T, 1> dy, View<const T, 2> logits, View<const L, 1> labels,
                            std::int64_t ignored, View<const T, 1> class_weights, double smoothing, bool by_row,
                            View<const Acc<T>, 1> divisor, View<const Acc<T>, 1> log_sum, View<T, 2> dlogits) {
  using A = Acc<T>;
  const Index C = logits.extent[1];
  const std::vector<A> w = weights_or_ones(class_weights, C);
  const A share = static_cast<A>(1 - smoothing), smooth = static_cast<A>(smoothing / static_cast<double>(C));
  const A all_smooth = smooth * sum_of<A>(C, [&](Chunk<A> at) { return at.load(w.data()); });
  parallel(logits.extent[0], row_grain(C), [&](Index first, Index last) {
    std::vector<A> terms(w);  // t of a row
    for (A& t : terms) t *= smooth;
    for (Index n = first; n < last; ++n) {
      T* const dz = &dlogits(n, 0);
      if (labels(n) == ignored) {
        std::fill_n(dz, C, T(A(0)));
        continue;
      }
      const T* const z = &logits(n, 0);
      const auto label = static_cast<std::size_t>(labels(n));
      const A of_label = share * w[label], top = max_of<A>(C, [&](Chunk<A> at) { return at.load(z); });
      const A factor = static_cast<A>(dy(by_row ? n : 0)) / divisor(0), log_of_sum = log_sum(n);
      const A rest = terms[label];
      terms[label] += of_label;
      for_each_chunk<A>(C, [&](Chunk<A> at) {
        const Vector<A> p = exp_or_zero(at.load(z) - top - log_of_sum);
        at.store(dz, (p * (of_label + all_smooth) - at.load(terms.data())) * factor);
      });
      terms[label] = rest;
    }
  });
}

}  // namespace kernel

/// Returns the cross-entropy, -log(softmax(logits)[label]) of each row, reduced to a scalar []. Reduction::none returns
/// the losses of the rows, in the shape of the labels, 0 where the label is ignored. The mean divides by the sum of the
/// labels' weights; if every label is ignored it is NaN, as in PyTorch, and its gradient is zero. The class weights get
/// no gradient. Labels on the host may be used with logits on a GPU. @throws ShapeError if the shapes do not match or
/// the class weights are not [C], Error for a smoothing outside [0, 1] and for Reduction::batch_mean, and IndexError
/// for a label that is not a class; for labels on a GPU the next synchronizing call throws it.
template <Floating T, class L>
Tensor<T> cross_entropy(const Tensor<T>& logits,  // [N, C], or [B, T, C]; padding has the label options.ignore_index
                        const Tensor<L>& labels,  // [N], or [B, T], int or int64
                        const std::type_identity_t<CrossEntropyOptions<T>>& options = {}) {
  static_assert(kernel::is_label<L>, "heddle::cross_entropy: labels must be int or int64");
  if (logits.rank() == 3 && labels.rank() == 2 && labels.shape() == logits.shape().without(-1))
    return detail::in_shape(cross_entropy(reshape(logits, Shape{labels.size(), logits.dim(2)}),
                                          labels.with_shape({labels.size()}), options),
                            options.reduction == Reduction::none ? labels.shape() : Shape{});
  require<ShapeError>(logits.rank() != 3, "cross_entropy: labels ", labels.shape(), " must have the shape of logits ",
                      logits.shape(), " without its last axis, the classes");
  const Tensor<T>& class_weights = options.class_weights;
  const double smoothing = options.label_smoothing;
  const std::int64_t ignored = options.ignore_index;
  require_rank("cross_entropy", {"logits", logits}, 2);
  require_rank("cross_entropy", {"labels", labels}, 1);
  const kernel::IdCheck check{"cross_entropy", "label", "none of the # classes", logits.dim(1), ignored};
  if (detail::are_on_host_for(logits.device(), labels)) {
    detail::check_ids(labels, check);
    return cross_entropy(logits, labels.to(logits.device()), options);
  }
  require_same("cross_entropy", "N", {"logits", logits, 0}, {"labels", labels, 0});
  if (class_weights) {
    require_rank("cross_entropy", {"class_weights", class_weights}, 1);
    require_same("cross_entropy", "C", {"logits", logits, 1}, {"class_weights", class_weights, 0});
  }
  require(smoothing >= 0 && smoothing <= 1, "cross_entropy: label_smoothing must be in [0, 1], got ", smoothing);
  require(options.reduction != Reduction::batch_mean,
          "cross_entropy: the reduction must be mean, sum or none, got batch_mean; mean averages over the rows");
  if (options.reduction == Reduction::sum) {
    CrossEntropyOptions<T> of_rows = options;
    of_rows.reduction = Reduction::none;
    return sum(cross_entropy(logits, labels, of_rows));
  }
  const auto weights = [class_weights] {
    return class_weights ? view<1>(class_weights) : View<const T, 1>{nullptr, {0}};
  };

  const bool by_row = options.reduction == Reduction::none;
  Tensor<T> loss(by_row ? labels.shape() : Shape{}, logits.device());
  Tensor<Acc<T>> divisor(Shape{}, logits.device()), log_sum(labels.shape(), logits.device());
  dispatch(logits, [&](auto device) {
    kernel::cross_entropy(device, check, view<2>(logits), view<1>(labels), ignored, weights(), smoothing, by_row,
                          view<1>(loss), view<1>(divisor), view<1>(log_sum));
  });

  return record("cross_entropy", loss, inputs(logits), [=](const Tensor<T>& dy) {
    Tensor<T> dlogits = empty_like(logits);
    dispatch(logits, [&](auto device) {
      kernel::cross_entropy_backward(device, view<1>(dy), view<2>(logits), view<1>(labels), ignored, weights(),
                                     smoothing, by_row, view<1>(divisor), view<1>(log_sum), view<2>(dlogits));
    });
    return dlogits;
  });
}

template <std::integral T, class... Others>
void cross_entropy(const Tensor<T>&, const Others&...) = delete;  // needs cast<float>(x)
template <std::integral T>
void cross_entropy(const Tensor<T>&, const auto&, const CrossEntropyOptions<float>&) = delete;  // needs cast<float>(x)

}  // namespace heddle
