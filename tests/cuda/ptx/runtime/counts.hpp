// The counts that PTX_SUMMARY and PTX_COUNT print.
#pragma once
#include "../interpreter.hpp"

namespace heddle::ptx {

// Calls of the host so far.
struct Calls {
  u64 allocations = 0, copies = 0, waits = 0, graphs = 0;
};
extern Calls calls;

// Adds a launch that took some seconds. Takes what the kernel has counted. With PTX_COUNT=launch, prints it.
void count_launch(Kernel& kernel, Dim grid, Dim block, double seconds);

}  // namespace heddle::ptx
