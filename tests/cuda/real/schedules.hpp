// Schedules and scarce memory of a real GPU. ../emulated has the same interface for the emulator.
#pragma once
#include <cuda_runtime.h>

#include <heddle/gpu/runtime.hpp>

#include "../../catch.hpp"
#include "../../harness/devices.hpp"

namespace heddle::testing {

// Calls f five times, or once if a slow tool watches memory accesses. The GPU chooses a schedule each time.
template <class F>
void each_schedule(F&& f) {
  const int schedules = races_are_watched() ? 1 : 5;
  for (int schedule = 0; schedule < schedules; ++schedule) {
    CAPTURE(schedule);
    f();
  }
}

// The GPU's free memory, without an artificial limit.
struct ScarceMemory {
  std::size_t bytes = 0;
  ScarceMemory() {
    std::size_t all = 0;
    if (cudaMemGetInfo(&bytes, &all) != cudaSuccess) FAIL("cudaMemGetInfo");
  }
};

// A scope in which a process has several GPUs, if there are as many, and from which the calling thread returns to the
// first one.
class SeveralGpus {
 public:
  explicit SeveralGpus(int count) : exist_(cuda::device_count() >= count) {}
  SeveralGpus(const SeveralGpus&) = delete;
  ~SeveralGpus() { cuda::set_device(0); }
  explicit operator bool() const { return exist_; }

 private:
  const bool exist_;
};

}  // namespace heddle::testing
