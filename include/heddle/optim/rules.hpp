// What a step of an optimizer does to one parameter, as kernels of the GPU see it.
#pragma once
#include <heddle/view.hpp>

namespace heddle::kernel {

// One parameter: its elements, their gradient, what is remembered of each, and the constants of its group.
struct Updated {
  float *value, *first, *second;  // the last two without data where nothing is remembered
  const float* gradient;
  Index size;
  float rate;     // Adam's over 1 - beta1^t
  float coupled;  // weight decay in the gradient
  float shrink;   // the weight's factor before the step: decoupled weight decay
  float root;     // Adam's 1 / sqrt(1 - beta2^t)
  bool begins;    // its first step
};

// p = shrink p - rate m / (sqrt(v) root + eps) with g = gradient + coupled p, v = beta2 v + rest2 g^2, m += rest1 (g - m).
struct AdamRule {
  float beta2, rest1, rest2, eps;
};
// p -= rate b with g as above and b = g at first, then momentum b + g.
struct SgdRule {
  float momentum;
};

}  // namespace heddle::kernel
