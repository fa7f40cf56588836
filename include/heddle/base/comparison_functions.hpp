// == != < <= as function objects on numbers, written once for both devices. > and >= swap their operands.
#pragma once
#include <heddle/base/build.hpp>

namespace heddle::kernel {

struct Equal {
  HEDDLE_HD static bool f(auto a, auto b) { return a == b; }
};
struct NotEqual {
  HEDDLE_HD static bool f(auto a, auto b) { return a != b; }
};
struct Less {
  HEDDLE_HD static bool f(auto a, auto b) { return a < b; }
};
struct LessEqual {
  HEDDLE_HD static bool f(auto a, auto b) { return a <= b; }
};

}  // namespace heddle::kernel
