// Reports invalid input of a kernel to the host without stopping the stream. The GPU writes a record in host memory;
// the next synchronize() or copy to the host throws it as an error.
#pragma once
#include <cstdint>
#include <heddle/base/view.hpp>
#include <heddle/kernel/id_check.hpp>

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

// Reports an invalid id, unless another report is pending.
__device__ inline void raise_report(const kernel::IdCheck& check, std::int64_t id, Index position, Report* report) {
  if (atomicExch(&report->claimed, 1u)) return;
  report->op = check.op;
  report->what = check.what;
  report->where = check.where;
  report->id = id;
  report->position = position;
  report->limit = check.limit;
  __threadfence_system();
  atomicExch(&report->raised, 1u);
}

// Reports the invalid id at `position` if it is the first one.
template <class I>
__device__ void report_if_first(const kernel::IdCheck& check, View<const I, 1> ids, Index position, Report* report) {
  for (Index n = 0; n < position; ++n)
    if (check.is_invalid(ids(n))) return;
  raise_report(check, ids(position), position, report);
}

}  // namespace heddle::cuda
