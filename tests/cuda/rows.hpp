// Numbers of rows for kernels of which a block or a warp takes some rows.
#pragma once
#include <vector>

#include "../harness/devices.hpp"

namespace heddle::testing {

/// Returns odd numbers of rows, none included.
inline std::vector<Index> rows_to_test() {
  if (races_are_watched()) return {0, 1, 33};
  return {0, 1, 31, 33, 257};
}

}  // namespace heddle::testing
