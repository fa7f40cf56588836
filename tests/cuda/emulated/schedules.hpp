// Schedules and scarce memory of the emulator. ../real has the same interface for a real GPU.
#pragma once
#include <cuda_runtime.h>

#include <heddle/gpu/runtime.hpp>

#include "../../catch.hpp"
#include "../../harness/devices.hpp"

namespace heddle::testing {

// Calls f with several schedules, and with other content in unwritten memory than usual. There are 20 schedules, or 3
// under AddressSanitizer unless HEDDLE_EXHAUSTIVE is set. If races are watched there are always 2, because
// ThreadSanitizer also reports races that a schedule does not show.
template <class F>
void each_schedule(F&& f) {
  emulator::Options& options = emulator::options();
  const emulator::Options before = options;
  options.fill = 0x3f7f3f7f;
  const std::uint64_t schedules = races_are_watched() ? 2 : is_exhaustive() ? 20 : 3;
  for (options.seed = 0; options.seed < schedules; ++options.seed) {
    CAPTURE(options.seed);
    f();
  }
  options = before;
}

// A scope in which the GPU's free memory is limited to `bytes`.
class ScarceMemory {
 public:
  static constexpr std::size_t bytes = std::size_t{1} << 20;
  ScarceMemory() { emulator::device().memory = emulator::device().in_use[0] + bytes; }
  ScarceMemory(const ScarceMemory&) = delete;
  ~ScarceMemory() { emulator::device().memory = before_; }

 private:
  const std::size_t before_ = emulator::device().memory;
};

// A scope in which a process has several GPUs, and from which the calling thread returns to the first one.
class SeveralGpus {
 public:
  explicit SeveralGpus(int count) { emulator::device().count = count; }
  SeveralGpus(const SeveralGpus&) = delete;
  ~SeveralGpus() {
    cuda::set_device(0);
    emulator::device().count = 1;
  }
  explicit operator bool() const { return true; }
};

}  // namespace heddle::testing
