// Reverse-mode differentiation. The graph is the tensors: an operation's result holds a node, the node holds the
// operation's inputs and its backward, and all of it dies with the last handle.
#pragma once
#include <algorithm>
#include <optional>
#include <tuple>

#include <heddle/tensor.hpp>

namespace heddle {

namespace kernel {
template <class T>
void add(Cpu, View<const T, 1> a, View<const T, 1> b, View<T, 1> y) {
  for (Index i = 0; i < y.extent[0]; ++i) y(i) = static_cast<T>(static_cast<Acc<T>>(a(i)) + static_cast<Acc<T>>(b(i)));
}
}  // namespace kernel

// While one lives, operations on this thread are not recorded.
class NoGrad {
 public:
  NoGrad() : before_(std::exchange(mode, mode == Mode::backward ? mode : Mode::quiet)) {}
  NoGrad(const NoGrad&) = delete;
  ~NoGrad() { mode = before_; }

 private:
  Mode before_;
};

// A node whose operation gave a Tensor<T>: every Tensor<T>'s node is one.
template <class T>
struct NodeOf : Node {
  const Shape shape;
  Tensor<T> grad;

  NodeOf(const char* name, Shape s) : Node(name), shape(s) {}
  void clear() override { grad = {}; }
  void copy_grad(Node& to) override { static_cast<NodeOf&>(to).add(*this, grad); }

  // Adds a contribution; `from` is the operation that computed it.
  void add(const Node& from, const Tensor<T>& dx) {
    require<ShapeError>(dx.shape() == shape, "backward of '", from.op, "': a gradient of shape ", dx.shape(), " for an input of ", shape);
    if (!grad) {
      grad = dx.without_node();
      return;
    }
    Tensor<T> sum(shape, dx.device());
    on(dx, [&](auto device) { kernel::add(device, view<1>(std::as_const(grad)), view<1>(dx), view<1>(sum)); });
    grad = sum;
  }
};

template <class T>
struct Leaf final : NodeOf<T> {
  explicit Leaf(Shape s) : NodeOf<T>("leaf", s) {}
  bool leaf() const override { return true; }
  void run(Pass&) override {}
};

// One backward pass: pops the newest node that has a gradient. A node's consumers are all younger, so its gradient is
// complete by then.
class Pass {
 public:
  // Where gradients of leaves go: into the leaves, or, with targets, only to their stand-ins.
  struct Target {
    Node* node;
    Node* stand_in;
  };
  explicit Pass(std::vector<Target> targets = {}, bool leaves = true) : targets_(std::move(targets)), leaves_(leaves) {}
  Pass(const Pass&) = delete;
  ~Pass() {
    mode = before_;
    for (const NodeRef& node : pending_) node->clear();
  }

  template <class T>
  void deliver(const Node& from, const NodeRef& input, const Tensor<T>& dx) {
    if (!input || !dx) return;
    auto* node = static_cast<NodeOf<T>*>(input.get());
    if (node->leaf() && !leaves_) {
      node = static_cast<NodeOf<T>*>(stand_in(node));
      if (!node) return;
    }
    const bool first = !node->grad;
    node->add(from, dx);
    if (!first || node->leaf()) return;
    pending_.push_back(input);
    std::push_heap(pending_.begin(), pending_.end(), older);
  }

  void run() {
    while (!pending_.empty()) {
      std::pop_heap(pending_.begin(), pending_.end(), older);
      const NodeRef node = std::move(pending_.back());
      pending_.pop_back();
      if (Node* const target = stand_in(node.get())) node->copy_grad(*target);
      const Clear clear{*node};
      node->run(*this);
    }
  }

 private:
  struct Clear {
    Node& node;
    ~Clear() { node.clear(); }
  };
  static bool older(const NodeRef& a, const NodeRef& b) { return a->born < b->born; }
  Node* stand_in(const Node* node) const {
    for (const Target& t : targets_)
      if (t.node == node) return t.stand_in;
    return nullptr;
  }

