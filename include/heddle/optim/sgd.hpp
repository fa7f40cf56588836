#pragma once
#include <heddle/optim/optimizer.hpp>
#include <heddle/optim/sgd_rule.hpp>

namespace heddle::optim {

/// Stochastic gradient descent with momentum; sgd_rule.hpp has the formula.
using Sgd = Optimizer<SgdOptions, SgdRule>;

}  // namespace heddle::optim
