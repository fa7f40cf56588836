// The common part of every optimizer's rule. A rule is the formula of one element's update with one parameter's constants,
// written once for the CPU and the GPU; sgd_rule.hpp is the shortest. It has
//   Options::optimizer, lr, weight_decay      the name that begins messages, and the settings that groups may replace
//   Options::check()                          throws Error if one of the other settings is outside its range; may be absent
//   Element                                   the type of the parameter
//   moments                                   the state that it keeps for each element
//   Rule(options, settings)                   its constants for one parameter and step
//   needs_moments()                           whether this step uses the moment estimates
//   keeps_stateless_rows()                    whether a row whose gradient and moment estimates are 0 stays as it is
//   operator()(V& p, V g, V* moments) const   the update; V is a number, or a SIMD vector (cpu/vector.hpp)
#pragma once
#include <heddle/base/build.hpp>

namespace heddle::optim {

/// One number that an optimizer keeps for each element of a parameter.
struct Moment {
  const char* name;             ///< its prefix in files
  bool is_optional = false;     ///< whether some settings need no such estimate
  bool is_nonnegative = false;  ///< whether it cannot be negative, as a mean of squares
};

/// The settings of one parameter in one step.
struct UpdateSettings {
  double lr;            ///< learning rate
  double weight_decay;  ///< its meaning depends on the optimizer
  std::int64_t step;    ///< 1 in the first step
};

}  // namespace heddle::optim
