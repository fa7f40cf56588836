// A module is any struct with
//   static void visit(auto& self, auto&& f) { f("weight", self.weight); f("layers", self.layers); … }
// that names its parameters, buffers, submodules, and vectors or optionals of these, by the names that PyTorch gives
// them. Saving, loading, optimizers and summaries all use this visit.
#pragma once
#include <optional>
#include <set>

#include <heddle/nn/parameter.hpp>

namespace heddle {

/// The names of one parameter. A combined parameter (q, k and v in one matrix) has one name per equal block of rows: it
/// is several tensors in a file and one for an optimizer.
struct Name {
  std::vector<std::string> blocks;  ///< one name per block of rows

  /// Takes one name.
  Name(const char* name) : blocks{name} {}
  /// Takes one name.
  Name(std::string name) : blocks{std::move(name)} {}
  /// Takes one name per block of rows.
  Name(std::vector<std::string> names) : blocks(std::move(names)) {}

  /// Returns the blocks' names joined by "|".
  [[gnu::cold]] std::string str() const {
    std::string joined;
    for (const std::string& block : blocks) joined += (joined.empty() ? "" : "|") + block;
    return joined;
  }
  /// Returns PREFIX.NAME for each block, or the name itself if the prefix is empty.
  [[gnu::cold]] Name under(const std::string& prefix) const {
    Name name = *this;
    for (std::string& block : name.blocks) block = prefix.empty() ? block : prefix + '.' + block;
    return name;
  }
};

namespace detail {

// The names that a visit has given so far.
class UniqueNames {
 public:
  // Throws Error for a name that was given before.
  void add(const Name& name) {
    for (const std::string& block : name.blocks)
      require(names_.insert(block).second, "the model visits the name '", block,
              "' twice; each parameter and buffer needs its own");
  }

 private:
  std::set<std::string> names_;
};

template <class X>
struct Kind {
  static constexpr bool leaf = false, optional = false;
};
template <class T>
struct Kind<Parameter<T>> {
  static constexpr bool leaf = true, optional = false;
};
template <class T>
struct Kind<Buffer<T>> : Kind<Parameter<T>> {};
template <class X>
struct Kind<std::optional<X>> {
  static constexpr bool leaf = false, optional = true;
};

// A function that accepts any member. nvcc rejects a lambda in a concept.
struct AnyMember {
  void operator()(const Name&, auto&) const {}
};

template <class M>
concept Module = requires(M& m) {
  std::remove_const_t<M>::visit(m, AnyMember{});
};

template <class X>
inline constexpr bool is_buffer = false;
template <class T>
inline constexpr bool is_buffer<Buffer<T>> = true;

// Calls f(name, x) for x if it is a parameter or buffer, otherwise for each of its members.
template <class X, class F>
[[gnu::cold]] void visit_leaves(const Name& name, X& x, F& f) {
  using Plain = std::remove_const_t<X>;
  if constexpr (Kind<Plain>::leaf) {
    f(name, x);
  } else if constexpr (Kind<Plain>::optional) {
    if (x) visit_leaves(name, *x, f);
  } else if constexpr (Module<X>) {
    Plain::visit(x, [&](const Name& member, auto& child) { visit_leaves(member.under(name.str()), child, f); });
  } else if constexpr (requires {
                         x.begin();
                         x.size();
                       }) {
    std::size_t i = 0;
    for (auto& child : x) visit_leaves(Name(std::to_string(i++)).under(name.str()), child, f);
  } else {
    static_assert(!std::is_same_v<X, X>,
                  "heddle: a module names parameters, buffers, modules (structs with a static visit) and vectors or "
                  "optionals of these");
  }
}

}  // namespace detail

/// Calls f(name, x) for every parameter and buffer of a model, in the order of the visits; for a shared one, once under
/// each name. @throws Error for a name that is given twice.
template <class M, class F>
void walk(M& model, F&& f) {
  detail::UniqueNames names;
  const auto with_own_name = [&](const Name& name, auto& x) {
    names.add(name);
    f(name, x);
  };
  detail::visit_leaves(Name(""), model, with_own_name);
}

/// Visits as walk() does, but a shared parameter only once, under its first name. @throws Error as walk() does.
template <class M, class F>
void walk_once(M& model, F&& f) {
  std::set<const void*> seen;
  walk(model, [&](const Name& name, auto& x) {
    if (seen.insert(x.identity().get()).second) f(name, x);
  });
}
/// Calls f(name, p) for every parameter once. @throws Error as walk() does.
template <class M, class F>
void each_parameter(M& model, F&& f) {
  walk_once(model, [&](const Name& name, auto& x) {
    if constexpr (!detail::is_buffer<std::remove_cvref_t<decltype(x)>>) f(name, x);
  });
}

/// Returns the number of elements of all parameters, frozen ones included. A shared weight counts once. @throws Error
/// as walk() does.
template <class M>
Index parameter_count(const M& model) {
  Index count = 0;
  each_parameter(model, [&](const Name&, const auto& p) { count += p.shape().size(); });
  return count;
}

/// Clears the gradients of all parameters. An optimizer's step also clears them. @throws Error as walk() does.
template <class M>
void zero_grad(const M& model) {
  each_parameter(model, [](const Name&, const auto& p) {
    if (!p.frozen()) p.value().set_grad({});
  });
}

/// Returns the device of a model's first weight; the CPU for a model without weights. @throws Error as walk() does.
template <class M>
Device device_of(const M& model) {
  std::optional<Device> first;
  walk(model, [&](const Name&, const auto& x) { first = first.value_or(x.value().device()); });
  return first.value_or(Device::cpu);
}

/// Moves all weights and buffers to a device, in place: existing optimizers keep training them. @throws Error for a
/// device that this build does not support, for a weight of type double on the GPU, and as walk() does.
template <class M>
void to(M& model, Device device) {
  walk_once(model, [&](const Name&, auto& x) { x.identity()->move(device); });
}

}  // namespace heddle
