// The recorded operations of the graph, and the backward pass through them. The tensors own the graph: an operation's
// result holds its node, and the node holds the nodes of the operation's inputs and its backward. All of them are
// released with the last handle.
#pragma once
#include <algorithm>
#include <concepts>
#include <thread>
#include <tuple>
#include <vector>

#include <heddle/autograd/nodes.hpp>
#include <heddle/autograd/run_log.hpp>

namespace heddle::detail {

// Follows the backward passes of a thread, to know when the gradient of a leaf is complete.
class PassWatch {
 public:
  // A pass begins at the node `root`, and goes through the nodes from which it was computed.
  virtual void begins(const NodeRef& root) = 0;
  // Only nodes with an id up to this one may still contribute to a leaf.
  virtual void reaches(std::uint64_t id) = 0;

 protected:
  ~PassWatch() = default;
};

// The watches of all threads, of which a thread has at most one. They are not thread-local: LeakSanitizer of clang 14
// crashes if a library that can be unloaded has more thread-local variables.
class PassWatches {
 public:
  static void add(PassWatch& watch) {
    const CriticalSection section(mutex);
    all.emplace_back(std::this_thread::get_id(), &watch);
    ++count;
  }
  static void remove(const PassWatch& watch) {
    const CriticalSection section(mutex);
    std::erase_if(all, [&](const auto& each) { return each.second == &watch; });
    --count;
  }
  // Returns the watch of this thread, or null.
  static PassWatch* find() {
    if (count.load(std::memory_order_relaxed) == 0) return nullptr;
    const CriticalSection section(mutex);
    for (const auto& [thread, watch] : all)
      if (thread == std::this_thread::get_id()) return watch;
    return nullptr;
  }

 private:
  static inline std::mutex mutex;
  static inline std::vector<std::pair<std::thread::id, PassWatch*>> all;
  static inline std::atomic<int> count = 0;
};

// One backward pass. It repeatedly takes the node with the highest id that has a gradient: the node's consumers have
// higher ids, so its gradient is complete.
class BackwardPass {
 public:
  // A node whose gradient is collected in a stand-in.
  struct Target {
    Node* node;
    Node* stand_in;
  };
  // Accumulates gradients of leaves in the leaves, or only in stand-ins if `leaves` is false.
  explicit BackwardPass(std::vector<Target> targets = {}, bool leaves = true)
      : targets_(std::move(targets)), leaves_(leaves) {}
  BackwardPass(const BackwardPass&) = delete;
  // A pass that did not finish leaves no gradients behind, not even partial sums in leaves.
  ~BackwardPass() {
    grad_mode = previous_;
    for (const NodeRef& node : pending_) node->clear();
    if (!finished_)
      for (const NodeRef& leaf : reached_leaves_) leaf->clear();
    if constexpr (has_cuda)
      if (forward_stream_) cuda::order_streams(cuda::stream(), forward_stream_);
  }

  const std::uint64_t id = next_node_id.fetch_add(1, std::memory_order_relaxed);  // above those of its nodes

  // Adds dx to the gradient of `input` and makes the node pending. Skips absent inputs and gradients. Throws ShapeError
  // if dx does not have the input's shape.
  template <class T>
  void deliver(const Node& from, const NodeRef& input, const Tensor<T>& dx) {
    if (!input || !dx) return;
    auto* node = static_cast<NodeOf<T>*>(input.get());
    if (node->is_leaf() && !leaves_) {
      node = static_cast<NodeOf<T>*>(stand_in(node));
      if (!node) return;
    }
    if (node->is_leaf()) {
      if (leaves_) {  // otherwise it is a stand-in, which lives as long as the pass
        reached_leaves_.push_back(input);
        log_leaf(*static_cast<Leaf<T>*>(node));
      }
      return static_cast<Leaf<T>*>(node)->take(from, dx);
    }
    const bool is_pending = std::exchange(node->is_lent, false) || node->grad;
    node->add(from, dx);
    if (is_pending) return;
    pending_.push_back(input);
    std::push_heap(pending_.begin(), pending_.end(), older);
  }

  // Delivers a sparse gradient, which stays sparse in a leaf.
  template <class T>
  void deliver(const Node& from, const NodeRef& input, const RowGradient<T>& dx) {
    if (!input || !dx) return;
    if (input->is_leaf() && leaves_) {
      reached_leaves_.push_back(input);
      return static_cast<Leaf<T>*>(input.get())->take(from, dx);
    }
    deliver(from, input, dx.dense(static_cast<NodeOf<T>*>(input.get())->shape));
  }

  // Delivers the gradient of a bf16 tensor. If there are sums, the input is absent or the cast of a parameter.
  template <std::same_as<bf16> T>
  void deliver(const Node& from, const NodeRef& input, const Bf16Gradient& dx) {
    if (!input) return;
    if (dx.sums)
      static_cast<CastOfWeight<bf16>*>(input.get())->take(*this, from, dx.sums);
    else
      deliver(from, input, dx.rounded);
  }

  // Returns whether the node is a target.
  bool is_target(const Node& node) const { return stand_in(&node); }

