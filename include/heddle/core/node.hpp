// Node: one recorded operation, or a leaf. Tensors refer to nodes; autograd/graph.hpp runs their backwards.
#pragma once
#include <atomic>
#include <cstdint>
#include <span>
#include <utility>

namespace heddle::detail {

inline std::atomic<std::uint64_t> next_node_id = 0;  // over all threads

// The state of recording on a thread: on by default, off while a NoGrad exists, and off inside a backward pass.
enum class GradMode { recording, disabled, backward };
inline thread_local GradMode grad_mode = GradMode::recording;

class BackwardPass;
class NodeRef;

// One recorded operation, or a leaf: the node of a variable or parameter. Ids ascend in execution order: if nodes are
// visited in descending order, each node's gradient is complete when the node is visited.
struct Node {
  const std::uint64_t id = next_node_id.fetch_add(1, std::memory_order_relaxed);
  const char* const op;    // "leaf" for a variable or parameter
  void* stream = nullptr;  // on the GPU, the stream on which the operation, or the gradient of a leaf, was computed

  // Creates a node. `name` is not copied: it must outlive the node, as a literal does.
  explicit Node(const char* name) : op(name) {}
  Node(const Node&) = delete;
  virtual ~Node() = default;

  virtual bool is_leaf() const = 0;
  virtual std::span<const NodeRef> input_nodes() const = 0;  // null for an input that is a constant
  virtual void run(BackwardPass&) = 0;                       // computes the gradients of its inputs and delivers them
  virtual void clear() = 0;                                  // drops its gradient
  virtual void copy_grad(Node& to) = 0;                      // `to` has the same element type

 private:
  friend class NodeRef;
  std::atomic<std::uint32_t> references_ = 0;
  Node* next_released_ = nullptr;
};

// A counted reference. The last one deletes the node, and the nodes that it alone refers to, in a loop: a graph may
// have a million operations, and a recursive destructor would overflow the stack.
class NodeRef {
 public:
  NodeRef() = default;
  explicit NodeRef(Node* node) : node_(node) { acquire(); }
  NodeRef(const NodeRef& other) : node_(other.node_) { acquire(); }
  NodeRef(NodeRef&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  NodeRef& operator=(NodeRef other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~NodeRef() {
    if (node_ && node_->references_.fetch_sub(1, std::memory_order_acq_rel) == 1) release(node_);
  }

  Node* get() const { return node_; }
  Node* operator->() const { return node_; }
  Node& operator*() const { return *node_; }
  explicit operator bool() const { return node_ != nullptr; }
  friend bool operator==(const NodeRef&, const NodeRef&) = default;

 private:
  void acquire() const {
    if (node_) node_->references_.fetch_add(1, std::memory_order_relaxed);
  }

  // Not inlined, which saves 1 % of the code and of the compile time of README's program.
  [[gnu::noinline]] static void release(Node* node) {
    static thread_local Node* pending = nullptr;
    static thread_local bool is_releasing = false;
    node->next_released_ = std::exchange(pending, node);
    if (std::exchange(is_releasing, true)) return;
    while (pending) delete std::exchange(pending, pending->next_released_);
    is_releasing = false;
  }

  Node* node_ = nullptr;
};

}  // namespace heddle::detail
