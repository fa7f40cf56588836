// What every optimizer keeps: for each parameter its identity, its group and its state. Holding identities, an optimizer made
// before the model was moved or loaded goes on training it.
#pragma once
#include <functional>

#include <heddle/eigen.hpp>
#include <heddle/nn/module.hpp>
#include <heddle/parallel.hpp>

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
  std::int64_t steps = 0;        // how often it was updated
  std::vector<T> first, second;  // what the optimizer remembers of each element; empty where it needs nothing
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

  // Calls update(slot, gradient, first, last) on pieces of every parameter that has a gradient, all parameters in one
  // parallel loop; then drops the gradients. Nothing is updated when a gradient is not finite: Error names the parameter.
  template <class Prepare, class Update>
  void update(Prepare&& prepare, Update&& update) {
    std::vector<std::function<void()>> pieces;
    require_finite();
    each([&](auto& slot) {
      const auto gradient = gradient_of(slot);
      if (!gradient) return;
      ++slot.steps;
      prepare(slot, gradient.size());
      auto* const value = slot.parameter->data();
      for (Index first = 0; first < gradient.size(); first += piece)
        pieces.push_back([&slot, &update, gradient, value, first] {
          update(slot, value, gradient.device_data(), first, std::min(piece, gradient.size() - first));
        });
    });
    kernel::parallel(static_cast<Index>(pieces.size()), 1, [&](Index first, Index last) {
      for (Index i = first; i < last; ++i) pieces[static_cast<std::size_t>(i)]();
    });
    each([](auto& slot) {
      if (slot.parameter->value().requires_grad()) slot.parameter->value().set_grad({});
    });
  }

 private:
  static constexpr Index piece = 32768;  // elements: a few microseconds of memory traffic

  template <class T>
  static Tensor<T> gradient_of(const Slot<T>& slot) {
    const Tensor<T>& value = slot.parameter->value();
    return slot.frozen || !value.requires_grad() ? Tensor<T>() : value.grad();
  }

  void require_finite() {
    each([&](const auto& slot) {
      const auto gradient = gradient_of(slot);
      if (!gradient) return;
      std::atomic<bool> finite = true;
      kernel::parallel(gradient.size(), piece, [&](Index first, Index last) {
        // x * 0 is 0 for a finite x and NaN otherwise.
        const auto sum = (kernel::array(gradient.device_data() + first, last - first) * 0).sum();
        if (!(sum == 0)) finite = false;
      });
      require(finite, optimizer_, ": the gradient of '", slot.name, "' is not finite; nothing was updated");
    });
  }

  const char* optimizer_;
  std::tuple<std::vector<Slot<float>>, std::vector<Slot<double>>> slots_;
};

}  // namespace heddle::optim
