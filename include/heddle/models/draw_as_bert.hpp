#pragma once
#include <heddle/nn/init.hpp>
#include <heddle/nn/module.hpp>

namespace heddle::models {

namespace detail {

// Draws a module's weights as BERT does: matrices and tables normal with the given deviation, biases zero. Does nothing
// under NoInit.
template <class M>
void draw_as_bert(M& module, Random& random, double deviation) {
  if (nn::NoInit::is_active()) return;
  each_parameter(module, [&](const Name& name, auto& p) {
    const std::string& last = name.blocks[0];
    if (p.shape().rank() >= 2)
      nn::init::normal(p, random, 0, deviation);
    else if (last.ends_with("bias"))
      p.assign(zeros<typename std::remove_cvref_t<decltype(p)>::Element>(p.shape()));
  });
}

}  // namespace detail

}  // namespace heddle::models
