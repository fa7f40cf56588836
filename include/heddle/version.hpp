// The version of these headers, in one place: programs print it, the build reads it.
#pragma once

namespace heddle {

inline constexpr const char* version = "0.1.0";

}  // namespace heddle
