// Optimizer: updates all parameters of a model by a rule. An optimizer is defined by its options and its rule: see
// sgd.hpp.
#pragma once
#include <array>
#include <memory>
#include <type_traits>

#include <heddle/autograd/backward.hpp>
#include <heddle/optim/slots.hpp>
#include <heddle/optim/update.hpp>

namespace heddle {

namespace detail {

// The work of an optimizer's step for the parameters of one type that have a gradient. Its functions are called in
// their order.
struct StepWork {
  virtual ~StepWork() = default;
  virtual bool is_empty() const = 0;
  // If a gradient is not finite, clears all gradients and throws Error. Does not read those that clipping has read.
  virtual void require_finite() = 0;
  // Allocates what the update needs.
  virtual void prepare() = 0;
  virtual void update(double factor) = 0;
};

// A visitor that adds each parameter of a model to an optimizer, a shared parameter under its first name. It is a named
// type, so that heddle::compiled can contain its instantiations for heddle's own modules.
template <class Optimizer>
struct Enrollment {
  Optimizer& optimizer;
  const std::vector<optim::Group>& groups;
  std::vector<bool> matched, selected;  // a group has parameters; its `select` accepts some, perhaps another group's
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
    : optimizer(of), groups(settings), matched(settings.size(), false), selected(settings.size(), false) {
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
  constexpr bool is_weight = std::is_same_v<T, float> || std::is_same_v<T, double>;
  static_assert(is_weight, "heddle: an optimizer updates weights of float or double; bf16 is for activations");
  if constexpr (!is_weight) return;
  const std::string joined = name.str();
  const optim::Group* first = nullptr;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (!groups[g].select(joined)) continue;
    selected[g] = true;
    if (first) continue;
    matched[g] = true;
    first = &groups[g];
  }
  optimizer.enroll(joined, p, first);
}

template <class Optimizer>
void Enrollment<Optimizer>::require_matches() const {
  for (std::size_t g = 0; g < groups.size(); ++g)
    require(matched[g], optimizer.state().optimizer(), ": parameter group ", g,
            selected[g] ? " selects only parameters of earlier groups; a parameter belongs to the first that selects it"
                        : " selects no parameter; summary(model) returns the names");
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
  /// A const model cannot be trained.
  template <class M>
  explicit Optimizer(const M&, Options = {}, const std::vector<Group>& = {}) = delete;  // the model is const

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

  template <class T>
  class WorkOf;

  static constexpr Device devices[] = {Device::cpu, Device::cuda};
  static constexpr bool has_gpu_kernel = requires { requires Rule<float>::has_gpu_kernel; };

  template <class T>
  void enroll(std::string name, const Parameter<T>& p, const Group* group) {
    slots_.add(std::move(name), p, group);
    collect_[std::is_same_v<T, double>] = [](Optimizer& self) -> std::unique_ptr<heddle::detail::StepWork> {
      return std::make_unique<WorkOf<T>>(self);
    };
  }

  void check_options() const;
  void clear_gradients() {
    slots_.each([](auto& slot) {
      if (const heddle::detail::NodeRef& node = slot.parameter->value().node()) node->clear();
    });
  }

  template <class T>
  Rule<T> rule_of(const Slot<T>& slot, double factor, std::int64_t step) const {
    return Rule<T>(options, {.lr = factor * slot.lr.value_or(options.lr),
                             .weight_decay = slot.weight_decay.value_or(options.weight_decay),
                             .step = step});
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
    const auto [value, cast] = slot.parameter->to_update();
    args.value = {value, {slot.parameter->shape().size()}};
    args.cast = cast;
    if (args.rule.needs_moments())
      for (std::size_t k = 0; k < Rule<T>::moments.size(); ++k) args.moments[k] = slot.moments[k].device_data();
    return args;
  }

  Slots slots_;
  // Collect the work for parameters of float and of double; null if the model has none. The constructor, which knows
  // the model's type, sets them, so that a model of floats does not compile the code for doubles.
  std::array<std::unique_ptr<heddle::detail::StepWork> (*)(Optimizer&), 2> collect_{};
};

/// @private The work of a step for the parameters of type T.
template <class Options, template <class> class Rule>
requires UpdateRule<Rule<float>, Options>
template <class T>
class Optimizer<Options, Rule>::WorkOf final : public heddle::detail::StepWork {
 public:
  explicit WorkOf(Optimizer& optimizer) : optimizer_(optimizer) {
    for (Slot<T>& slot : optimizer.slots_.template of<T>())
      if (!slot.frozen)
        if (const auto gradient = detail::sparse_grad(slot.parameter->value())) pending_.push_back({&slot, gradient});
  }

