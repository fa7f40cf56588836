// Numbers of rows for tests of kernels in which a block or a warp processes several rows.
#pragma once
#include <vector>

#include "../harness/devices.hpp"

namespace heddle::testing {

/// Returns 0 and numbers of rows whose last warp or block is not full.
inline std::vector<Index> rows_to_test() {
  if (races_are_watched()) return {0, 1, 33};
  return {0, 1, 31, 33, 257};
}

}  // namespace heddle::testing
