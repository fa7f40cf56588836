// Steps of optimizers, whose gradients the GPU checks. A gradient that is not finite stops this step's update and all
// later ones on the stream. The host learns of it when it next synchronizes, throws the error, and lets updates go on.
#pragma once
#include <memory>
#include <mutex>

#include <heddle/gpu/kernels.hpp>

#include "block.cuh"

namespace heddle::cuda {

// StepState holds what the updates on a stream read. It lies in device memory.
struct StepState {
  float factor;         // on the gradients of the current step
  unsigned is_stopped;  // whether updates are stopped
};

// StepReport holds what the GPU reports of the steps on a stream. It lies in host memory. Steps are numbered from 1.
struct StepReport {
  unsigned long long checked;  // the last step that was checked
  unsigned long long failed;   // the step that stopped the updates; 0 if none did
  Index gradient;              // its first gradient that is not finite
};

// StepCheck is a step as its kernels see it.
struct StepCheck {
  unsigned long long number;
  StepState* state;
  StepReport* report;
};

// Decides how a step updates: `clipping` has the sum of squares of all gradients, `gradient` is the first one that is
// not finite, if the sum is not. Called by one thread.
__device__ inline void decide(const StepCheck& step, const kernel::Clipping& clipping, Index gradient) {
  if (clipping.squares_on_gpu < infinity) {
    step.state->factor = static_cast<float>(clipping.factor());
  } else if (!step.state->is_stopped) {
    step.state->is_stopped = 1;
    step.report->gradient = gradient;
    __threadfence_system();
    atomicExch(&step.report->failed, step.number);
    __threadfence_system();
  }
  atomicExch(&step.report->checked, step.number);
}

// The scope in which a step's kernels are enqueued on the calling thread's stream, and no other step on any stream.
class StepScope {
 public:
  explicit StepScope(const std::shared_ptr<kernel::EnqueuedStep>& step);
  const StepCheck& check() const { return check_; }

 private:
  std::unique_lock<std::recursive_mutex> lock_;
  StepCheck check_;
};

// Returns whether the GPU has checked the gradients of a step that was enqueued.
bool is_checked(const kernel::EnqueuedStep& step);

// If a step on the stream was stopped by a gradient that is not finite, throws its error and lets updates go on. The
// caller must have synchronized with the stream, or with the check of a step.
void throw_failed_step(cudaStream_t stream);

}  // namespace heddle::cuda
