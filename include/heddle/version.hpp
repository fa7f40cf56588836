// The version of these headers: programs print it, the build reads it. The namespace v0_1 in base/build.hpp repeats it.
#pragma once

namespace heddle {

/// The version of heddle: major.minor.patch.
inline constexpr const char* version = "0.1.0";

}  // namespace heddle
