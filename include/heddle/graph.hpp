// The nodes of the graph and the pass that goes through them backwards. The graph is the tensors: an operation's result holds a node,
// the node holds the operation's inputs and its backward, and all of it dies with the last handle.
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
template <class T>
void copy(Cpu, View<const T, 1> from, View<T, 1> to) {
  std::copy_n(from.data, from.extent[0], to.data);
}
// Zeros in y, but for the rows that are given.
template <class T>
void put_rows(Cpu, View<const Index, 1> rows, View<const T, 2> values, View<T, 2> y) {
  std::fill_n(y.data, y.extent[0] * y.extent[1], static_cast<T>(0.f));
  for (Index m = 0; m < rows.extent[0]; ++m) std::copy_n(&values(m, 0), y.extent[1], &y(rows(m), 0));
}
}  // namespace kernel

// The same values in a block of their own.
template <class T>
Tensor<T> copy(const Tensor<T>& x) {
  Tensor<T> y = like(x);
  on(x, [&](auto device) { kernel::copy(device, view<1>(x), view<1>(y)); });
  return y;
}

// A gradient that is zero in most rows, as an embedding's is: those it has, ascending, each once.
template <class T>
struct RowGradient {
  Tensor<Index> rows;  // [M]
  Tensor<T> values;    // [M, the other axes taken as one]

  explicit operator bool() const { return static_cast<bool>(values); }

  // All rows, of a tensor of this shape.
  Tensor<T> dense(const Shape& shape) const {
    Tensor<T> y(shape, values.device());
    const View<T, 2> matrix{y.device_data(), {shape[0], values.dim(1)}};
    on(y, [&](auto device) { kernel::put_rows(device, view<1>(rows), view<2>(values), matrix); });
    return y;
  }
};

// A node whose operation gave a Tensor<T>: every Tensor<T>'s node is one.
template <class T>
struct NodeOf : Node {
  const Shape shape;
  Tensor<T> grad;

  // `s` is the shape of the result, and so of its gradient.
  NodeOf(const char* name, Shape s) : Node(name), shape(s) {}
  void clear() override { grad = {}; }
  void copy_grad(Node& to) override { static_cast<NodeOf&>(to).add(*this, grad); }

  // Adds a contribution; `from` is the operation that computed it.
  void add(const Node& from, const Tensor<T>& dx) {
    require<ShapeError>(dx.shape() == shape, "backward of '", from.op, "': a gradient of shape ", dx.shape(),
                        " for an input of ", shape);
    // A leaf's gradient outlives the pass, so that it is nobody else's: not the caller's, not another leaf's.
    if (!grad) {
      grad = leaf() && dx.shared() ? copy(dx) : dx.without_node();
      return;
    }
    const Tensor<T> before = leaf() ? grad.as_of_now() : grad;  // a leaf's may have been scaled by the user meanwhile
    Tensor<T> sum(shape, dx.device());
    on(dx, [&](auto device) { kernel::add(device, view<1>(before), view<1>(dx), view<1>(sum)); });
    grad = sum;
  }
};

// A variable's or a parameter's node. Its gradient outlives the backward passes, which add to it.
template <class T>
struct Leaf final : NodeOf<T> {
  std::mutex mutex;        // backward passes of several threads may meet here
  RowGradient<T> by_rows;  // instead of `grad`, while all that came is one of these

  // `s` is the shape of the variable.
  explicit Leaf(Shape s) : NodeOf<T>("leaf", s) {}
  bool leaf() const override { return true; }
  void run(Pass&) override {}
  void clear() override {
    NodeOf<T>::clear();
    by_rows = {};
  }

  // Turns a gradient by rows into a dense one.
  void settle() {
    if (by_rows) this->grad = std::exchange(by_rows, {}).dense(this->shape);
  }
  void take(const Node& from, const Tensor<T>& dx) {
    const std::lock_guard lock(mutex);
    settle();
    this->add(from, dx);
  }
  void take(const Node& from, const RowGradient<T>& dx) {
    const std::lock_guard lock(mutex);
    if (!this->grad && !by_rows) {
      by_rows = dx;
    } else {
      settle();
      this->add(from, dx.dense(this->shape));
    }
  }
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

  // Adds dx to the gradient of `input`, which then waits for its turn. Absent inputs and gradients are passed over.
  // Throws ShapeError for a gradient of another shape than the input's.
  template <class T>
  void deliver(const Node& from, const NodeRef& input, const Tensor<T>& dx) {
    if (!input || !dx) return;
    auto* node = static_cast<NodeOf<T>*>(input.get());
    if (node->leaf() && !leaves_) {
      node = static_cast<NodeOf<T>*>(stand_in(node));
      if (!node) return;
    }
    if (node->leaf()) return static_cast<Leaf<T>*>(node)->take(from, dx);
    const bool first = !node->grad;
    node->add(from, dx);
    if (!first) return;
    pending_.push_back(input);
    std::push_heap(pending_.begin(), pending_.end(), older);
  }

  // The same of a gradient by rows, which stays one where a leaf takes it.
  template <class T>
  void deliver(const Node& from, const NodeRef& input, const RowGradient<T>& dx) {
    if (!input || !dx) return;
    if (input->leaf() && leaves_) return static_cast<Leaf<T>*>(input.get())->take(from, dx);
    deliver(from, input, dx.dense(static_cast<NodeOf<T>*>(input.get())->shape));
  }

  // Until no node has a gradient that was not handed on. Passes on what a backward throws.
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

// Throws Error for a node whose backward ran before.
inline void require_alive(bool alive, const char* op) {
  require(alive, "backward: the graph through '", op,
          "' was already used and freed by an earlier backward; compute the loss again to differentiate it again");
}

// An operation with a fixed number of inputs, of any types; record() makes it.
template <class T, class Backward, class... In>
struct Recorded final : NodeOf<T> {
  std::tuple<std::conditional_t<true, NodeRef, In>...> inputs;
  std::optional<Backward> backward;  // empty once it ran: what it saved is released

  // Keeps the nodes of x, not their values: those are what f saved.
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
  template <class U>
  void hand_on(Pass& pass, const RowGradient<U>& dx, std::index_sequence<0>) {
    pass.deliver<U>(*this, std::exchange(std::get<0>(inputs), {}), dx);
  }
};

// An operation with any number of inputs of one type.
template <class T, class Backward>
struct RecordedList final : NodeOf<T> {
  std::vector<NodeRef> inputs;
  std::optional<Backward> backward;

  // The same.
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

}  // namespace heddle
