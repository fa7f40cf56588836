// Optimizer: updates all parameters of a model by a rule. An optimizer is defined by its options and its rule: see
// sgd.hpp.
#pragma once
#include <heddle/autograd/backward.hpp>
#include <heddle/optim/slots.hpp>
#include <heddle/optim/update.hpp>

namespace heddle {

namespace detail {

// A visitor that adds each parameter of a model to an optimizer, a shared parameter under its first name. It is a named
// type, so that heddle::compiled can contain its instantiations for heddle's own modules.
template <class Optimizer>
struct Enrollment {
  Optimizer& optimizer;
  const std::vector<optim::Group>& groups;
  std::vector<bool> matched;
  std::set<const void*> seen;
  UniqueNames names;

  // Throws Error for a group without select, or with a setting outside its range.
  [[gnu::cold]] Enrollment(Optimizer& of, const std::vector<optim::Group>& settings);
  ~Enrollment();

  template <class T>
  [[gnu::cold]] void operator()(const Name& name, const Parameter<T>& p);
  template <class T>
  void operator()(const Name& name, const Buffer<T>&) {
    names.add(name);
  }

  // Throws Error if a group matches no parameter.
  [[gnu::cold]] void require_matches() const;
};

template <class Optimizer>
Enrollment<Optimizer>::Enrollment(Optimizer& of, const std::vector<optim::Group>& settings)
    : optimizer(of), groups(settings), matched(settings.size(), false) {
  const char* const name = optimizer.state().optimizer();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    require(groups[g].select != nullptr, name, ": select of parameter group ", g,
            " is not set; give a function of the parameter's name");
    const auto check = [&](const char* setting, double value) {
      require(value >= 0 && value < std::numeric_limits<double>::infinity(), name, ": ", setting,
              " of parameter group ", g, " must be finite and not negative, got ", value);
    };
    check("lr", groups[g].lr.value_or(0));
    check("weight_decay", groups[g].weight_decay.value_or(0));
  }
}
template <class Optimizer>
Enrollment<Optimizer>::~Enrollment() = default;

template <class Optimizer>
template <class T>
void Enrollment<Optimizer>::operator()(const Name& name, const Parameter<T>& p) {
  names.add(name);
  if (!seen.insert(p.identity().get()).second) return;
  const std::string joined = name.str();
  const auto group =
      std::find_if(groups.begin(), groups.end(), [&](const optim::Group& g) { return g.select(joined); });
  const bool found = group != groups.end();
  if (found) matched[static_cast<std::size_t>(group - groups.begin())] = true;
  optimizer.enroll(joined, p, found ? &*group : nullptr);
}

template <class Optimizer>
void Enrollment<Optimizer>::require_matches() const {
  for (std::size_t g = 0; g < groups.size(); ++g)
    require(matched[g], optimizer.state().optimizer(), ": parameter group ", g,
            " selects no parameter; summary(model) returns the names");
}

}  // namespace detail

namespace optim {

/// The treatment of a step without any gradient: `required` makes it an error. Choose `optional` if a batch
/// may be empty.
enum class Gradients { required, optional };

/// An optimizer of a model's parameters, which may be on either device if the rule has a kernel for a GPU.
template <class Options, template <class> class Rule>
requires UpdateRule<Rule<float>, Options>
class Optimizer {
 public:
  Options options;  ///< the settings, which may be changed between steps

  /// Creates the optimizer for every parameter of `model`. @throws Error for an option or a group's setting that is out
  /// of range, a group without `select`, a group that matches no parameter, and a name that the model visits twice.
  template <class M>
  [[gnu::cold]] explicit Optimizer(M& model, Options settings = {}, const std::vector<Group>& groups = {})
      : options(settings), slots_(Options::optimizer, Rule<float>::moments) {
    check_options();
    heddle::detail::Enrollment<Optimizer> enrollment(*this, groups);
    heddle::detail::visit_leaves(Name(""), model, enrollment);
    enrollment.require_matches();
  }

