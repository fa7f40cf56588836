#pragma once

namespace heddle::kernel {

// The angles of a position, divided by it: one for each pair of columns of a head. A GPU gets them as an argument of
// the kernel.
struct RotaryFrequencies {
  static constexpr int most = 256;
  float of_pair[most];
  int pairs;
};

}  // namespace heddle::kernel
