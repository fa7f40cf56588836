// A module is any struct with
//   static void visit(auto& self, auto&& f) { f("weight", self.weight); f("layers", self.layers); … }
// naming its parameters, buffers, submodules, and vectors or optionals of these, by the names that PyTorch gives them. Everything that
// walks a model is a loop over it.
#pragma once
#include <optional>
#include <set>

#include <heddle/nn/parameter.hpp>

namespace heddle {

// The names of one parameter. One that packs several (q, k and v in one matrix) has a name for each of its equal blocks
// of rows: several tensors in a file, one for an optimizer.
struct Name {
  std::vector<std::string> blocks;

  // One name, or one for each block of rows.
  Name(const char* name) : blocks{name} {}
  Name(std::string name) : blocks{std::move(name)} {}
  Name(std::vector<std::string> names) : blocks(std::move(names)) {}

  std::string str() const {
    std::string joined;
    for (const std::string& block : blocks) joined += (joined.empty() ? "" : "|") + block;
    return joined;
  }
  // PREFIX.NAME, each of the blocks; of an empty prefix the name itself.
  Name under(const std::string& prefix) const {
    Name name = *this;
    for (std::string& block : name.blocks) block = prefix.empty() ? block : prefix + '.' + block;
    return name;
  }
};

namespace module {

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

template <class M>
concept Module = requires(M& m) {
  std::remove_const_t<M>::visit(m, [](const Name&, auto&) {});
};

template <class X>
inline constexpr bool is_buffer = false;
template <class T>
inline constexpr bool is_buffer<Buffer<T>> = true;

// Calls enter(name, x) for x if it is a leaf, else for each of its members.
template <class X, class F>
void each(const Name& name, X& x, F&& f) {
  using Plain = std::remove_const_t<X>;
  if constexpr (Kind<Plain>::leaf) {
    f(name, x);
  } else if constexpr (Kind<Plain>::optional) {
    if (x) each(name, *x, f);
  } else if constexpr (Module<X>) {
    Plain::visit(x, [&](const Name& member, auto& child) { each(member.under(name.str()), child, f); });
  } else {
    static_assert(
        requires {
          x.begin();
          x.size();
        },
        "heddle: a module names parameters, buffers, modules (structs with a static visit) and vectors or optionals of "
        "these");
    std::size_t i = 0;
    for (auto& child : x) each(Name(std::to_string(i++)).under(name.str()), child, f);
  }
}

}  // namespace module

// Calls f(name, x) for every parameter and buffer of a model, in the order of the visits; a shared one each time it is met.
template <class M, class F>
void walk(M& model, F&& f) {
  module::each(Name(""), model, [&](const Name& name, auto& x) { f(name, x); });
}

// The same, but a shared one only once, under its first name.
template <class M, class F>
void walk_once(M& model, F&& f) {
  std::set<const void*> seen;
  walk(model, [&](const Name& name, auto& x) {
    if (seen.insert(x.identity().get()).second) f(name, x);
  });
}
// Only the parameters, each once.
template <class M, class F>
void each_parameter(M& model, F&& f) {
  walk_once(model, [&](const Name& name, auto& x) {
    if constexpr (!module::is_buffer<std::remove_cvref_t<decltype(x)>>) f(name, x);
  });
}

// How many numbers are trained, a shared or packed weight counted once.
template <class M>
Index parameter_count(const M& model) {
  Index count = 0;
  each_parameter(model, [&](const Name&, const auto& p) { count += p.shape().size(); });
  return count;
}

// Drops the gradients of all parameters. After an optimizer's step there are none.
template <class M>
void zero_grad(const M& model) {
  each_parameter(model, [](const Name&, const auto& p) {
    if (!p.frozen()) p.value().set_grad({});
  });
}

// Where a model's weights are: its first one. The CPU for a model without any.
template <class M>
Device device_of(const M& model) {
  std::optional<Device> first;
  walk(model, [&](const Name&, const auto& x) { first = first.value_or(x.value().device()); });
  return first.value_or(Device::cpu);
}

// Moves all weights in place: optimizers made before go on with them.
template <class M>
void to(M& model, Device device) {
  walk_once(model, [&](const Name&, auto& x) { x.identity()->move(device); });
}

}  // namespace heddle
