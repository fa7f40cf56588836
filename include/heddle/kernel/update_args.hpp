// UpdateArgs: one parameter in a step of an optimizer, as kernels receive it.
#pragma once
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

}  // namespace heddle::kernel
