// Optimizer: updates all parameters of a model by a rule. An optimizer is defined by its options and its rule: see
// sgd.hpp.
#pragma once
#include <array>
#include <deque>
#include <memory>
#include <type_traits>

#include <heddle/autograd/backward.hpp>
#include <heddle/optim/slots.hpp>
#include <heddle/optim/update.hpp>

namespace heddle {

namespace detail {

// The work of an optimizer's step for the parameters of one type that have a gradient.
struct StepWork {
  virtual ~StepWork() = default;
  virtual bool is_empty() const = 0;
  // Returns whether a gradient is on the device.
  virtual bool uses(Device device) const = 0;
  // Returns the sum of the squares of the gradients on the device. Waits for a GPU.
  virtual double sum_of_squares(Device device) const = 0;
  // If a gradient is not finite, clears all gradients and throws Error. Waits for a GPU.
  virtual void require_finite() const = 0;
  // Allocates what the update needs. Called before the update of any parameter.
  virtual void prepare() = 0;
  // Updates the parameters. On a GPU, only if all gradients there are finite.
  virtual void update(double factor, const kernel::Clipping& clipping) = 0;
};

using WorkOfStep = std::vector<std::unique_ptr<StepWork>>;  // at most one of each type

// Returns how the gradients are clipped. If one of them is on the CPU, throws Error if any is not finite, and waits for
// those on the GPU; otherwise the update does all that.
[[gnu::cold]] inline kernel::Clipping check_gradients(const WorkOfStep& work, double max_norm) {
  const bool clips = max_norm < std::numeric_limits<double>::infinity();
  kernel::Clipping clipping{.max_norm = max_norm};
  if (std::none_of(work.begin(), work.end(), [](const auto& each) { return each->uses(Device::cpu); })) return clipping;
  for (const auto& each : work)
    if (clips) {
      clipping.squares_on_cpu += each->sum_of_squares(Device::cpu);
      clipping.squares_on_gpu += each->sum_of_squares(Device::cuda);
    }
  if (!clips || !std::isfinite(clipping.squares_on_cpu + clipping.squares_on_gpu))
    for (const auto& each : work) each->require_finite();
  return clipping;
}

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

/// The settings of one step.
struct StepOptions {
  double factor = 1;                                          ///< on the learning rate: a schedule's value
  double max_norm = std::numeric_limits<double>::infinity();  ///< gradients are scaled to this norm if theirs is larger
  Gradients gradients = Gradients::required;                  ///< whether a step without any gradient is an error
};

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

  /// Updates every parameter that has a gradient and is not frozen, then clears all gradients. If the Euclidean norm of
  /// these gradients, taken as one vector, is larger than `max_norm`, multiplies them by max_norm / (norm + 1e-6), like
  /// clip_grad_norm. @throws Error if a gradient is not finite (nothing is updated then, and all gradients are
  /// cleared), if no trainable parameter has a gradient and `gradients` is Gradients::required, if an option or a
  /// setting is out of range, and for a parameter on the GPU if the rule has no kernel for it. If memory for moment
  /// estimates runs out, nothing is updated.
  ///
  /// If all gradients are on a GPU, the host does not wait. A gradient that is not finite then stops all updates on the
  /// stream until the next call that synchronizes with it, which throws the error (after hundreds of steps without such
  /// a call, a step does). Weights and state are those before the step, and training may go on; zero_grad(model) drops
  /// what a later backward has added. Threads that share a stream share the failure: one of them gets the error.
  void step(const StepOptions& settings);
  /// Calls step({.factor = factor, .gradients = gradients}).
  void step(double factor = 1, Gradients gradients = Gradients::required) {
    step(StepOptions{.factor = factor, .gradients = gradients});
  }

  /// Returns the state of each parameter: for io::save_optimizer and io::load_optimizer.
  Slots& state() { return slots_; }
  /// Returns the state of each parameter.
  const Slots& state() const { return slots_; }

