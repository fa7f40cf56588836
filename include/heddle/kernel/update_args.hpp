// UpdateArgs: one parameter in a step of an optimizer, as kernels receive it. Clipping: how the step scales gradients.
#pragma once
#include <cmath>
#include <limits>

#include <heddle/base/bf16.hpp>
#include <heddle/base/view.hpp>

namespace heddle::kernel {

// `Rule` is the optimizer's formula with this parameter's constants, such as AdamRule<float>.
template <class Rule>
struct UpdateArgs {
  using T = typename Rule::Element;
  static constexpr int moment_count =
      Rule::moments.empty() ? 1 : static_cast<int>(Rule::moments.size());  // an array has an element

  Rule rule;
  View<T, 1> value;
  const T* gradient;
  T* moments[unsigned{moment_count}];  // the optimizer's state of each element; null if the rule does not need it now
  bf16* cast = nullptr;                // a kernel that updates the value writes it here, too, unless this is null
};

// The limit of the norm of all gradients, and the sums of the squares of those on the CPU and on the GPU. The sum on
// the GPU may be left to its kernel.
struct Clipping {
  double max_norm = std::numeric_limits<double>::infinity();
  double squares_on_cpu = 0, squares_on_gpu = 0;

  // Returns the factor on all gradients, as torch.nn.utils.clip_grad_norm_ computes it.
  HEDDLE_HD double factor() const {
    using std::sqrt;
    const double ratio = max_norm / (sqrt(squares_on_cpu + squares_on_gpu) + 1e-6);
    return ratio < 1 ? ratio : 1;
  }
};

}  // namespace heddle::kernel
