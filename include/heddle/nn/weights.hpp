// copy_weights and update_average: the weights of one model written into another, in place.
#pragma once
#include <map>

#include <heddle/core/print.hpp>
#include <heddle/nn/module.hpp>
#include <heddle/ops/arithmetic.hpp>

namespace heddle {

namespace detail {

// Calls f(source, x) for each parameter or buffer x of `to` and the master tensor `source` of the same name in `from`.
// Before the first call, throws Error if names or element types differ or if only `to` shares a weight, and ShapeError
// if shapes differ.
template <class From, class To, class F>
void walk_both(const char* op, const From& from, To& to, F&& f) {
  struct Source {
    std::any identity;
    const char* element;
  };
  std::map<std::string, Source> sources;
  std::map<const void*, const void*> source_of;  // of each weight of `to`, which may have several names
  walk(from, [&](const Name& name, const auto& x) {
    using Element = typename std::remove_cvref_t<decltype(x)>::Element;
    sources.emplace(name.str(), Source{x.identity(), element_name<Element>});
  });
  const std::size_t names = sources.size();
  for (const bool checked : {false, true}) {
    std::size_t found = 0;
    walk(to, [&](const Name& name, auto& x) {
      using Identity = typename std::remove_cvref_t<decltype(x)>::Identity;
      const auto source = sources.find(name.str());
      require(source != sources.end(), op, ": the model copied from has no '", name.str(), "'");
      ++found;
      const Identity* const identity = std::any_cast<Identity>(&source->second.identity);
      require(identity, op, ": '", name.str(), "' is ", source->second.element, " in the model copied from, ",
              element_name<typename std::remove_cvref_t<decltype(x)>::Element>, " in the other");
      require<ShapeError>((*identity)->shape() == x.shape(), op, ": '", name.str(), "' is ", (*identity)->shape(),
                          " in the model copied from, ", x.shape(), " in the other");
      require(source_of.emplace(x.identity().get(), identity->get()).first->second == identity->get(), op, ": '",
              name.str(), "' is a shared weight in the model copied to, but not in the model copied from");
      if (checked) f(**identity, x);
    });
    require(found == names, op, ": the model copied from has ", names, " parameters and buffers, the other ", found);
  }
}

}  // namespace detail

/// Writes the weights and buffers of a model into another of the same structure, in place, so optimizers and shared
/// handles stay valid. Gradients and the state of optimizers do not change. @throws Error if the models' names or
/// element types differ, if a model visits a name twice, or if `to` shares a weight that `from` does not share, and
/// ShapeError if their shapes differ; nothing is written then.
template <class From, class To>
void copy_weights(const From& from, To& to) {
  detail::walk_both("copy_weights", from, to, [](const auto& source, auto& x) {
    if (&source != x.identity().get()) x.assign(source.value());
  });
}

/// Moves the weights of `average` towards those of a model: average = decay * average + (1 - decay) * model. Buffers
/// are copied. @throws Error for a decay outside [0, 1] and, unless decay is 0, for models on different devices, and
/// the errors of copy_weights().
template <class Average, class M>
void update_average(Average& average, const M& model, double decay) {
  require(decay >= 0 && decay <= 1, "update_average: decay must be in [0, 1], got ", decay);
  const NoGrad off;
  std::set<const void*> updated;  // a shared weight has several names
  detail::walk_both("update_average", model, average, [&](const auto& source, auto& x) {
    if (!updated.insert(x.identity().get()).second) return;
    if (detail::is_buffer<std::remove_cvref_t<decltype(x)>> || decay == 0)
      x.assign(source.value());
    else
      x.assign(x.value() * decay + source.value() * (1 - decay));
  });
}

}  // namespace heddle
