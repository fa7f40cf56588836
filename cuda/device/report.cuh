// What a kernel found wrong with its input, told to the host without stopping the stream: a record in host memory that the GPU
// writes. The next call that waits throws it.
#pragma once
#include <cstdint>

#include "launch.cuh"

namespace heddle::cuda {

// An id outside its table. The texts are the host's.
struct Report {
  unsigned raised;  // not 0 once somebody has written the rest
  const char *op, *what, *where;
  std::int64_t id, position, limit;
};

// The process's one record, as kernels see it (runtime.cu).
Report* report();

}  // namespace heddle::cuda
