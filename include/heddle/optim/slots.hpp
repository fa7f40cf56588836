// Slots: the identity, the settings and the moment estimates that every optimizer keeps for each parameter. An
// optimizer holds identities, so it may be made before the model is moved or loaded.
#pragma once
#include <functional>
#include <span>

#include <heddle/nn/module.hpp>
#include <heddle/optim/rule.hpp>

namespace heddle::optim {

/// Parameters with settings that replace the optimizer's. The first group that selects a parameter applies.
struct Group {
  std::function<bool(const std::string& name)> select = {};  ///< returns whether the group contains this parameter
  std::optional<double> lr = {};                             ///< learning rate; the optimizer's if empty
  std::optional<double> weight_decay = {};                   ///< weight decay; the optimizer's if empty
  bool frozen = false;                                       ///< whether these parameters are excluded from updates
};

/// One parameter of an optimizer.
template <class T>
struct Slot {
  using Element = T;  ///< the type of the parameter

  std::string name;                            ///< its name in the model
  typename Parameter<T>::Identity parameter;   ///< the parameter
  std::optional<double> lr;                    ///< learning rate of its group
  std::optional<double> weight_decay;          ///< weight decay of its group
  bool frozen = false;                         ///< whether it is excluded from updates
  std::int64_t steps = 0;                      ///< how often it was updated
  std::array<Tensor<T>, max_moments> moments;  ///< empty before they are first needed
  std::vector<char> row_flags;  ///< one per row: whether its moments may be nonzero; empty if they are not tracked
};

/// All parameters of an optimizer.
class Slots {
 public:
  /// Creates Slots without parameters. `moments` describes the moment estimates of each element.
  Slots(const char* optimizer, std::span<const Moment> moments) : optimizer_(optimizer), moments_(moments) {}

  /// Adds a parameter, with the settings of its group if it has one.
  template <class T>
  void add(std::string name, const Parameter<T>& p, const Group* group) {
    Slot<T>& slot = of<T>().emplace_back();
    slot.name = std::move(name);
    slot.parameter = p.identity();
    if (!group) return;
    slot.lr = group->lr;
    slot.weight_decay = group->weight_decay;
    slot.frozen = group->frozen;
  }

  /// Returns the optimizer's name, which begins its messages.
  const char* optimizer() const { return optimizer_; }
  /// Returns the description of each element's moment estimates.
  std::span<const Moment> moments() const { return moments_; }

  /// Returns the slots of the parameters of type T (float or double), in the order in which the model visits them.
  template <class T>
  std::vector<Slot<T>>& of() {
    return std::get<std::vector<Slot<T>>>(slots_);
  }

  /// Calls f(slot) for each parameter: first those of float, then those of double.
  template <class F>
  void each(F&& f) {
    for (auto& slot : std::get<0>(slots_)) f(slot);
    for (auto& slot : std::get<1>(slots_)) f(slot);
  }
  /// Calls f(slot) for each parameter: first those of float, then those of double.
  template <class F>
  void each(F&& f) const {
    for (const auto& slot : std::get<0>(slots_)) f(slot);
    for (const auto& slot : std::get<1>(slots_)) f(slot);
  }

 private:
  const char* optimizer_;
  std::span<const Moment> moments_;
  std::tuple<std::vector<Slot<float>>, std::vector<Slot<double>>> slots_;
};

}  // namespace heddle::optim