 private:
  friend struct heddle::detail::Enrollment<Optimizer>;

  template <class T>
  class WorkOf;

  static constexpr Device devices[2] = {Device::cuda, Device::cpu};  // the GPU's memory may run out: it is first
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
        moment = moment ? moment.to(value.device()) : zeros<T>(slot.own_shape(), value.device());
      }
    if (!gradient.rows)
      slot.row_flags.clear();
    else if (slot.row_flags.empty())
      slot.row_flags = find_rows_with_state(slot);
  }
  template <class T>
  static std::vector<char> find_rows_with_state(const Slot<T>& slot) {
    const Index width = slot.width();
    std::vector<char> flags(static_cast<std::size_t>(slot.own_shape()[0]), 0);
    for (const Tensor<T>& moment : slot.moments)
      for (Index e = 0; e < moment.size(); ++e)
        if (moment.device_data()[e] != 0) flags[static_cast<std::size_t>(e / width)] = kernel::has_state;
    return flags;
  }

  template <class T>
  kernel::UpdateArgs<Rule<T>> arguments(Slot<T>& slot, const RowGradient<T>& gradient, double factor) const {
    kernel::UpdateArgs<Rule<T>> args{rule_of(slot, factor, slot.steps), {}, gradient.values.device_data(), {}};
    const auto [value, cast] = slot.parameter->to_update();
    const Index first = slot.own_rows().first * slot.width();
    args.value = {value + first, {slot.own_shape().size()}};
    args.cast = cast ? cast + first : nullptr;
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
  explicit WorkOf(Optimizer& optimizer) : optimizer_(optimizer), slots_(optimizer.slots_.template of<T>()) {
    for (Slot<T>& slot : slots_)
      if (!slot.frozen)
        if (const auto gradient = detail::sparse_grad(slot.parameter->value())) pending_.push_back({&slot, gradient});
  }

  bool is_empty() const override { return pending_.empty(); }
  bool uses(Device device) const override {
    return std::any_of(pending_.begin(), pending_.end(),
                       [&](const Pending& each) { return each.gradient.values.device() == device; });
  }

  double sum_of_squares(Device device) const override {
    const GradientsOn found = gradients_on(device);
    if (found.views.empty()) return 0;
    return dispatch<T>(device, [&](auto where) { return kernel::sum_of_squares(where, found.views); });
  }

  void require_finite() const override {
    for (const Device device : devices) {
      const GradientsOn found = gradients_on(device);
      if (found.views.empty()) continue;
      const Index first = dispatch<T>(device, [&](auto where) { return kernel::first_not_finite(where, found.views); });
      if (first < 0) continue;
      optimizer_.clear_gradients();
      kernel::fail_not_finite(Options::optimizer, found.owners[static_cast<std::size_t>(first)]->name);
    }
  }

  void prepare() override {
    for (const auto& [slot, gradient] : pending_) {
      require(!slot->is_part() || gradient.values.device() == Device::cpu, Options::optimizer, ": parameter '",
              slot->name, "' is on a GPU; an optimizer that is split over processes updates parameters on the CPU");
      require(has_gpu_kernel || gradient.values.device() == Device::cpu, Options::optimizer,
              ": has no kernel for a GPU, but parameter '", slot->name,
              "' is there; move the model with to(model, Device::cpu)");
      if (slot->own_shape().size() > 0) optimizer_.allocate(*slot, gradient);
    }
  }

  void update(double factor, const kernel::Clipping& clipping) override {
    std::vector<kernel::RowUpdateArgs<Rule<T>>> sparse;
    for (const Device device : devices) {
      std::vector<kernel::UpdateArgs<Rule<T>>> dense;
      for (const auto& [slot, gradient] : pending_) {
        if (gradient.values.device() != device) continue;
        ++slot->steps;
        if (slot->own_shape().size() == 0) continue;
        const RowGradient<T>& own = own_.emplace_back(own_part(*slot, gradient));
        const kernel::UpdateArgs<Rule<T>> args = optimizer_.arguments(*slot, own, factor);
        if (own.rows)
          sparse.push_back({args, view<1>(own.rows), slot->own_shape()[0], own.values.dim(1), slot->row_flags.data()});
        else
          dense.push_back(args);
      }
      if (dense.empty()) continue;
      const auto enqueued = device == Device::cuda ? enqueue() : nullptr;
      // double, which is on the CPU only, also stands for a rule without a kernel for a GPU: prepare() has checked it.
      dispatch<std::conditional_t<has_gpu_kernel, T, double>>(
          device, [&](auto where) { kernel::update(where, dense, clipping, enqueued); });
    }
    kernel::update_rows(sparse, clipping);  // gradients of rows are on the CPU
  }

 private:
  // A parameter with a gradient.
  struct Pending {
    Slot<T>* slot;
    RowGradient<T> gradient;
  };
  struct GradientsOn {
    std::vector<View<const T, 1>> views;
    std::vector<const Slot<T>*> owners;
  };

  GradientsOn gradients_on(Device device) const {
    GradientsOn found;
    for (const auto& [slot, gradient] : pending_)
      if (gradient.values.device() == device)
        found.views.push_back(view<1>(gradient.values)), found.owners.push_back(slot);
    return found;
  }

  // Returns the gradient of the own rows of a parameter, numbered from the first of them.
  static RowGradient<T> own_part(const Slot<T>& slot, const RowGradient<T>& gradient) {
    if (!slot.is_part()) return gradient;
    const auto [first, last] = slot.own_rows();
    if (!gradient.rows) return {{}, gradient.values.leading(first, last)};
    const Index *const begin = gradient.rows.data(), *const end = begin + gradient.rows.size();
    const Index *const from = std::lower_bound(begin, end, first), *const to = std::lower_bound(from, end, last);
    std::vector<Index> rows(from, to);
    for (Index& row : rows) row -= first;
    return {Tensor<Index>({to - from}, rows), gradient.values.leading(from - begin, to - begin)};
  }

  // Counts the step of the parameters on the GPU as enqueued.
  std::shared_ptr<kernel::EnqueuedStep> enqueue() const {
    if constexpr (detail::has_cuda) {
      std::vector<std::size_t> numbers;
      for (const auto& [slot, gradient] : pending_)
        if (gradient.values.device() == Device::cuda) numbers.push_back(static_cast<std::size_t>(slot - slots_.data()));
      return optimizer_.slots_.enqueue(std::move(numbers));
    }
    return nullptr;
  }

  Optimizer& optimizer_;
  std::vector<Slot<T>>& slots_;
  std::vector<Pending> pending_;
  std::deque<RowGradient<T>> own_;  // of the parameters, alive during the update
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
void Optimizer<Options, Rule>::step(const StepOptions& settings) {
  check_options();
  heddle::detail::require_nonnegative(Options::optimizer, "the factor on the learning rate", settings.factor);
  require(settings.max_norm > 0, Options::optimizer, ": max_norm must be positive, got ", settings.max_norm);
  heddle::detail::WorkOfStep work;
  for (const auto collect : collect_)
    if (collect)
      if (auto each = collect(*this); !each->is_empty()) work.push_back(std::move(each));
  if (work.empty() && settings.gradients == Gradients::required) {
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
  const kernel::Clipping clipping = heddle::detail::check_gradients(work, settings.max_norm);
  for (const auto& each : work) each->prepare();  // before any update: memory may run out
  try {
    for (const auto& each : work) each->update(settings.factor, clipping);
  } catch (const OutOfMemory&) {
    throw;  // the step may be tried again
  } catch (const Error&) {
    clear_gradients();  // an error of a step, which the GPU reports early
    throw;
  }
  clear_gradients();
}

}  // namespace optim
}  // namespace heddle
