// What every optimizer keeps: for each parameter its identity, its group and its state. Holding identities, an optimizer made
// before the model was moved or loaded goes on training it.
#pragma once
#include <functional>

#include <heddle/nn/module.hpp>

namespace heddle::optim {

// Parameters that are treated differently from the rest.
struct Group {
  std::function<bool(const std::string& name)> select;
  std::optional<double> lr = {}, weight_decay = {};
  bool frozen = false;
};

// One parameter of an optimizer.
template <class T>
struct Slot {
  using Element = T;
  std::string name;
  typename Parameter<T>::Identity parameter;
  std::optional<double> lr, weight_decay;  // of its group
  bool frozen = false;
  std::int64_t steps = 0;   // how often it was updated
  Tensor<T> first, second;  // what the optimizer remembers of each element; empty where it needs nothing
  // Of each row, whether what is remembered of it may be other than zero; empty where that was not looked at.
  std::vector<char> awake;

  // Of the step that runs.
  struct Step {
    RowGradient<T> gradient;
    T *value = nullptr, *first = nullptr, *second = nullptr;
    bool rests = false;
    std::vector<T> zeros;  // the gradient of a row that has none
  } step = {};

  // Zeros where nothing is remembered yet, beside the parameter.
  void make_room(Tensor<T>& moment) const {
    const Tensor<T>& value = parameter->value();
    moment = moment ? moment.to(value.device()) : zeros<T>(value.shape(), value.device());
  }
};

// All parameters of an optimizer, those of floats before those of doubles.
class Slots {
 public:
  // The first group that selects a parameter's name has it. Throws Error for a group that selects nothing.
  template <class M>
  Slots(const char* optimizer, M& model, const std::vector<Group>& groups) : optimizer_(optimizer) {
    std::vector<int> selected(groups.size(), 0);
    each_parameter(model, [&](const Name& name, auto& p) {
      using T = typename std::remove_cvref_t<decltype(p)>::Element;
      Slot<T> slot;
      slot.name = name.str();
      slot.parameter = p.identity();
      for (std::size_t g = 0; g < groups.size(); ++g) {
        if (!groups[g].select(slot.name)) continue;
        ++selected[g];
        slot.lr = groups[g].lr;
        slot.weight_decay = groups[g].weight_decay;
        slot.frozen = groups[g].frozen;
        break;
      }
      std::get<std::vector<Slot<T>>>(slots_).push_back(std::move(slot));
    });
    for (std::size_t g = 0; g < groups.size(); ++g)
      require(selected[g] > 0, optimizer, ": parameter group ", g, " selects no parameter");
  }

  // Sgd, Adam or AdamW: what begins its messages.
  const char* optimizer() const { return optimizer_; }

  // Calls f(slot) for each parameter, in the order of the visits: those of float first, then those of double.
  template <class F>
  void each(F&& f) {
    for (auto& slot : std::get<0>(slots_)) f(slot);
    for (auto& slot : std::get<1>(slots_)) f(slot);
  }
  template <class F>
  void each(F&& f) const {
    for (const auto& slot : std::get<0>(slots_)) f(slot);
    for (const auto& slot : std::get<1>(slots_)) f(slot);
  }

 private:
  const char* optimizer_;
  std::tuple<std::vector<Slot<float>>, std::vector<Slot<double>>> slots_;
};

}  // namespace heddle::optim
