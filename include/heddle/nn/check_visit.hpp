// check_visit: checks, in the test of a module, that the module's visit names all of its weights.
#pragma once
#include <heddle/nn/module.hpp>

namespace heddle {

/// Checks that a module visits every parameter and buffer that it has. A missing one would silently be neither trained
/// nor saved. `make` returns a new module, as in check_visit([&] { return Classifier(random); }). @throws Error that
/// lists the shapes of the missing ones, and Error for a name that the module visits twice.
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
