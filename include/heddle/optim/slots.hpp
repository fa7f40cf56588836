// Slots: the identity, the settings and the moment estimates that every optimizer keeps for each parameter. An
// optimizer holds identities, so it may be made before the model is moved or loaded.
#pragma once
#include <functional>
#include <limits>
#include <memory>
#include <span>

#include <heddle/kernel/enqueued_step.hpp>
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

/// Some consecutive rows of a parameter: positions of its first axis. A scalar has one row.
struct Rows {
  Index first = 0;                                 ///< the first row
  Index last = std::numeric_limits<Index>::max();  ///< one past the last row
};

/// One parameter of an optimizer.
template <class T>
struct Slot {
  using Element = T;  ///< the type of the parameter

  std::string name;                           ///< its name in the model
  typename Parameter<T>::Identity parameter;  ///< the parameter
  std::optional<double> lr;                   ///< learning rate of its group
  std::optional<double> weight_decay;         ///< weight decay of its group
  bool frozen = false;                        ///< whether it is excluded from updates
  std::int64_t steps = 0;                     ///< how often it was updated; see Slots::synchronize()
  Rows own = {};  ///< the rows that are updated, and have moments: all, or those of a process
  std::array<Tensor<T>, max_moments> moments;  ///< of the own rows; empty before they are first needed
  std::vector<char> row_flags;  ///< one per own row: whether its moments may be nonzero; empty if they are not tracked

  /// Returns the number of rows of the parameter.
  Index rows() const { return parameter->shape().rank() > 0 ? parameter->shape()[0] : 1; }
  /// Returns the number of elements of a row.
  Index width() const {
    const Shape& shape = parameter->shape();
    return shape.product(std::min(1, shape.rank()), shape.rank());
  }
  /// Returns the own rows, as far as the parameter has them.
  Rows own_rows() const { return {std::min(own.first, rows()), std::min(own.last, rows())}; }
  /// Returns whether the parameter has rows that are not updated.
  bool is_part() const { return own_rows().last - own_rows().first < rows(); }
  /// Returns the shape of a moment estimate.
  Shape own_shape() const {
    const Shape& shape = parameter->shape();
    const Index count = own_rows().last - own_rows().first;
    if (shape.rank() == 0) return count > 0 ? shape : Shape{0};
    return shape.with(0, count);
  }
};

/// All parameters of an optimizer. On a GPU, steps that are enqueued count as done. If one is found to have had a
/// gradient that is not finite, it is no longer counted, nor are those after it.
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
    take_back_skipped();
    return std::get<std::vector<Slot<T>>>(slots_);
  }

  /// Calls f(slot) for each parameter: first those of float, then those of double.
  template <class F>
  void each(F&& f) {
    for (auto& slot : of<float>()) f(slot);
    for (auto& slot : of<double>()) f(slot);
  }
  /// Calls f(slot) for each parameter: first those of float, then those of double.
  template <class F>
  void each(F&& f) const {
    take_back_skipped();
    for (const auto& slot : std::get<0>(slots_)) f(slot);
    for (const auto& slot : std::get<1>(slots_)) f(slot);
  }

  /// Waits until it is known which of the enqueued steps were done, on any stream. @throws Error if one had a gradient
  /// that is not finite.
  void synchronize() const {
    if constexpr (heddle::detail::has_cuda) {
      for (const auto& step : enqueued_) kernel::wait_for(*step);
      take_back_skipped();
    }
  }

  /// @private Counts a step of these parameters of float, which a GPU will check, and returns it.
  [[gnu::cold]] std::shared_ptr<kernel::EnqueuedStep> enqueue(std::vector<std::size_t> parameters) {
    const auto& all = of<float>();
    if (!names_ || names_->size() != all.size()) {
      std::vector<std::string> names;
      for (const auto& slot : all) names.push_back(slot.name);
      names_ = std::make_shared<std::vector<std::string>>(std::move(names));
    }
    const auto step = std::make_shared<kernel::EnqueuedStep>(optimizer_, names_, std::move(parameters));
    return enqueued_.emplace_back(step);
  }

 private:
  // Takes back the count of the enqueued steps that turned out to be skipped, and forgets those whose outcome is known.
  void take_back_skipped() const {
    if constexpr (heddle::detail::has_cuda)
      std::erase_if(enqueued_, [&](const std::shared_ptr<kernel::EnqueuedStep>& step) {
        const auto outcome = step->outcome.load();
        if (outcome == kernel::EnqueuedStep::Outcome::skipped)
          for (const std::size_t i : step->parameters) --std::get<0>(slots_)[i].steps;
        return outcome != kernel::EnqueuedStep::Outcome::unknown;
      });
  }

  const char* optimizer_;
  std::span<const Moment> moments_;
  mutable std::tuple<std::vector<Slot<float>>, std::vector<Slot<double>>> slots_;
  mutable std::vector<std::shared_ptr<kernel::EnqueuedStep>> enqueued_;
  std::shared_ptr<const std::vector<std::string>> names_;  // of the parameters of float
};

}  // namespace heddle::optim
