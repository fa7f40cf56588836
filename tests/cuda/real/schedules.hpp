// Schedules, scarce memory and low grids of a real GPU. ../emulated has the same interface for the emulator.
#pragma once
#include <cuda_runtime.h>

#include "../../catch.hpp"
#include "../../harness/devices.hpp"

namespace heddle::testing {

// Calls f a few times: the GPU draws a schedule for each.
template <class F>
void each_schedule(F&& f) {
  const int schedules = races_are_watched() ? 1 : 5;
  for (int schedule = 0; schedule < schedules; ++schedule) {
    CAPTURE(schedule);
    f();
  }
}

// All that the GPU has to give.
struct ScarceMemory {
  std::size_t bytes = 0;
  ScarceMemory() {
    std::size_t all = 0;
    if (cudaMemGetInfo(&bytes, &all) != cudaSuccess) FAIL("cudaMemGetInfo");
  }
};

// Grids are as high as they are.
struct LowGrid {
  static constexpr Index height = 65535;
};

}  // namespace heddle::testing
