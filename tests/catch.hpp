// Includes Catch2 2.13 (Debian, Ubuntu) or 3, and gives both the same names. HEDDLE_CATCH2_3 comes from CMake.
#pragma once
#ifdef HEDDLE_CATCH2_3
#include <catch2/catch_all.hpp>
namespace heddle::testing {
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
}  // namespace heddle::testing
#else
#include <catch2/catch.hpp>
namespace heddle::testing {
using Approx = Catch::Detail::Approx;
inline auto ContainsSubstring(const std::string& part) { return Catch::Matchers::Contains(part); }
}  // namespace heddle::testing
#endif
