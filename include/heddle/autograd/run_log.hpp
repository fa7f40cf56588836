// RunLog: what a run of a cuda::Graph reads and writes besides its inputs and results: the leaves whose gradients it
// computes, and the casts of weights that it uses.
#pragma once
#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include <heddle/autograd/nodes.hpp>
#include <heddle/base/philox.hpp>
#include <heddle/gpu/graphs.hpp>

namespace heddle::detail {

// moves_on_gpu counts how often a weight on the GPU, or its cast, has left its memory or got another node. Records of
// earlier runs are then out of date.
inline std::atomic<std::uint64_t> moves_on_gpu = 0;

// A leaf whose gradient a recorded run computes.
struct LoggedLeaf {
  virtual ~LoggedLeaf() = default;
  virtual const Node* node() const = 0;
  // Takes the gradient of earlier passes out of the leaf, so that the recorded run begins without one.
  virtual void set_aside() = 0;
  // Takes the gradient of the recorded run out of the leaf, and puts back what was set aside. The gradient's memory is
  // that of each replay's gradient.
  virtual void keep_place() = 0;
  // Adds the gradient of a replay to the leaf.
  virtual void deliver() = 0;
  // Copies a gradient that a replay has delivered, because another run will overwrite its memory.
  virtual void copy_out() = 0;
};

template <class T>
class LoggedLeafOf final : public LoggedLeaf {
 public:
  explicit LoggedLeafOf(Leaf<T>& leaf) : leaf_(&leaf), owner_(&leaf) {}
  const Node* node() const override { return leaf_; }
  void set_aside() override {
    const CriticalSection section(leaf_->mutex);
    before_ = std::exchange(leaf_->grad, {});
  }
  void keep_place() override {
    const CriticalSection section(leaf_->mutex);
    if (const Tensor<T> made = std::exchange(leaf_->grad, std::exchange(before_, {})))
      place_ = Tensor<T>::wrap(const_cast<T*>(made.device_data()), made.shape(), made.device());
  }
  void deliver() override {
    if (!place_) return;
    const CriticalSection section(leaf_->mutex);
    leaf_->join_stream();
    if (leaf_->grad)
      leaf_->add(*leaf_, place_);
    else
      leaf_->grad = place_;
    mark_stream(*leaf_, Device::cuda);
  }
  void copy_out() override {
    const CriticalSection section(leaf_->mutex);
    // A gradient that has moved to another GPU is a copy already.
    if (place_ && leaf_->grad.gpu() == place_.gpu() && leaf_->grad.device_data() == place_.device_data())
      leaf_->grad = deep_copy(leaf_->grad);
  }

 private:
  Leaf<T>* leaf_;
  NodeRef owner_;
  Tensor<T> before_, place_;
};

struct RunLog {
  std::vector<std::unique_ptr<LoggedLeaf>> leaves;
  std::vector<std::pair<const void*, void (*)(const void*)>> casts;  // of weights, and what brings each up to date
  bool is_closed = false;                                            // a recorded run may reach no other leaves

  template <class T>
  void add(Leaf<T>& leaf) {
    const bool is_known =
        std::any_of(leaves.begin(), leaves.end(), [&](const auto& logged) { return logged->node() == &leaf; });
    if (is_known) return;
    require(!is_closed, "cuda::Graph: the function reaches other variables or parameters than in the run before");
    leaf.is_in_runs = true;
    leaves.push_back(std::make_unique<LoggedLeafOf<T>>(leaf));
  }
  void add_cast(const void* weight, void (*update)(const void*)) {
    const bool is_known =
        std::any_of(casts.begin(), casts.end(), [&](const auto& cast) { return cast == std::pair(weight, update); });
    if (!is_known) casts.emplace_back(weight, update);
  }
};

// Returns the log of the calling thread's run; null outside of runs.
inline RunLog* current_run_log() {
  if constexpr (has_cuda)
    return static_cast<RunLog*>(cuda::run_log());
  else
    return nullptr;
}

// Notes that the calling thread's run, if there is one, adds to a leaf.
template <class T>
void log_leaf(Leaf<T>& leaf) {
  if (RunLog* const log = current_run_log()) log->add(leaf);
}
// Throws Error in a run: its replays would not change gradients in this way.
inline void require_no_run(const char* op) {
  require(!current_run_log(), op, " cannot be part of a run of cuda::Graph; set or clear gradients before or after it");
}
// Throws Error in a recorded run for draws that its replays would repeat.
inline void require_replayable(const kernel::Draws& draws) {
  const RunLog* const log = current_run_log();
  require(
      !log || !log->is_closed || draws.further,
      "cuda::Graph: the function draws from a Random that is not an input of the run, so that each replay would draw "
      "the same");
}

}  // namespace heddle::detail