  bool is_empty() const override { return pending_.empty(); }

  void require_finite() override {
    for (const Device device : devices) {
      std::vector<View<const T, 1>> gradients;
      std::vector<const Slot<T>*> owners;
      for (const auto& [slot, gradient] : pending_)
        if (gradient.values.device() == device && !detail::is_known_finite(slot->parameter->value(), gradient))
          gradients.push_back(view<1>(gradient.values)), owners.push_back(slot);
      if (gradients.empty()) continue;
      const Index first = dispatch<T>(device, [&](auto where) { return kernel::first_not_finite(where, gradients); });
      if (first < 0) continue;
      optimizer_.clear_gradients();
      fail(optimizer_.slots_.optimizer(), ": the gradient of '", owners[static_cast<std::size_t>(first)]->name,
           "' is not finite; nothing was updated, and all gradients were cleared");
    }
  }

  void prepare() override {
    for (const auto& [slot, gradient] : pending_) {
      require(has_gpu_kernel || gradient.values.device() == Device::cpu, Options::optimizer,
              ": has no kernel for a GPU, but parameter '", slot->name,
              "' is there; move the model with to(model, Device::cpu)");
      optimizer_.allocate(*slot, gradient);
    }
  }

  void update(double factor) override {
    std::vector<kernel::RowUpdateArgs<Rule<T>>> sparse;
    for (const Device device : devices) {
      std::vector<kernel::UpdateArgs<Rule<T>>> dense;
      for (const auto& [slot, gradient] : pending_) {
        if (gradient.values.device() != device) continue;
        ++slot->steps;
        const kernel::UpdateArgs<Rule<T>> args = optimizer_.arguments(*slot, gradient, factor);
        const Shape& shape = slot->parameter->shape();
        if (gradient.rows)
          sparse.push_back({args, view<1>(gradient.rows), shape[0], gradient.values.dim(1), slot->row_flags.data()});
        else
          dense.push_back(args);
      }
      if (dense.empty()) continue;
      // double, which is on the CPU only, also stands for a rule without a kernel for a GPU: prepare() has checked it.
      dispatch<std::conditional_t<has_gpu_kernel, T, double>>(device,
                                                              [&](auto where) { kernel::update(where, dense); });
    }
    kernel::update_rows(sparse);  // gradients of rows are on the CPU
  }

 private:
  // A parameter with a gradient.
  struct Pending {
    Slot<T>* slot;
    RowGradient<T> gradient;
  };

  Optimizer& optimizer_;
  std::vector<Pending> pending_;
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
  std::vector<std::unique_ptr<heddle::detail::StepWork>> work;
  for (const auto collect : collect_)
    if (collect)
      if (auto each = collect(*this); !each->is_empty()) work.push_back(std::move(each));
  if (work.empty() && gradients == Gradients::required) {
    Index parameters = 0, frozen = 0;
    slots_.each([&](const auto& slot) {
      ++parameters;
      frozen += slot.frozen || !slot.parameter->value().requires_grad();
    });
    clear_gradients();
    require(parameters == 0 || frozen < parameters, Options::optimizer,
            ": all parameters are frozen, by freeze() or by their group");
    fail(Options::optimizer, ": no trainable parameter has a gradient; call backward first, and make the ",
         "optimizer for the model that is trained");
  }
  for (const auto& each : work) each->require_finite();
  for (const auto& each : work) each->prepare();  // before any update: memory may run out
  for (const auto& each : work) each->update(factor);
  clear_gradients();
}

}  // namespace optim
}  // namespace heddle
