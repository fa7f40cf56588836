#pragma once
#include <heddle/optim/adam_rule.hpp>
#include <heddle/optim/optimizer.hpp>

namespace heddle::optim {

/// Adam, with weight decay in the gradient; adam_rule.hpp has the formula.
using Adam = Optimizer<AdamOptions, AdamRule>;
/// AdamW, with weight decay on the parameter itself.
using AdamW = Optimizer<AdamWOptions, AdamRule>;

}  // namespace heddle::optim
