// The nodes of operations and leaves by element type: their gradients, and how contributions to them are accumulated.
#pragma once
#include <mutex>

#include <heddle/autograd/gradient.hpp>
#include <heddle/base/fork.hpp>

namespace heddle {

namespace detail {

// Stores the calling thread's stream as the one on which a result on `device`, or a leaf's gradient, was computed.
inline void mark_stream(Node& node, Device device) {
  if constexpr (has_cuda)
    if (device == Device::cuda) node.stream = cuda::stream();
}

// The node of a Tensor<T>.
template <class T>
struct NodeOf : Node {
  const Shape shape;
  Tensor<T> grad;
  bool takes_sums = false;  // whether it is a CastOfWeight
  bool is_lent = false;     // whether a Contribution has taken `grad`, to add to it

  // Creates the node of an operation; `s` is the shape of the result and of its gradient.
  NodeOf(const char* name, Shape s) : Node(name), shape(s) {}
  void clear() override {
    grad = {};
    is_lent = false;
  }
  void copy_grad(Node& to) override { static_cast<NodeOf&>(to).add(*this, grad); }

  // Adds a contribution; `from` is the operation that computed it.
  void add(const Node& from, const Tensor<T>& dx) {
    require<ShapeError>(dx.shape() == shape, "backward of '", from.op, "': a gradient has shape ", dx.shape(),
                        ", but its tensor has shape ", shape);
    // A leaf's gradient outlives the pass, so it must not share memory with the caller or another leaf.
    if (!grad) {
      grad = is_leaf() && dx.is_shared() ? deep_copy(dx) : dx.without_node();
      return;
    }
    const Tensor<T> before = is_leaf() ? grad.as_of_now() : grad;  // the user may have scaled a leaf's gradient since
    Tensor<T> sum(shape, dx.device());
    dispatch_if_floating(dx, "backward",
                         [&](auto device) { kernel::add(device, view<1>(before), view<1>(dx), view<1>(sum)); });
    grad = sum;
  }
};

// The node of a variable or parameter. Its gradient outlives the backward passes, which add to it.
template <class T>
struct Leaf final : NodeOf<T> {
  std::mutex mutex;         // backward passes of several threads may add to this leaf at once
  RowGradient<T> by_rows;   // replaces `grad` while it is the only contribution
  bool is_in_runs = false;  // whether a run of a cuda::Graph has reached it

  // Creates the leaf of a variable of shape `s`.
  explicit Leaf(Shape s) : NodeOf<T>("leaf", s) {}
  bool is_leaf() const override { return true; }
  std::span<const NodeRef> input_nodes() const override { return {}; }
  void run(BackwardPass&) override {}
  void clear() override {
    const CriticalSection section(mutex);
    NodeOf<T>::clear();
    by_rows = {};
  }

  // Replaces a sparse gradient by a dense one.
  void densify() {
    if (by_rows) this->grad = std::exchange(by_rows, {}).dense(this->shape);
  }
  // Lets the calling thread's stream use a gradient that was computed on another one.
  void join_stream() {
    if constexpr (has_cuda) {
      if (!this->grad || this->grad.device() != Device::cuda || this->stream == cuda::stream()) return;
      cuda::order_streams(this->stream, cuda::stream());
      cuda::record_stream(this->grad, cuda::stream());
    }
  }
  void take(const Node& from, const Tensor<T>& dx) {
    const CriticalSection section(mutex);
    densify();
    join_stream();
    this->add(from, dx);
    mark_stream(*this, dx.device());
  }
  void take(const Node& from, const RowGradient<T>& dx) {
    if (!dx.rows) return take(from, dx.values);
    const CriticalSection section(mutex);
    if (!this->grad && !by_rows) {
      by_rows = dx;
    } else {
      densify();
      this->add(from, dx.dense(this->shape));
    }
  }
};

// The node of a parameter's cast. It hands a gradient in the type of its sums to the parameter, without rounding it.
template <class T>
struct CastOfWeight : NodeOf<T> {
  explicit CastOfWeight(Shape s) : NodeOf<T>("cast", s) { this->takes_sums = true; }
  bool is_leaf() const override { return false; }
  virtual void take(BackwardPass& pass, const Node& from, const Tensor<Acc<T>>& dx) = 0;
};

}  // namespace detail
}  // namespace heddle
