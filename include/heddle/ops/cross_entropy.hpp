// cross_entropy(logits, labels): minus the mean log-probability of the labels, with PyTorch's weights and label smoothing. With w the
// class weights (1 without), e the smoothing and p = softmax(logits), over the rows n whose label y is not ignored:
//   loss = sum_n [(1 - e) w_y (-log p_y) + e / C sum_c w_c (-log p_c)] / sum_n w_y
#pragma once
#include <heddle/autograd.hpp>
#include <heddle/eigen.hpp>
#include <heddle/parallel.hpp>

namespace heddle {

template <class T>
struct CrossEntropyOptions {
  std::int64_t ignore_index = -100;  // rows with this label take no part
  Tensor<T> class_weights = {};      // [C]
  double label_smoothing = 0;        // in [0, 1]
};

namespace kernel {

// The first label that is neither ignored nor one of C classes, or -1.
template <class L>
Index first_outside(Cpu, View<const L, 1> labels, std::int64_t ignored, Index C) {
  for (Index n = 0; n < labels.extent[0]; ++n)
    if (labels(n) != ignored && (labels(n) < 0 || labels(n) >= C)) return n;
  return -1;
}

// What row n's log-probabilities are multiplied by in the sum: `smooth` times w_c for all classes, and `own` more for the label.
template <class A>
struct Target {
  RowArray<A> weights;
  A own, smooth;

  template <class T>
  Target(View<const T, 1> class_weights, double smoothing)
}

}  // namespace kernel
}  // namespace heddle
