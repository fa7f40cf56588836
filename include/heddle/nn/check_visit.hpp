// check_visit: a check, for a module's test, that its visit names all of its weights.
#pragma once
#include <heddle/nn/module.hpp>

namespace heddle {

/// Checks that a module visits every parameter and buffer that it has: one that is missing would be neither trained nor saved, without any
/// other error. `make` returns a new module, as in check_visit([&] { return Classifier(random); }). @throws Error that lists the shapes of
/// those that are missing.
template <class Make>
void check_visit(Make&& make) {
  detail::MadeWeights made;
  const auto model = make();
  walk(model, [&](const Name&, const auto& x) { made.remove(x.identity().get()); });
  std::string shapes;
  for (const auto& [weight, shape] : made.remaining()) shapes += (shapes.empty() ? "" : ", ") + shape.str();
  require(shapes.empty(), "visit: the module has parameters or buffers that it does not name, of shape ", shapes);
}

}  // namespace heddle
