// Rounds numbers of rows up, so that batches of similar size share what is chosen or recorded for a size.
#pragma once
#include <bit>

#include <heddle/base/build.hpp>

namespace heddle::detail {

// Returns the smallest power of two that is not below x, which is at least 1.
constexpr Index power_of_two(Index x) { return static_cast<Index>(std::bit_ceil(static_cast<std::uint64_t>(x))); }

// Returns the step to whose multiples a number of rows is rounded up: 1 for up to 16 rows, and otherwise at most an
// eighth of them.
constexpr Index row_step(Index rows) { return power_of_two(rows > 16 ? (rows + 15) / 16 : 1); }

}  // namespace heddle::detail
