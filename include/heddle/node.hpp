// Node: one recorded operation, as tensors hold it. What it does in a backward pass is in autograd.hpp.
#pragma once
#include <atomic>
#include <cstdint>
#include <utility>

namespace heddle {

inline std::atomic<std::uint64_t> births = 0;  // nodes made by all threads

// Recording by default, quiet under a NoGrad, backward inside a backward pass.
enum class Mode { recording, quiet, backward };
inline thread_local Mode mode = Mode::recording;  // what this thread does with the operations that it runs

class Pass;

// Nodes are born in execution order, so descending `born` is an order in which gradients are complete.
struct Node {
  const std::uint64_t born = births.fetch_add(1, std::memory_order_relaxed);
  const char* const op;  // "leaf" for a variable or parameter

  // `name` is not copied: it must outlive the node, as a literal does.
  explicit Node(const char* name) : op(name) {}
  Node(const Node&) = delete;
  virtual ~Node() = default;

  virtual bool leaf() const = 0;
  virtual void run(Pass&) = 0;           // hands this node's gradient on to its inputs
  virtual void clear() = 0;              // drops its gradient
  virtual void copy_grad(Node& to) = 0;  // `to` is of the same element type

 private:
  friend class NodeRef;
  std::atomic<std::uint32_t> references_ = 0;
  Node* next_released_ = nullptr;
};

// A counted reference. The last one releases the node, and what it alone held, by a loop: a graph may be a million
// operations long, and a destructor that recursed through it would overflow the stack.
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

  static void release(Node* node) {
    static thread_local Node* waiting = nullptr;
    static thread_local bool releasing = false;
    node->next_released_ = std::exchange(waiting, node);
    if (std::exchange(releasing, true)) return;
    while (waiting) delete std::exchange(waiting, waiting->next_released_);
    releasing = false;
  }

  Node* node_ = nullptr;
};

}  // namespace heddle
