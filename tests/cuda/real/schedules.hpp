// What tests ask of the GPU beside its work, of a real one. The same for the emulator stands in ../emulated.
#pragma once
#include <cuda_runtime.h>

#include <cstdlib>

#include "../../catch.hpp"

namespace heddle::emulator {
// Somebody who is slow watches, compute-sanitizer here: HEDDLE_RACES_WATCHED=1 keeps shapes small.
inline bool races_are_watched() { return std::getenv("HEDDLE_RACES_WATCHED") != nullptr; }
}  // namespace heddle::emulator

namespace heddle::testing {

// Calls f a few times: the GPU draws a schedule for each.
template <class F>
void each_schedule(F&& f) {
  const int schedules = emulator::races_are_watched() ? 1 : 5;
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
