// Schedules and scarce memory of a real GPU. ../emulated has the same interface for the emulator.
#pragma once
#include <cuda_runtime.h>

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

}  // namespace heddle::testing
