// Reports invalid input of a kernel to the host without stopping the stream. The GPU writes a record in host memory;
// the next synchronize() or copy to the host throws it as an error.
#pragma once
#include <cstdint>

#include "launch.cuh"

namespace heddle::cuda {

// An id that is out of range. The texts are in host memory. The thread that claims the record writes it, and raises the
// flag last.
struct Report {
  unsigned claimed, raised;
  const char *op, *what, *where;
  std::int64_t id, position, limit;
};

// Returns the device address of the process's only record (runtime.cu).
Report* report();

}  // namespace heddle::cuda