  /// Updates every parameter that has a gradient and is not frozen, then clears all gradients. The learning rate is
  /// multiplied by `factor`, which a schedule gives. @throws Error if a gradient is not finite (nothing is updated
  /// then, and all gradients are cleared), if no trainable parameter has a gradient and `gradients` is
  /// Gradients::required, if an option or `factor` is out of range, and for a parameter on the GPU if the rule has no
  /// kernel for it. If memory for moment estimates runs out, nothing is updated.
  void step(double factor = 1, Gradients gradients = Gradients::required);

  /// Returns the state of each parameter: for io::save_optimizer and io::load_optimizer.
  Slots& state() { return slots_; }
  /// Returns the state of each parameter.
  const Slots& state() const { return slots_; }

 private:
  friend struct heddle::detail::Enrollment<Optimizer>;

  // A parameter with a gradient.
  template <class T>
  struct Pending {
    Slot<T>* slot;
    RowGradient<T> gradient;
  };
  static constexpr Device devices[] = {Device::cpu, Device::cuda};
  static constexpr bool has_gpu_kernel = requires { requires Rule<float>::has_gpu_kernel; };

  // The parts of a step for parameters of type T; null if the model has none. The constructor, which knows the model's
  // type, sets these pointers, so that a model of floats does not compile the code for doubles.
  template <class T>
  struct TypeSteps {
    bool (Optimizer::*has_finite_gradients)() = nullptr;
    void (Optimizer::*prepare)() = nullptr;
    void (Optimizer::*update)(double factor) = nullptr;
  };

  template <class T>
  void enroll(std::string name, const Parameter<T>& p, const Group* group) {
    slots_.add(std::move(name), p, group);
    std::get<TypeSteps<T>>(steps_) = TypeSteps<T>{&Optimizer::template has_finite_gradients<T>,
                                                  &Optimizer::template prepare<T>, &Optimizer::template update<T>};
  }

  template <class T>
  std::vector<Pending<T>> pending() {
    std::vector<Pending<T>> found;
    for (Slot<T>& slot : slots_.of<T>())
      if (!slot.frozen)
        if (const auto gradient = detail::sparse_grad(slot.parameter->value())) found.push_back({&slot, gradient});
    return found;
  }

  void check_options() const;
  void clear_gradients() {
    slots_.each([](auto& slot) {
      if (slot.parameter->value().requires_grad()) slot.parameter->value().set_grad({});
    });
  }

  // Returns whether a parameter of type T has a gradient. If a gradient is not finite, clears all gradients and
  // throws Error.
  template <class T>
  bool has_finite_gradients() {
    const auto parameters = pending<T>();
    for (const Device device : devices) {
      std::vector<View<const T, 1>> gradients;
      std::vector<const Slot<T>*> owners;
      for (const auto& [slot, gradient] : parameters)
        if (gradient.values.device() == device) gradients.push_back(view<1>(gradient.values)), owners.push_back(slot);
      if (gradients.empty()) continue;
      const Index first = dispatch<T>(device, [&](auto where) { return kernel::first_not_finite(where, gradients); });
      if (first < 0) continue;
      clear_gradients();
      fail(slots_.optimizer(), ": the gradient of '", owners[static_cast<std::size_t>(first)]->name,
           "' is not finite; nothing was updated, and all gradients were cleared");
    }
    return !parameters.empty();
  }

  // Updates the parameters of type T.
  template <class T>
  void update(double factor) {
    const auto parameters = pending<T>();
    std::vector<kernel::RowUpdateArgs<Rule<T>>> sparse;
    for (const Device device : devices) {
      std::vector<kernel::UpdateArgs<Rule<T>>> dense;
      for (const auto& [slot, gradient] : parameters) {
        if (gradient.values.device() != device) continue;
        ++slot->steps;
        const kernel::UpdateArgs<Rule<T>> args = arguments(*slot, gradient, factor);
        const Shape& shape = slot->parameter->shape();
        if (gradient.rows)
          sparse.push_back({args, view<1>(gradient.rows), shape[0], gradient.values.dim(1), slot->row_flags.data()});
        else
          dense.push_back(args);
      }
      if (dense.empty()) continue;
      if constexpr (has_gpu_kernel)
        dispatch<T>(device, [&](auto where) { kernel::update(where, dense); });
      else
        kernel::update(Cpu{}, dense);
    }
    kernel::update_rows(Cpu{}, sparse);
  }

