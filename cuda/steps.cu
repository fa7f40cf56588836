// The steps of optimizers that are enqueued, by stream, which belongs to a GPU.
#include "device/steps.cuh"

#include <deque>
#include <map>

#include "device/gpu.cuh"
#include "device/graph_run.cuh"
#include "device/workspace.cuh"

namespace heddle::cuda {
namespace {

using Outcome = kernel::EnqueuedStep::Outcome;

class StepsOf {
 public:
  explicit StepsOf(cudaStream_t stream) : stream_(stream) {
    void* memory = nullptr;
    check(cudaMalloc(&memory, sizeof(StepState)), "cudaMalloc");
    state_ = static_cast<StepState*>(memory);
    go_on();
    check(cudaHostAlloc(&memory, sizeof(StepReport), cudaHostAllocMapped), "cudaHostAlloc");
    report_ = new (memory) StepReport{};
    check(cudaHostGetDevicePointer(&memory, report_, 0), "cudaHostGetDevicePointer");
    report_on_device_ = static_cast<StepReport*>(memory);
  }

  int gpu() const { return gpu_; }

  // Throws the failure of an earlier step if the host has not synchronized for long.
  StepCheck add(const std::shared_ptr<kernel::EnqueuedStep>& step) {
    steps_.size() < most_steps ? forget_checked() : throw_failure();
    steps_.push_back(step);
    step->stream = stream_;
    step->number = ++last_;
    return {last_, state_, report_on_device_};
  }

  bool is_checked(unsigned long long step) const {
    return __atomic_load_n(&report_->checked, __ATOMIC_ACQUIRE) >= step;
  }

  void throw_failure() {
    const unsigned long long failed = __atomic_load_n(&report_->failed, __ATOMIC_ACQUIRE);
    if (failed == 0) return forget_checked();
    while (number_of_first() < failed) forget_first(Outcome::applied);
    const std::shared_ptr<kernel::EnqueuedStep> step = steps_.front();
    const std::size_t later = steps_.size() - 1;
    const std::size_t parameter = step->parameters[static_cast<std::size_t>(report_->gradient)];
    while (!steps_.empty()) forget_first(Outcome::skipped);
    go_on();
    __atomic_store_n(&report_->failed, 0, __ATOMIC_RELEASE);
    kernel::fail_not_finite(step->optimizer, (*step->names)[parameter], later);
  }

 private:
  // Lets the updates that are enqueued from now on take place.
  void go_on() {
    const GpuScope scope(gpu_);
    check(cudaMemsetAsync(state_, 0, sizeof(StepState), stream_), "cudaMemsetAsync");
  }

  unsigned long long number_of_first() const { return last_ - steps_.size() + 1; }
  void forget_first(Outcome outcome) {
    steps_.front()->decide(outcome);
    steps_.pop_front();
  }
  // Forgets the steps that take place, so that their number does not grow if the host never synchronizes.
  void forget_checked() {
    const unsigned long long checked = __atomic_load_n(&report_->checked, __ATOMIC_ACQUIRE);
    if (__atomic_load_n(&report_->failed, __ATOMIC_ACQUIRE) > 0) return;
    while (!steps_.empty() && number_of_first() <= checked) forget_first(Outcome::applied);
  }

  static constexpr std::size_t most_steps = 256;  // before add() looks for a failure

  int gpu_ = current_device();
  cudaStream_t stream_;
  StepState* state_;
  StepReport *report_, *report_on_device_;
  std::deque<std::shared_ptr<kernel::EnqueuedStep>> steps_;  // whose outcome the host does not know
  unsigned long long last_ = 0;                              // the number of the last step
};

// The steps on all streams. They are never freed, like the pool of memory.
struct AllSteps {
  std::recursive_mutex mutex;  // with HEDDLE_SYNC=1, a launch within a StepScope throws its failure
  std::map<cudaStream_t, StepsOf> of_streams;
};
AllSteps& all_steps() {
  static AllSteps* const one = new AllSteps;
  return *one;
}

}  // namespace

StepScope::StepScope(const std::shared_ptr<kernel::EnqueuedStep>& step) : lock_(all_steps().mutex) {
  refuse_in_run("a step of an optimizer");
  const cudaStream_t stream = current_stream();
  std::map<cudaStream_t, StepsOf>& of_streams = all_steps().of_streams;
  const auto of_stream = of_streams.find(stream);  // perhaps of an earlier stream of this address, on another GPU
  if (of_stream != of_streams.end() && of_stream->second.gpu() != current_device()) of_streams.erase(of_stream);
  check_ = of_streams.try_emplace(stream, stream).first->second.add(step);
}

bool is_checked(const kernel::EnqueuedStep& step) {
  AllSteps& all = all_steps();
  const std::lock_guard lock(all.mutex);
  return all.of_streams.at(static_cast<cudaStream_t>(step.stream)).is_checked(step.number);
}

void throw_failed_step(cudaStream_t stream) {
  AllSteps& all = all_steps();
  const std::lock_guard lock(all.mutex);
  if (const auto found = all.of_streams.find(stream); found != all.of_streams.end()) found->second.throw_failure();
}

}  // namespace heddle::cuda

void heddle::kernel::wait_for(const EnqueuedStep& step) {
  cuda::refuse_in_run("a call that waits for a step of an optimizer");
  if (step.number == 0 || step.outcome != EnqueuedStep::Outcome::unknown) return;
  const auto stream = static_cast<cudaStream_t>(step.stream);
  if (!cuda::is_checked(step)) cuda::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  cuda::throw_failed_step(stream);
}