  std::vector<NodeRef> pending_;  // a heap
  std::vector<Target> targets_;
  bool leaves_;
  Mode before_ = std::exchange(mode, Mode::backward);
};

inline void require_alive(bool alive, const char* op) {
  require(alive, "backward: the graph through '", op,
          "' was already used and freed by an earlier backward; compute the loss again to differentiate it again");
}

template <class T, class Backward, class... In>
struct Recorded final : NodeOf<T> {
  std::tuple<std::conditional_t<true, NodeRef, In>...> inputs;
  std::optional<Backward> backward;  // empty once it ran: what it saved is released

  Recorded(const char* name, Shape s, Backward f, const Tensor<In>&... x)
      : NodeOf<T>(name, s), inputs(x.node()...), backward(std::move(f)) {}
  bool leaf() const override { return false; }

  void run(Pass& pass) override {
    require_alive(backward.has_value(), this->op);
    const auto grads = (*backward)(std::as_const(this->grad));
    backward.reset();
    hand_on(pass, grads, std::index_sequence_for<In...>{});
  }

 private:
  template <std::size_t... I>
  void hand_on(Pass& pass, const std::tuple<Tensor<In>...>& grads, std::index_sequence<I...>) {
    (pass.deliver<In>(*this, std::exchange(std::get<I>(inputs), {}), std::get<I>(grads)), ...);
  }
  template <class U>
  void hand_on(Pass& pass, const Tensor<U>& dx, std::index_sequence<0>) {
    pass.deliver<U>(*this, std::exchange(std::get<0>(inputs), {}), dx);
  }
};

template <class T, class Backward>
struct RecordedList final : NodeOf<T> {
  std::vector<NodeRef> inputs;
  std::optional<Backward> backward;

  RecordedList(const char* name, Shape s, Backward f, const std::vector<Tensor<T>>& xs)
      : NodeOf<T>(name, s), backward(std::move(f)) {
    for (const Tensor<T>& x : xs) inputs.push_back(x.node());
  }
  bool leaf() const override { return false; }

  void run(Pass& pass) override {
    require_alive(backward.has_value(), this->op);
    const std::vector<Tensor<T>> grads = (*backward)(std::as_const(this->grad));
    backward.reset();
    for (std::size_t i = 0; i < inputs.size(); ++i) pass.deliver<T>(*this, std::exchange(inputs[i], {}), grads.at(i));
  }
};

// Names the tensors that an operation is recorded on.
template <class... In>
std::tuple<const Tensor<In>&...> inputs(const Tensor<In>&... x) {
  return {x...};
}

// Attaches `backward` to y, the result of `op`: record("linear", y, inputs(x, weight, bias), lambda). The lambda maps dy (of y's shape) to a std::tuple with one gradient per input, in their order and of their shapes; an
// empty tensor says that there is none. With a single input it may return the tensor alone.
template <class T, class... In, class Backward>
Tensor<T> record(const char* op, const Tensor<T>& y, const std::tuple<const Tensor<In>&...>& operands, Backward backward) {
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
  const bool wanted = std::any_of(operands.begin(), operands.end(), [](const Tensor<T>& x) { return x.requires_grad(); });
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
  return static_cast<const NodeOf<T>*>(node_.get())->grad;
}
template <class T>
void Tensor<T>::set_grad(const Tensor& dx) const {
  require(requires_grad(), "set_grad: a tensor of shape ", shape_, " requires no gradient; make it with variable()");
  require<ShapeError>(!dx || dx.shape() == shape_, "set_grad: a gradient of shape ", dx.shape(), " for a tensor of ", shape_);
  static_cast<NodeOf<T>*>(node_.get())->grad = dx.without_node();
}

// Adds to the gradient of every variable and parameter that y depends on: the sum over y's elements of dy times their
// derivative. The graph is freed on the way. Throws ShapeError when dy is not of y's shape, Error when y depends on
// nothing that requires a gradient, when the graph was freed before, and when a saved tensor was overwritten.
template <class T>
void backward(const Tensor<T>& y, const Tensor<T>& dy) {
  require(y.requires_grad(), "backward: the tensor of shape ", y.shape(), " does not depend on any variable or parameter");
  Pass pass;
  pass.deliver(*y.node().get(), y.node(), dy);
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
    Tensor<T> dx = stand_ins[first]->grad;
    if (!dx) {
      dx = like(wanted[i]);
      std::fill_n(dx.data(), dx.size(), static_cast<T>(0.f));
    }
    grads.push_back(dx);
  }
  return grads;
}

}  // namespace heddle