  // Begins with dy, the gradient of y, and runs until no node has a pending gradient. Rethrows what a backward throws.
  // If y was computed on another stream, the pass is ordered after the work of that stream, and its later work, which
  // may reuse saved tensors' memory, after the pass.
  template <class T>
  void run(const Tensor<T>& y, const Tensor<T>& dy) {
    if (!y.is_on(y.device())) fail_other_gpu(y.shape(), y.gpu());
    if constexpr (has_cuda)
      if (const Node& node = *y.node(); node.stream && !node.is_leaf() && node.stream != cuda::stream()) {
        forward_stream_ = node.stream;
        cuda::order_streams(forward_stream_, cuda::stream());
      }
    PassWatch* const watch = leaves_ ? PassWatches::find() : nullptr;
    if (watch) watch->begins(y.node());
    deliver(*y.node(), y.node(), dy);
    while (!pending_.empty()) {
      std::pop_heap(pending_.begin(), pending_.end(), older);
      const NodeRef node = std::move(pending_.back());
      pending_.pop_back();
      if (watch) watch->reaches(node->id);
      if (Node* const target = stand_in(node.get())) node->copy_grad(*target);
      const Clear clear{*node};
      node->run(*this);
    }
    if (watch) watch->reaches(0);
    finished_ = true;
  }

 private:
  struct Clear {
    Node& node;
    ~Clear() { node.clear(); }
  };
  static bool older(const NodeRef& a, const NodeRef& b) { return a->id < b->id; }
  Node* stand_in(const Node* node) const {
    for (const Target& t : targets_)
      if (t.node == node) return t.stand_in;
    return nullptr;
  }

  std::vector<NodeRef> pending_;  // a heap
  std::vector<NodeRef> reached_leaves_;
  bool finished_ = false;
  std::vector<Target> targets_;
  bool leaves_;
  void* forward_stream_ = nullptr;  // the stream on which y was computed, if it is not the calling thread's
  GradMode previous_ = std::exchange(grad_mode, GradMode::backward);
};

// Throws Error for a node whose backward ran before.
inline void require_alive(bool alive, const char* op) {
  require(alive, "backward: the graph through '", op,
          "' was already used and freed by an earlier backward; compute the loss again to differentiate it again");
}

// The backward of an operation. It is destroyed after its call, which releases the tensors that it saved. Not a
// std::optional: for each operation the compiler would instantiate twenty of its functions.
template <class Backward>
class SingleUse {
 public:
  explicit SingleUse(Backward&& f) : f_(std::move(f)) {}
  SingleUse(const SingleUse&) = delete;
  ~SingleUse() {
    if (alive_) f_.~Backward();
  }

  // Throws Error for a second call; `op` is the operation.
  template <class T>
  auto operator()(const Tensor<T>& dy, const char* op) {
    require_alive(alive_, op);
    auto gradients = f_(dy);
    alive_ = false;
    f_.~Backward();
    return gradients;
  }

 private:
  union {
    Backward f_;
  };
  bool alive_ = true;
};

// An operation with a fixed number of inputs, of any types. record() creates it.
template <class T, class Backward, class... In>
struct Recorded final : NodeOf<T> {
  NodeRef inputs[sizeof...(In)];
  SingleUse<Backward> backward;

  // Keeps the nodes of x, not their values.
  Recorded(const char* name, Shape s, Backward&& f, const Tensor<In>&... x)
      : NodeOf<T>(name, s), inputs{x.node()...}, backward(std::move(f)) {}
  bool is_leaf() const override { return false; }
  std::span<const NodeRef> input_nodes() const override { return inputs; }

  void run(BackwardPass& pass) override {
    if constexpr (returns_gradients())  // otherwise record() reports the error
      hand_on(pass, backward(std::as_const(this->grad), this->op), std::index_sequence_for<In...>{});
  }

  static constexpr bool takes_gradient = std::is_invocable_v<Backward&, const Tensor<T>&>;
  static constexpr bool returns_gradients() {
    if constexpr (takes_gradient)
      return is_gradient<std::invoke_result_t<Backward&, const Tensor<T>&>>;
    else
      return false;
  }

 private:
  template <class G>
  static constexpr bool is_gradient = (sizeof...(In) == 1 &&
                                       ((std::is_same_v<G, Tensor<In>> || std::is_same_v<G, RowGradient<In>>)&&...)) ||
                                      std::is_convertible_v<G, std::tuple<WeightGradient<In>...>>;

  template <std::size_t... Is>
  void hand_on(BackwardPass& pass, const std::tuple<WeightGradient<In>...>& grads, std::index_sequence<Is...>) {
    (pass.deliver<In>(*this, std::exchange(inputs[Is], {}), std::get<Is>(grads)), ...);
  }
  template <class U>
  void hand_on(BackwardPass& pass, const Tensor<U>& dx, std::index_sequence<0>) {
    pass.deliver<U>(*this, std::exchange(inputs[0], {}), dx);
  }
  template <class U>
  void hand_on(BackwardPass& pass, const RowGradient<U>& dx, std::index_sequence<0>) {
    pass.deliver<U>(*this, std::exchange(inputs[0], {}), dx);
  }
};

// An operation with any number of inputs of one type.
template <class T, class Backward>
struct RecordedList final : NodeOf<T> {
  std::vector<NodeRef> inputs;
  SingleUse<Backward> backward;

  RecordedList(const char* name, Shape s, Backward&& f, const std::vector<Tensor<T>>& xs)
      : NodeOf<T>(name, s), backward(std::move(f)) {
    for (const Tensor<T>& x : xs) inputs.push_back(x.node());
  }
  bool is_leaf() const override { return false; }
  std::span<const NodeRef> input_nodes() const override { return inputs; }

  void run(BackwardPass& pass) override {
    const std::vector<Tensor<T>> grads = backward(std::as_const(this->grad), this->op);
    require(grads.size() == inputs.size(), "backward: '", this->op, "' returned ", grads.size(), " gradients for ",
            inputs.size(), " inputs");
    for (std::size_t i = 0; i < inputs.size(); ++i) pass.deliver<T>(*this, std::exchange(inputs[i], {}), grads[i]);
  }
};

}  // namespace heddle::detail
