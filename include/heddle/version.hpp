// The version of these headers, in one place: programs print it, the build reads it.
#pragma once

namespace heddle {

/// The version of heddle: major.minor.patch.
inline constexpr const char* version = "0.1.0";

}  // namespace heddle
