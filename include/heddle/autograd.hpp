// Reverse-mode differentiation: how an operation is recorded, and what a user asks for.
#pragma once
#include <heddle/create.hpp>
#include <heddle/graph.hpp>

namespace heddle {

// While one lives, operations on this thread are not recorded.
class NoGrad {
 public:
  NoGrad() : before_(std::exchange(mode, mode == Mode::backward ? mode : Mode::quiet)) {}
  NoGrad(const NoGrad&) = delete;
  ~NoGrad() { mode = before_; }

 private:
  Mode before_;
};

// Names the tensors that an operation is recorded on.
template <class... In>
std::tuple<const Tensor<In>&...> inputs(const Tensor<In>&... x) {
  return {x...};
}

// Attaches `backward` to y, the result of `op`: record("linear", y, inputs(x, weight, bias), lambda). The lambda maps dy (of y's
// shape) to a std::tuple with one gradient per input, in their order and of their shapes; an empty tensor says that there is
// none. With a single input it may return the tensor alone, or a RowGradient.
template <class T, class... In, class Backward>
Tensor<T> record(const char* op, const Tensor<T>& y, const std::tuple<const Tensor<In>&...>& operands,
                 Backward backward) {
  return std::apply(
      [&](const auto&... x) {
        if (mode != Mode::recording || !(x.requires_grad() || ...)) return y.without_node();
        return y.with_node(NodeRef(new Recorded<T, Backward, In...>(op, y.shape(), std::move(backward), x...)));
      },
      operands);
}
// For any number of inputs of one type: the lambda returns a vector.
template <class T, class Backward>
Tensor<T> record(const char* op, const Tensor<T>& y, const std::vector<Tensor<T>>& operands, Backward backward) {
  const bool wanted =
      std::any_of(operands.begin(), operands.end(), [](const Tensor<T>& x) { return x.requires_grad(); });
  if (mode != Mode::recording || !wanted) return y.without_node();
  return y.with_node(NodeRef(new RecordedList<T, Backward>(op, y.shape(), std::move(backward), operands)));
}

// A leaf that wants a gradient; it shares x's block.
template <class T>
Tensor<T> variable(const Tensor<T>& x) {
  return x.with_node(NodeRef(new Leaf<T>(x.shape())));
}

// The same values as a constant; it shares x's block.
template <class T>
Tensor<T> detach(const Tensor<T>& x) {
  return x.without_node();
}

template <class T>
Tensor<T> Tensor<T>::grad() const {
  require(requires_grad(), "grad: a tensor of shape ", shape_, " requires no gradient; make it with variable()");
  if (!node_->leaf()) return {};
  auto& leaf = *static_cast<Leaf<T>*>(node_.get());
  const std::lock_guard lock(leaf.mutex);
  leaf.settle();
  return leaf.grad;
}
template <class T>
void Tensor<T>::set_grad(const Tensor& dx) const {
  require(requires_grad(), "set_grad: a tensor of shape ", shape_, " requires no gradient; make it with variable()");
  require<ShapeError>(!dx || dx.shape() == shape_, "set_grad: a gradient of shape ", dx.shape(), " for a tensor of ",
                      shape_);
  if (dx) require_same_device("set_grad", {"x", *this, 0}, {"gradient", dx, 0});
  node_->clear();
  static_cast<NodeOf<T>*>(node_.get())->grad = dx.without_node();
}

// The gradient of a variable or parameter x as it came: with `rows`, zero in all others; without, `values` is x.grad().
// For what goes through gradients without making them dense; empty where there is none.
template <class T>
RowGradient<T> sparse_grad(const Tensor<T>& x) {
  if (x.requires_grad() && x.node()->leaf()) {
    auto& leaf = *static_cast<Leaf<T>*>(x.node().get());
    const std::lock_guard lock(leaf.mutex);
    if (leaf.by_rows) return leaf.by_rows;
  }
  return {{}, x.requires_grad() ? x.grad() : Tensor<T>()};
}
// In place of the one there is.
template <class T>
void set_sparse_grad(const Tensor<T>& x, const RowGradient<T>& dx) {
  if (!dx.rows) return x.set_grad(dx.values);
  x.set_grad({});
  static_cast<Leaf<T>*>(x.node().get())->by_rows = dx;
}

// Adds to the gradient of every variable and parameter that y depends on: the sum over y's elements of dy times their
// derivative. The graph is freed on the way. Throws ShapeError when dy is not of y's shape, Error when y depends on
// nothing that requires a gradient, when the graph was freed before, and when a saved tensor was overwritten. Passes of several
// threads may meet in one variable or parameter; their order decides the rounding of its sum.
template <class T>
void backward(const Tensor<T>& y, const Tensor<T>& dy) {
  require(y.requires_grad(), "backward: the tensor of shape ", y.shape(),
          " does not depend on any variable or parameter");
  require_same_device("backward", {"y", y, 0}, {"dy", dy, 0});
  const Tensor<T> given = dy.as_of_now();
  Pass pass;
  pass.deliver(*y.node().get(), y.node(), given);
  pass.run();
}

// backward of a loss with one element.
template <class T>
void backward(const Tensor<T>& loss) {
  require<ShapeError>(loss.size() == 1, "backward: a loss has one element, this one has shape ", loss.shape(),
                      "; give backward(y, dy) its gradient");
  backward(loss, Tensor<T>(loss.shape(), {static_cast<T>(1.f)}).to(loss.device()));
}

// The gradients of a one-element loss with respect to `wanted` (leaves or intermediate results), one each; what variables
// and parameters have accumulated stays as it is. Zeros where the loss does not depend on one.
template <class T>
std::vector<Tensor<T>> grad(const Tensor<T>& loss, const std::vector<Tensor<T>>& wanted) {
  require<ShapeError>(loss.size() == 1, "grad: a loss has one element, this one has shape ", loss.shape());
  require(loss.requires_grad(), "grad: the loss does not depend on any variable or parameter");
  std::vector<std::unique_ptr<Leaf<T>>> stand_ins;
  std::vector<Pass::Target> targets;
  for (const Tensor<T>& x : wanted) {
    require(x.requires_grad(), "grad: an input of shape ", x.shape(), " requires no gradient; make it with variable()");
    stand_ins.push_back(std::make_unique<Leaf<T>>(x.shape()));
    targets.push_back({x.node().get(), stand_ins.back().get()});
  }
  {
    Pass pass(std::move(targets), false);
    pass.deliver(*loss.node().get(), loss.node(), Tensor<T>(loss.shape(), {static_cast<T>(1.f)}).to(loss.device()));
    pass.run();
  }
  std::vector<Tensor<T>> grads;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    std::size_t first = 0;  // a tensor that is wanted twice has one stand-in
    while (wanted[first].node() != wanted[i].node()) ++first;
    const Tensor<T> dx = stand_ins[first]->grad;
    grads.push_back(dx ? dx : zeros<T>(wanted[i].shape(), wanted[i].device()));
  }
  return grads;
}

}  // namespace heddle
