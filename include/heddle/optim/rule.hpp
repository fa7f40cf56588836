// The common part of every optimizer's rule. A rule is the formula of one element's update with one parameter's
// constants, written once for the CPU and the GPU; sgd_rule.hpp is the shortest, and docs/extending.md shows one of
// your own. It has
//   Options::optimizer, lr, weight_decay      the name that begins messages, and the settings that groups may replace
//   Options::check()                          throws Error if one of the other settings is outside its range; may be
//                                             absent
//   Element                                   the type of the parameter
//   moments                                   the state that it keeps for each element: at most max_moments
//   Rule(options, settings)                   its constants for one parameter and step
//   needs_moments()                           whether this step uses the moment estimates
//   keeps_stateless_rows()                    whether a row whose gradient and moment estimates are 0 stays as it is
//   operator()(V& p, V g, V* moments) const   the update; V is a number, or a SIMD vector (cpu/vector.hpp)
//   has_gpu_kernel                            true if kernel::update(Cuda, …) is defined for it; may be absent
#pragma once
#include <concepts>
#include <cstddef>
#include <string_view>

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

/// The largest number of moment estimates of a rule.
inline constexpr std::size_t max_moments = 2;

/// Returns whether moments have names that can stand side by side in a file, which also has the step counts, `steps`.
template <class Moments>
constexpr bool are_distinct(const Moments& moments) {
  for (std::size_t i = 0; i < moments.size(); ++i) {
    if (!moments[i].name || std::string_view(moments[i].name) == "steps") return false;
    for (std::size_t j = 0; j < i; ++j)
      if (std::string_view(moments[i].name) == moments[j].name) return false;
  }
  return true;
}

/// A rule that an optimizer with these options can use: the members above, and at most max_moments moment estimates,
/// with distinct names other than `steps`.
template <class Rule, class Options>
concept UpdateRule = requires(const Rule& rule, const Options& options, const UpdateSettings& settings,
                              typename Rule::Element number, typename Rule::Element* moments) {
  { Options::optimizer } -> std::convertible_to<const char*>;
  { options.lr } -> std::convertible_to<double>;
  { options.weight_decay } -> std::convertible_to<double>;
  Rule(options, settings);
  { rule.needs_moments() } -> std::same_as<bool>;
  { rule.keeps_stateless_rows() } -> std::same_as<bool>;
  rule(number, number, moments);
}
&&Rule::moments.size() <= max_moments&& are_distinct(Rule::moments);

}  // namespace heddle::optim
