// Reverse-mode differentiation for users: variables, backward and grad.
#pragma once
#include <memory>

#include <heddle/autograd/record.hpp>
#include <heddle/core/create.hpp>

namespace heddle {

/// Returns x as a leaf that requires a gradient. Shares memory with x.
template <Floating T>
Tensor<T> variable(const Tensor<T>& x) {
  return x.with_node(detail::NodeRef(new detail::Leaf<T>(x.shape())));
}
template <std::integral T>
void variable(const Tensor<T>&) = delete;  // needs cast<float>(x)

/// Returns x without its graph. Shares memory with x.
template <class T>
Tensor<T> detach(const Tensor<T>& x) {
  return x.without_node();
}

template <class T>
Tensor<T> Tensor<T>::grad() const {
  require(requires_grad(), "grad: a tensor of shape ", shape_, " requires no gradient; make it with variable()");
  if (!node_->is_leaf()) return {};
  auto& leaf = *static_cast<detail::Leaf<T>*>(node_.get());
  const std::lock_guard lock(leaf.mutex);
  leaf.densify();
  leaf.join_stream();
  return leaf.grad;
}
template <class T>
void Tensor<T>::set_grad(const Tensor& dx) const {
  require(requires_grad(), "set_grad: a tensor of shape ", shape_, " requires no gradient; make it with variable()");
  require<ShapeError>(!dx || dx.shape() == shape_, "set_grad: the gradient must have the tensor's shape ", shape_,
                      ", got ", dx.shape());
  if (dx) require_same_device("set_grad", {"x", *this}, {"gradient", dx});
  require(!dx || dx.gpu() == gpu(), "set_grad: x ", shape_, " is on GPU ", gpu(), ", the gradient on GPU ", dx.gpu());
  detail::require_no_run("set_grad");
  node_->clear();
  static_cast<detail::NodeOf<T>*>(node_.get())->grad = dx.without_node();
  if (dx && node_->is_leaf()) detail::mark_stream(*node_, dx.device());
}

namespace detail {

// Returns the gradient of a variable or parameter without making it dense. Empty if there is none.
template <class T>
RowGradient<T> sparse_grad(const Tensor<T>& x) {
  if (x.requires_grad() && x.node()->is_leaf()) {
    auto& leaf = *static_cast<Leaf<T>*>(x.node().get());
    const std::lock_guard lock(leaf.mutex);
    if (leaf.by_rows) return leaf.by_rows;
  }
  return {{}, x.requires_grad() ? x.grad() : Tensor<T>()};
}
// Replaces the existing gradient.
template <class T>
void set_sparse_grad(const Tensor<T>& x, const RowGradient<T>& dx) {
  if (!dx.rows) return x.set_grad(dx.values);
  x.set_grad({});
  static_cast<Leaf<T>*>(x.node().get())->by_rows = dx;
}

// Returns the gradient of a one-element loss with respect to itself.
template <class T>
Tensor<T> unit_gradient(const Tensor<T>& loss) {
  return Tensor<T>(loss.shape(), {static_cast<T>(1.f)}).to(loss.device());
}

}  // namespace detail

/// Accumulates the gradient of every variable and parameter x that y depends on: adds the sum over i of dy[i] times the
/// derivative of y[i] with respect to x. Frees the graph on the way. Several threads may run backward into the same
/// variable or parameter; their order decides the rounding of its sum. @throws ShapeError if dy does not have y's
/// shape; Error if dy is on another device, if y depends on nothing that requires a gradient, if the graph was freed
/// before, and if a saved tensor was overwritten. If it throws, the variables and parameters that it reached lose their
/// gradients, including contributions of earlier passes and of other threads.
template <class T>
void backward(const Tensor<T>& y, const Tensor<T>& dy) {
  require(y.requires_grad(), "backward: the tensor of shape ", y.shape(),
          " does not depend on any variable or parameter");
  require_same_device("backward", {"y", y}, {"dy", dy});
  const Tensor<T> seed = dy.as_of_now();
  detail::BackwardPass pass;
  pass.run(y, seed);
}

/// Calls backward(loss, dy) with dy = 1. @throws ShapeError unless the loss has one element, and Error as
/// backward(y, dy).
template <class T>
void backward(const Tensor<T>& loss) {
  require<ShapeError>(loss.size() == 1, "backward: a loss has one element; this one has shape ", loss.shape(),
                      "; call backward(y, dy) with its gradient as dy");
  backward(loss, detail::unit_gradient(loss));
}

/// Returns the gradients of a one-element loss with respect to `wanted` (leaves or intermediate results), one each;
/// zeros where the loss does not depend on one. Frees the graph. Gradients that variables and parameters have
/// accumulated are left unchanged. @throws ShapeError unless the loss has one element; Error if the loss or a tensor in
/// `wanted` requires no gradient, if the graph was freed before, and if a saved tensor was overwritten.
template <class T>
std::vector<Tensor<T>> grad(const Tensor<T>& loss, const std::vector<Tensor<T>>& wanted) {
  require<ShapeError>(loss.size() == 1, "grad: a loss has one element; this one has shape ", loss.shape());
  require(loss.requires_grad(), "grad: the loss does not depend on any variable or parameter");
  std::vector<std::unique_ptr<detail::Leaf<T>>> stand_ins;
  std::vector<detail::BackwardPass::Target> targets;
  for (const Tensor<T>& x : wanted) {
    require(x.requires_grad(), "grad: an input of shape ", x.shape(), " requires no gradient; make it with variable()");
    stand_ins.push_back(std::make_unique<detail::Leaf<T>>(x.shape()));
    targets.push_back({x.node().get(), stand_ins.back().get()});
  }
  {
    detail::BackwardPass pass(std::move(targets), false);
    pass.run(loss, detail::unit_gradient(loss));
  }
  std::vector<Tensor<T>> grads;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    std::size_t first = 0;  // the gradient of a tensor that is passed twice is in the first one's stand-in
    while (wanted[first].node() != wanted[i].node()) ++first;
    const Tensor<T> dx = stand_ins[first]->grad;
    grads.push_back(dx ? dx : zeros<T>(wanted[i].shape(), wanted[i].device()));
  }
  return grads;
}

}  // namespace heddle