  template <class T>
  Rule<T> rule_of(const Slot<T>& slot, double factor, std::int64_t step) const {
    return Rule<T>(options, {.lr = factor * slot.lr.value_or(options.lr),
                             .weight_decay = slot.weight_decay.value_or(options.weight_decay),
                             .step = step});
  }

  // Allocates the moment estimates that a step needs, for the parameters of type T.
  template <class T>
  void prepare() {
    for (const auto& [slot, gradient] : pending<T>()) {
      require(has_gpu_kernel || gradient.values.device() == Device::cpu, Options::optimizer,
              ": has no kernel for a GPU, but parameter '", slot->name,
              "' is there; move the model with to(model, Device::cpu)");
      allocate(*slot, gradient);
    }
  }
  // Allocates the moment estimates, on the parameter's device, and the row flags.
  template <class T>
  void allocate(Slot<T>& slot, const RowGradient<T>& gradient) const {
    const Tensor<T>& value = slot.parameter->value();
    if (rule_of(slot, 1, slot.steps + 1).needs_moments())
      for (std::size_t k = 0; k < Rule<T>::moments.size(); ++k) {
        Tensor<T>& moment = slot.moments[k];
        moment = moment ? moment.to(value.device()) : zeros<T>(value.shape(), value.device());
      }
    if (!gradient.rows)
      slot.row_flags.clear();
    else if (slot.row_flags.empty())
      slot.row_flags = find_rows_with_state(slot);
  }
  template <class T>
  static std::vector<char> find_rows_with_state(const Slot<T>& slot) {
    const Shape& shape = slot.parameter->shape();
    const Index width = shape.product(1, shape.rank());
    std::vector<char> flags(static_cast<std::size_t>(shape[0]), 0);
    for (const Tensor<T>& moment : slot.moments)
      for (Index e = 0; e < moment.size(); ++e)
        if (moment.device_data()[e] != 0) flags[static_cast<std::size_t>(e / width)] = kernel::has_state;
    return flags;
  }

  template <class T>
  kernel::UpdateArgs<Rule<T>> arguments(Slot<T>& slot, const RowGradient<T>& gradient, double factor) const {
    kernel::UpdateArgs<Rule<T>> args{rule_of(slot, factor, slot.steps), {}, gradient.values.device_data(), {}};
    args.value = {slot.parameter->device_data(), {slot.parameter->shape().size()}};
    if (args.rule.needs_moments())
      for (std::size_t k = 0; k < Rule<T>::moments.size(); ++k) args.moments[k] = slot.moments[k].device_data();
    return args;
  }

  Slots slots_;
  std::tuple<TypeSteps<float>, TypeSteps<double>> steps_;
};

template <class Options, template <class> class Rule>
requires UpdateRule<Rule<float>, Options>
void Optimizer<Options, Rule>::check_options() const {
  heddle::detail::require_nonnegative(Options::optimizer, "lr", options.lr);
  heddle::detail::require_nonnegative(Options::optimizer, "weight_decay", options.weight_decay);
  if constexpr (requires { options.check(); }) options.check();
}

template <class Options, template <class> class Rule>
requires UpdateRule<Rule<float>, Options>
void Optimizer<Options, Rule>::step(double factor, Gradients gradients) {
  check_options();
  heddle::detail::require_nonnegative(Options::optimizer, "the factor on the learning rate", factor);
  const auto for_each_type = [this](auto&& f) { f(std::get<0>(steps_)), f(std::get<1>(steps_)); };
  bool has_gradients = false;
  for_each_type([&](const auto& steps) {
    if (steps.has_finite_gradients) has_gradients |= (this->*steps.has_finite_gradients)();
  });
  if (!has_gradients && gradients == Gradients::required) {
    clear_gradients();
    fail(Options::optimizer, ": no trainable parameter has a gradient; call backward first, and make the ",
         "optimizer for the model that is trained");
  }
  for_each_type([this](const auto& steps) {  // before any update: memory may run out
    if (steps.prepare) (this->*steps.prepare)();
  });
  for_each_type([&](const auto& steps) {
    if (steps.update) (this->*steps.update)(factor);
  });
  clear_gradients();
}

}  // namespace optim
}  // namespace heddle
