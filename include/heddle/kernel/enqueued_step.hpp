// EnqueuedStep: a step of an optimizer whose gradients a GPU checks, so the host learns later whether it took place.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <heddle/base/error.hpp>

namespace heddle::kernel {

struct EnqueuedStep {
  enum class Outcome { unknown, applied, skipped };

  const char* optimizer;
  std::shared_ptr<const std::vector<std::string>> names;  // of all parameters of the optimizer
  std::vector<std::size_t> parameters;                    // those that it updates, in the order of the kernel's table
  std::atomic<Outcome> outcome = Outcome::unknown;
  void* stream = nullptr;         // on which it is enqueued
  unsigned long long number = 0;  // among the steps on the stream, from 1; 0 before it is enqueued

  EnqueuedStep(const char* of, std::shared_ptr<const std::vector<std::string>> all, std::vector<std::size_t> updated)
      : optimizer(of), names(std::move(all)), parameters(std::move(updated)) {}

  // Sets the outcome unless it is known.
  void decide(Outcome now) {
    Outcome before = Outcome::unknown;
    outcome.compare_exchange_strong(before, now);
  }
};

// Waits until the outcome of a step is known. Throws the Error of the step that failed on its stream, if there is one.
// Defined in cuda/steps.cu.
void wait_for(const EnqueuedStep& step);

// Throws the Error for a gradient that is not finite. `later` is the number of steps after this one that were skipped.
[[noreturn, gnu::cold]] inline void fail_not_finite(const char* optimizer, const std::string& parameter,
                                                    std::size_t later = 0) {
  const std::string skipped =
      "; " + std::to_string(later) + (later == 1 ? " later step was" : " later steps were") + " skipped, too";
  fail(optimizer, ": the gradient of '", parameter,
       "' is not finite; nothing was updated, and all gradients were cleared", later > 0 ? skipped : "");
}

}  // namespace heddle::kernel
